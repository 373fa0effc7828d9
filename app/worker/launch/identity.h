// Which build this is and where it runs. Launches of different builds are never mixed.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "core/ledger/ledger.h"
#include "model/config/train_config.h"
#include "profilers/machine/covariate_sampler.h"

namespace assay::worker {

// The linker's build id of this program: equal sources, flags and libraries give equal ids.
std::string build_id();

// Sets what LibTorch has once a process, thread counts and TF32; called before any operator runs.
// "Every core" (threads = 0) is shared out among the ranks.
void set_process(const TrainConfig& config);

// CUDA and GPU fields stay "" without a usable GPU.
Identity identity();
nlohmann::json to_json(const Identity& identity);

struct CudaVersions { // as CUDA numbers them, 13.0 is "13000"; driver: the newest CUDA it can run
  std::string runtime, driver;
};
CudaVersions cuda_versions();

// A sampler that reads the GPU LibTorch uses, where there is one and NVML can be loaded.
CovariateSampler make_sampler(const TrainConfig& config);

// Makes GPU `board` this process's "cuda" and initializes it, if the configuration asks for one.
// Throws bad input, with the cause, when LibTorch cannot use it.
void open_device(const TrainConfig& config, int board = 0);

// Of GPU 0: 90 is 9.0; 0: there is none.
int compute_capability();

} // namespace assay::worker
