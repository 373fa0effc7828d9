// OperatorRecorder: hands LibTorch's operators to a TraceSession while it lives. Callbacks are
// process-wide, so that the autograd threads are seen; one recorder at a time.
#pragma once

#include <ATen/record_function.h>

#include "profilers/trace/trace_session.h"

namespace assay::worker {

class OperatorRecorder {
public:
  explicit OperatorRecorder(TraceSession& session);
  ~OperatorRecorder();
  OperatorRecorder(const OperatorRecorder&) = delete;
  OperatorRecorder& operator=(const OperatorRecorder&) = delete;

private:
  at::CallbackHandle handle_;
};

} // namespace assay::worker
