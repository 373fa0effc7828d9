#include "profilers/cupti/cupti_api.h"

#include <dlfcn.h>

namespace assay {

namespace {

template <class Function> bool load(void* library, const char* name, Function& into) {
  into = reinterpret_cast<Function>(::dlsym(library, name));
  return into != nullptr;
}

std::string path_of(void* function, const char* fallback) {
  Dl_info info{};
  return ::dladdr(function, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : fallback;
}

} // namespace

Result<CuptiApi> load_cupti(const char* library) {
  void* handle = ::dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    return fail("GPU activity cannot be recorded: {} (CUPTI is part of the CUDA toolkit; put its "
                "directory into LD_LIBRARY_PATH)",
                ::dlerror());
  CuptiApi api;
  // Never closed: CUPTI's own threads run until the process ends.
  api.library = std::shared_ptr<void>(handle, [](void*) {});
  const char* missing = nullptr;
  const auto need = [&](const char* name, auto& function) {
    if (!load(handle, name, function)) missing = name;
  };
  need("cuptiGetVersion", api.get_version);
  need("cuptiGetResultString", api.result_string);
  need("cuptiGetTimestamp", api.timestamp);
  need("cuptiActivityRegisterCallbacks", api.register_callbacks);
  need("cuptiActivityEnable", api.enable);
  need("cuptiActivityDisable", api.disable);
  need("cuptiActivityEnableRuntimeApi", api.enable_runtime_api);
  need("cuptiActivityEnableDriverApi", api.enable_driver_api);
  need("cuptiActivityFlushAll", api.flush_all);
  need("cuptiActivityGetNextRecord", api.next_record);
  need("cuptiActivityGetNumDroppedRecords", api.dropped_records);
  need("cuptiActivitySetAttribute", api.set_attribute);
  need("cuptiFinalize", api.finalize);
  need("cuptiSetThreadIdType", api.set_thread_id_type);
  need("cuptiGetCallbackName", api.callback_name);
  if (missing != nullptr)
    return fail("GPU activity cannot be recorded: {} has no {}; it is too old", library, missing);
  api.path = path_of(reinterpret_cast<void*>(api.get_version), library);
  std::uint32_t version = 0;
  api.get_version(&version);
  if (version / 10000 != CUPTI_API_VERSION / 10000)
    return fail(
        "GPU activity cannot be recorded: {} is CUPTI {}, this build reads the records of {}",
        api.path,
        version,
        CUPTI_API_VERSION);
  return api;
}

} // namespace assay
