// What the files of gates share.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <vector>

#include "model/gates/gates.h"
#include "model/training/checkpoint.h"

namespace assay {

// Relative RMS that a gate allows: fp32 against fp32, and 16-bit against 16-bit or fp32.
inline constexpr double kFp32Bound = 1e-5, kHalfBound = 1e-2;

// The truth that 16-bit precision is measured against: `config` in fp32, without what takes 16 bits
// alone: cuDNN's attention (flash_padded in its place), kept weights, products by cuBLASLt or
// chosen by timing, a stream in bf16, the CUDA graph.
TrainConfig in_fp32(TrainConfig config);

// Copies of the batches with the layouts that `config` reads. Batches prepared for a level may lack
// what its reference reads, which would then compute the level's function.
std::vector<Batch> prepared_for(const TrainConfig& config, std::vector<Batch> batches);

// All values in one row [N].
at::Tensor flat(const std::vector<at::Tensor>& tensors);
at::Tensor flat(const NamedTensors& tensors);

// What a short training leaves.
struct Trained {
  at::Tensor losses;  // fp64 [steps]
  at::Tensor weights; // flat copy [N]
};

// The gates "weights" and "loss" of `level` against `reference`: bit-equal if the reference repeats
// itself bit for bit, else within twice the largest distance between it and its repetitions.
// `train_again` trains the reference once more. It is asked once where everything is equal and
// kRepetitions times where anything differs, since a rare difference (atomics of a GPU) may be the
// level's or the reference's.
inline constexpr std::size_t kRepetitions = 8;
std::vector<GateResult> compare_trainings(const Trained& reference,
                                          const Trained& level,
                                          std::size_t steps,
                                          const std::function<Trained()>& train_again);

} // namespace assay
