#include "app/worker/launch/operator_recorder.h"

#include <atomic>
#include <memory>

#include "core/result.h"

namespace assay::worker {

namespace {

// The callbacks are plain functions: they find their session here.
std::atomic<TraceSession*> active_session{nullptr};

std::unique_ptr<at::ObserverContext> on_begin(const at::RecordFunction& function) {
  if (TraceSession* session = active_session.load(std::memory_order_acquire))
    session->operator_begin(function.name(),
                            function.seqNr(),
                            static_cast<std::int64_t>(function.forwardThreadId()),
                            function.scope() == at::RecordScope::BACKWARD_FUNCTION);
  return nullptr;
}

void on_end(const at::RecordFunction&, at::ObserverContext*) {
  if (TraceSession* session = active_session.load(std::memory_order_acquire))
    session->operator_end();
}

} // namespace

OperatorRecorder::OperatorRecorder(TraceSession& session) {
  if (active_session.exchange(&session) != nullptr)
    internal_error("a second operator recorder was started");
  handle_ = at::addGlobalCallback(
      at::RecordFunctionCallback(on_begin, on_end)
          .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
}

OperatorRecorder::~OperatorRecorder() {
  at::removeCallback(handle_);
  active_session = nullptr;
}

} // namespace assay::worker
