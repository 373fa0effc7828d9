// Loader: a thread that answers a workspace's requests, so that the window never waits for a file.
// Results come twice: verdicts at once, their explanations when the traces have been read. A
// trace's idle gaps are searched for when nothing else is wanted, and anew where something else
// came first.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "ui/model/workspace.h"

namespace assay {

struct LoadReply {
  LoadRequest request;
  std::shared_ptr<const Results> results;
  std::shared_ptr<const TraceView> trace;
  std::string error;
  bool last = true; // no further reply to this request comes
  std::vector<DeviceGap> gaps = {};
  std::shared_ptr<const Explanation> difference = nullptr;
};

// Answers one request on the calling thread. `stop` ends the search for gaps early.
void perform(const LoadRequest& request,
             const std::function<void(LoadReply)>& publish,
             const std::atomic<bool>* stop = nullptr);
// Puts a reply into the workspace unless it answers an old request.
void accept(Workspace& workspace, LoadReply reply);
// Answers everything that waits, on the calling thread: for pictures, tests and scripts.
void serve_requests(Workspace& workspace);

class Loader {
public:
  explicit Loader(std::function<void()> wake); // called from the thread after each reply
  ~Loader();                                   // waits for the file that is being read

  // Takes the requests, puts in what has arrived. True when something has.
  bool exchange(Workspace& workspace);

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace assay
