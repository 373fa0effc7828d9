// RankLauncher: brings the ranks of one launch together. Started by hand, rank 0 hosts the store
// and starts the others as children on this machine; under torchrun or Slurm they are there already
// and wait for launches (`assay-worker follow`).
#pragma once

#include <sys/types.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <string>
#include <vector>

#include "core/rank_environment.h"
#include "model/ddp/process_group.h"

namespace assay::worker {

class RankLauncher {
public:
  // Announces a launch of `size` ranks. Throws bad input when there are not so many.
  explicit RankLauncher(int size);
  // Waits for the children, ends those that do not end.
  ~RankLauncher();
  RankLauncher(const RankLauncher&) = delete;
  RankLauncher& operator=(const RankLauncher&) = delete;

  const c10::intrusive_ptr<c10d::Store>& store() const { return store_; } // of this launch
  const RankPlace& place() const { return place_; }
  bool holds_store() const { return !children_.empty(); }

private:
  c10::intrusive_ptr<c10d::Store> store_;
  RankPlace place_;
  std::vector<pid_t> children_;
};

// Of a launch, as the ranks started by start_rank() see it. Throws bad input when this process is
// not one of them.
struct JoinedLaunch {
  c10::intrusive_ptr<c10d::Store> store;
  RankPlace place;
  bool child_of_rank_0 = false;
};
JoinedLaunch join_launch();

// `assay-worker follow`: starts a fresh rank for every launch that needs it, until rank 0's engine
// is done. Exit code: rank 0's, whose error it repeats. Throws bad input when rank 0 never comes.
int follow();
// `assay-worker host-ranks`: hosts the store of all launches under torchrun variables (unless
// torchrun does) until its standard input ends, then lets the followers go. What it reads there is
// how the engine ended: "0 ", or "CODE MESSAGE"; nothing where it was killed.
int host_ranks();

} // namespace assay::worker
