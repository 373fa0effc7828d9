// Activity records to trace rows. Pure: a record in, a row out; used by the collector and, with
// canned records, by tests. Times stay CUPTI's (CLOCK_REALTIME nanoseconds).
#pragma once

#include <cupti.h>

#include <string>
#include <unordered_map>

#include "core/trace/trace.h"
#include "profilers/cupti/cupti_api.h"

namespace assay {

class TraceWriter;

// Demangled as far as the compiler's ABI library can.
std::string demangled_name(const char* mangled);

class CuptiDecoder {
public:
  explicit CuptiDecoder(const CuptiApi& api) : api_(api) {}

  // Appends the record's row. False: a kind that has none.
  bool decode(const CUpti_Activity& record, TraceWriter& names, TraceBatch& into);
  void forget_names();

private:
  struct KernelNames {
    NameId demangled = 0, short_name = 0, mangled = 0;
  };
  const KernelNames& kernel_names(const char* mangled, TraceWriter& names);
  NameId api_name(CUpti_CallbackDomain domain, CUpti_CallbackId id, TraceWriter& names);
  void decode_api(const CUpti_Activity& record, TraceWriter& names, TraceBatch& into);
  void decode_kernel(const CUpti_Activity& record, TraceWriter& names, TraceBatch& into);
  void decode_overhead(const CUpti_Activity& record, TraceWriter& names, TraceBatch& into);
  void decode_marker(const CUpti_Activity& record, TraceWriter& names, TraceBatch& into);

  const CuptiApi& api_;
  std::unordered_map<std::string, KernelNames> kernels_;
  std::unordered_map<std::uint64_t, NameId> calls_;
  struct OpenMarker {
    std::int64_t start;
    NameId text, domain;
    std::int64_t global_tid;
  };
  std::unordered_map<std::uint32_t, OpenMarker> markers_; // begun, not ended; by marker id
};

} // namespace assay
