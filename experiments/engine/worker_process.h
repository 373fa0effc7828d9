// One worker process: started with a socket on stdin, a pipe on file descriptor 3 and a log for its
// output; killed with its process group when this object ends, and by the kernel when the engine
// dies.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "experiments/engine/stop_signal.h"

namespace assay {

struct WorkerReply {
  enum class Kind {
    Answer,   // the expected event
    Retired,  // a variant must leave the launch
    BadInput, // the worker names what a person must change
    Failed,   // any other error event, death, hang, or an answer out of turn
    GivenUp,  // the request's `gives_up` said so
  };
  Kind kind = Kind::Failed;
  nlohmann::json event; // of Answer and Retired
  std::string message;  // of BadInput and Failed: cause, and the log's last lines
};

class WorkerProcess {
public:
  using Seconds = std::chrono::duration<double>;

  // `environment`: variables over the engine's own, "K=V\n" each. Throws Failure when `program`
  // cannot be started.
  WorkerProcess(const std::string& program,
                const std::vector<std::string>& arguments,
                std::string log_path,
                const std::string& environment = "");
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  // Sends a request and waits for `event`. "progress" events restart the timeout. `gives_up` is
  // asked while it waits, and ends the wait and the worker; as it is given here, after one SIGINT
  // or SIGTERM.
  WorkerReply ask(
      const nlohmann::json& request,
      const char* event,
      Seconds timeout,
      const std::function<bool()>& gives_up = [] { return StopSignal::count() > 0; });

  // Closes stdin and waits for the exit; "" after status 0, else what happened.
  std::string finish(Seconds timeout);

private:
  enum class Read { Line, End, TimedOut, GivenUp };
  Read read_line(std::string& line,
                 std::chrono::steady_clock::time_point deadline,
                 const std::function<bool()>& gives_up);
  bool send(const nlohmann::json& request);
  WorkerReply interpret(const nlohmann::json& event, const char* expected);
  WorkerReply failed(const std::string& message);
  std::string death(); // reaps; "was killed by signal 9 (Killed)"
  void kill_group();

  pid_t pid_ = -1;
  int requests_ = -1, events_ = -1;
  std::string log_path_, buffer_, exit_text_;
};

} // namespace assay
