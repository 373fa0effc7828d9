// CuptiApi: the CUPTI functions in use, as pointers taken from libcupti.so.13 at run time. Programs
// start without CUDA, and tests put their own functions here. Only .cpp files that decode records
// see this header: it needs the toolkit's.
#pragma once

#include <cupti.h>

#include <memory>

#include "core/result.h"

namespace assay {

struct CuptiApi {
  decltype(&cuptiGetVersion) get_version = nullptr;
  decltype(&cuptiGetResultString) result_string = nullptr;
  decltype(&cuptiGetTimestamp) timestamp = nullptr;
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks = nullptr;
  decltype(&cuptiActivityEnable) enable = nullptr;
  decltype(&cuptiActivityDisable) disable = nullptr;
  decltype(&cuptiActivityEnableRuntimeApi) enable_runtime_api = nullptr;
  decltype(&cuptiActivityEnableDriverApi) enable_driver_api = nullptr;
  decltype(&cuptiActivityFlushAll) flush_all = nullptr;
  decltype(&cuptiActivityGetNextRecord) next_record = nullptr;
  decltype(&cuptiActivityGetNumDroppedRecords) dropped_records = nullptr;
  decltype(&cuptiActivitySetAttribute) set_attribute = nullptr;
  decltype(&cuptiFinalize) finalize = nullptr;
  decltype(&cuptiSetThreadIdType) set_thread_id_type = nullptr;
  decltype(&cuptiGetCallbackName) callback_name = nullptr;

  std::string path;              // of the loaded library
  std::shared_ptr<void> library; // keeps the functions loaded
};

// The error names what is missing: no library (CUDA's CUPTI is not installed or not on the search
// path), or one of another major version.
Result<CuptiApi> load_cupti(const char* library = "libcupti.so.13");

} // namespace assay
