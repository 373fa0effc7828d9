#include "ui/loader.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "core/trace_file.h"
#include "ui/timeline/navigate.h"

namespace assay {
namespace {

void read_trace_view(const LoadRequest& request, const std::function<void(LoadReply)>& publish) {
  LoadReply reply{request, nullptr, nullptr, "", true};
  Result<Trace> trace = read_trace(request.path);
  if (trace)
    reply.trace = std::make_shared<const TraceView>(std::move(*trace));
  else
    reply.error = trace.error().message;
  publish(std::move(reply));
}

void read_directory(const LoadRequest& request, const std::function<void(LoadReply)>& publish) {
  for (const bool explained : {false, true}) {
    Result<Results> results = read_results(request.path, explained);
    LoadReply reply{request, nullptr, nullptr, "", explained || !results};
    if (results)
      reply.results = std::make_shared<const Results>(std::move(*results));
    else
      reply.error = results.error().message;
    publish(std::move(reply));
    if (!results) return;
  }
}

} // namespace

void perform(const LoadRequest& request, const std::function<void(LoadReply)>& publish) {
  try {
    if (request.kind == LoadRequest::Kind::Trace)
      read_trace_view(request, publish);
    else
      read_directory(request, publish);
  } catch (const std::exception& error) { // out of memory, or a defect; the window goes on
    publish({request, nullptr, nullptr, error.what(), true});
  }
}

void accept(Workspace& workspace, LoadReply reply) {
  if (reply.request.kind == LoadRequest::Kind::Trace) {
    TraceSlot& slot = workspace.traces[reply.request.side];
    if (reply.request.ticket != slot.ticket) return;
    slot.loading = false;
    slot.view = std::move(reply.trace);
    slot.why_none = std::move(reply.error);
    if (slot.view && workspace.single_trace) slot.variant = slot.view->trace().value("variant");
    if (slot.view) trace_arrived(workspace, reply.request.side);
    return;
  }
  if (reply.request.ticket != workspace.ticket) return;
  workspace.loading = !reply.last;
  workspace.open_error = reply.error;
  const bool first = workspace.results == nullptr;
  workspace.results = std::move(reply.results);
  workspace.launch = 0;
  if (first && workspace.results) workspace.row = workspace.results->main_row();
  const std::size_t rows = workspace.results ? workspace.results->places.size() : 0;
  workspace.row = std::min(workspace.row, rows == 0 ? 0 : rows - 1);
}

void serve_requests(Workspace& workspace) {
  for (;;) {
    request_traces(workspace);
    if (workspace.requests.empty()) return;
    std::vector<LoadRequest> requests;
    requests.swap(workspace.requests);
    for (const LoadRequest& request : requests)
      perform(request, [&](LoadReply reply) { accept(workspace, std::move(reply)); });
  }
}

struct Loader::Impl {
  std::function<void()> wake;
  std::mutex mutex;
  std::condition_variable work;
  std::deque<LoadRequest> requests;
  std::vector<LoadReply> replies;
  bool stop = false;
  std::thread thread; // last, so that it sees the others constructed

  void run() {
    std::unique_lock lock(mutex);
    for (;;) {
      work.wait(lock, [&] { return stop || !requests.empty(); });
      if (stop) return;
      const LoadRequest request = requests.front();
      requests.pop_front();
      lock.unlock();
      perform(request, [&](LoadReply reply) {
        {
          const std::lock_guard guard(mutex);
          replies.push_back(std::move(reply));
        }
        wake();
      });
      lock.lock();
    }
  }
};

Loader::Loader(std::function<void()> wake) : impl_(std::make_unique<Impl>()) {
  impl_->wake = std::move(wake);
  impl_->thread = std::thread([this] { impl_->run(); });
}

Loader::~Loader() {
  {
    const std::lock_guard guard(impl_->mutex);
    impl_->stop = true;
  }
  impl_->work.notify_one();
  impl_->thread.join();
}

bool Loader::exchange(Workspace& workspace) {
  request_traces(workspace);
  std::vector<LoadReply> replies;
  {
    const std::lock_guard guard(impl_->mutex);
    for (LoadRequest& request : workspace.requests) impl_->requests.push_back(std::move(request));
    replies.swap(impl_->replies);
  }
  workspace.requests.clear();
  impl_->work.notify_one();
  for (LoadReply& reply : replies) accept(workspace, std::move(reply));
  return !replies.empty();
}

} // namespace assay
