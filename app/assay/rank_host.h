// RankHost: under torchrun or Slurm, the process beside rank 0's engine that keeps the ranks' store
// for all launches of a plan, and lets the other ranks go at its end (docs/protocol.md).
#pragma once

#include <sys/types.h>

#include <string>

namespace assay::cli {

class RankHost {
public:
  // Returns once the store can be reached; throws Failure when it cannot be opened. The host's own
  // message is on stderr by then.
  explicit RankHost(const std::string& worker_program);
  ~RankHost(); // the plan is over, however it ended
  RankHost(const RankHost&) = delete;
  RankHost& operator=(const RankHost&) = delete;

private:
  pid_t pid_ = -1;
  int input_ = -1;
};

} // namespace assay::cli
