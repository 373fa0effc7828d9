// Where the copies of a training step come from: every call of aten::copy_, which LibTorch's casts,
// contiguous(), clone() and transfers all end in, with who asked for it. Copies inside kernels
// (cat, gathers, our own) are not among them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/layout/batch.h"
#include "model/training/trainer.h"

namespace assay {

struct StepCopy {
  std::string stage;    // innermost span of ours that is open: "forward", "optimizer"; "" none
  std::string caller;   // outermost operator or node of autograd in it: "aten::linear"
  std::string asked_by; // operator that called the copy: "aten::_to_copy"; the caller itself, too
  std::string shape;    // of what is written: "256x160"
  std::string from, to; // types: "float", "bfloat16"; with the device where it changes
  std::int64_t calls = 0;
  std::int64_t bytes = 0; // read and written
};

// Of one step over the batches as micro-batches, behind one that is not counted; most bytes first.
// Every copy is in one row.
std::vector<StepCopy> copies_of_step(Trainer& trainer, const std::vector<Batch>& batches);

} // namespace assay
