// StoreProcess: under torchrun or Slurm, the process beside rank 0's engine that keeps the ranks'
// store for all launches of a plan, and lets the other ranks go at its end (docs/protocol.md).
#pragma once

#include <sys/types.h>

#include <string>

namespace assay::cli {

class StoreProcess {
public:
  // Returns once the store can be reached; throws Failure when it cannot be opened. The host's own
  // message is on stderr by then.
  explicit StoreProcess(const std::string& worker_program);
  ~StoreProcess(); // the plan is over: the other ranks end with success
  // It failed: the other ranks will repeat `message` and end with `exit_code` instead.
  void fail(int exit_code, const std::string& message);
  StoreProcess(const StoreProcess&) = delete;
  StoreProcess& operator=(const StoreProcess&) = delete;

private:
  pid_t pid_ = -1;
  int input_ = -1;
  std::string end_ = "0 "; // for the others: exit code and message
};

} // namespace assay::cli
