#include "ui/model/loader.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "core/trace/trace_file.h"
#include "experiments/import/import_trace.h"
#include "ui/model/navigate.h"

namespace assay {
namespace {

void read_trace_view(const LoadRequest& request, const std::function<void(LoadReply)>& publish) {
  LoadReply reply{request, nullptr, nullptr, "", true};
  const Result<std::string> path = readable_trace(request.path);
  Result<Trace> trace = path ? read_trace(*path) : fail("{}", path.error().message);
  if (trace)
    reply.trace = std::make_shared<const TraceView>(std::move(*trace));
  else
    reply.error = trace.error().message;
  publish(std::move(reply));
}

void read_gaps(const LoadRequest& request,
               const std::function<void(LoadReply)>& publish,
               const std::atomic<bool>* stop) {
  LoadReply reply{request, nullptr, nullptr, "", true};
  Result<std::vector<DeviceGap>> gaps = device_gaps(request.path, stop);
  if (gaps)
    reply.gaps = std::move(*gaps);
  else
    reply.error = gaps.error().message;
  publish(std::move(reply));
}

void find_difference(const LoadRequest& request, const std::function<void(LoadReply)>& publish) {
  LoadReply reply{request, nullptr, nullptr, "", true};
  reply.difference = std::make_shared<const Explanation>(
      explain(request.views[0]->trace(), request.views[1]->trace(), std::nullopt));
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

// The gaps come later: of a large trace they take longer than the lanes.
void accept_trace(Workspace& workspace, LoadReply& reply) {
  const std::size_t side = reply.request.side;
  TraceSlot& slot = workspace.traces[side];
  if (reply.request.ticket != slot.ticket) return;
  slot.loading = false;
  slot.view = std::move(reply.trace);
  slot.why_none = std::move(reply.error);
  if (!slot.view) return;
  if (workspace.single_trace) slot.variant = slot.view->trace().value("variant");
  trace_arrived(workspace, side);
  const auto& [a, b] = workspace.traces;
  if (workspace.single_trace && a.view && b.view)
    workspace.requests.push_back(
        {LoadRequest::Kind::Difference, "", 0, a.ticket + b.ticket, {a.view, b.view}});
  if (slot.view->trace().device.empty()) return;
  slot.gaps_loading = true;
  workspace.requests.push_back(
      {LoadRequest::Kind::Gaps, slot.view->trace().path, side, slot.ticket});
}

void accept_difference(Workspace& workspace, LoadReply& reply) {
  if (reply.request.ticket == workspace.traces[0].ticket + workspace.traces[1].ticket)
    workspace.difference = std::move(reply.difference);
}

void accept_gaps(Workspace& workspace, LoadReply& reply) {
  TraceSlot& slot = workspace.traces[reply.request.side];
  if (reply.request.ticket != slot.ticket || !slot.view) return;
  slot.gaps_loading = false;
  slot.why_no_gaps = std::move(reply.error);
  slot.gaps = gaps_inside_steps(*slot.view, reply.request.side, reply.gaps);
  gather_gaps(workspace);
}

} // namespace

void perform(const LoadRequest& request,
             const std::function<void(LoadReply)>& publish,
             const std::atomic<bool>* stop) {
  try {
    if (request.kind == LoadRequest::Kind::Trace)
      read_trace_view(request, publish);
    else if (request.kind == LoadRequest::Kind::Gaps)
      read_gaps(request, publish, stop);
    else if (request.kind == LoadRequest::Kind::Difference)
      find_difference(request, publish);
    else
      read_directory(request, publish);
  } catch (const std::exception& error) { // out of memory, or a defect; the window continues
    publish({request, nullptr, nullptr, error.what(), true});
  }
}

void accept(Workspace& workspace, LoadReply reply) {
  if (reply.request.kind == LoadRequest::Kind::Trace) return accept_trace(workspace, reply);
  if (reply.request.kind == LoadRequest::Kind::Gaps) return accept_gaps(workspace, reply);
  if (reply.request.kind == LoadRequest::Kind::Difference)
    return accept_difference(workspace, reply);
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
  std::atomic<bool> interrupt{false}; // the search for gaps: something else is wanted
  std::thread thread;                 // last, so that it sees the others constructed

  // With the mutex locked and a request there: gaps come last.
  LoadRequest take() {
    auto next = std::find_if(requests.begin(), requests.end(), [](const LoadRequest& request) {
      return request.kind != LoadRequest::Kind::Gaps;
    });
    if (next == requests.end()) next = requests.begin();
    LoadRequest request = std::move(*next);
    requests.erase(next);
    interrupt = false;
    return request;
  }

  void publish(LoadReply reply) {
    {
      const std::lock_guard guard(mutex);
      if (interrupt && reply.request.kind == LoadRequest::Kind::Gaps) {
        requests.push_back(std::move(reply.request));
        return;
      }
      replies.push_back(std::move(reply));
    }
    wake();
  }

  void run() {
    std::unique_lock lock(mutex);
    for (;;) {
      work.wait(lock, [&] { return stop || !requests.empty(); });
      if (stop) return;
      const LoadRequest request = take();
      lock.unlock();
      perform(
          request, [&](LoadReply reply) { publish(std::move(reply)); }, &interrupt);
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
    impl_->stop = impl_->interrupt = true;
  }
  impl_->work.notify_one();
  impl_->thread.join();
}

bool Loader::exchange(Workspace& workspace) {
  request_traces(workspace);
  std::vector<LoadReply> replies;
  {
    const std::lock_guard guard(impl_->mutex);
    for (LoadRequest& request : workspace.requests) {
      if (request.kind != LoadRequest::Kind::Gaps) impl_->interrupt = true;
      impl_->requests.push_back(std::move(request));
    }
    replies.swap(impl_->replies);
  }
  workspace.requests.clear();
  impl_->work.notify_one();
  for (LoadReply& reply : replies) accept(workspace, std::move(reply));
  return !replies.empty();
}

} // namespace assay
