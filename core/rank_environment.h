// The variables by which torchrun and Slurm mark a process as one of several ranks.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "core/result.h"

namespace assay {

struct RankEnvironment {
  int rank = 0, size = 1, local_rank = 0;
  std::string address; // of rank 0's machine
  int port = 0;
  bool agent_store = false; // torchrun's agent listens on the port already
  std::string attempt;      // torchrun's restart count: the agent's store outlives a restart
};

// torchrun's RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT; in their absence Slurm's
// SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID beside MASTER_ADDR and MASTER_PORT. Nothing when there
// is one process, or when rank 0 of a Slurm allocation has no MASTER_PORT (a plain run in a batch
// script). Errors name the variable. `get` is getenv but in tests.
Result<std::optional<RankEnvironment>>
read_rank_environment(const std::function<const char*(const char*)>& get);
Result<std::optional<RankEnvironment>> read_rank_environment();

} // namespace assay
