// Checkpoint: all tensors of a run in one safetensors file, and a JSON beside it with everything
// else. The pair is never torn: the JSON names the safetensors file with its size and CRC-32 and is
// renamed last, and an overwritten checkpoint's tensors stay under their own name until the new
// JSON is in place.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/result.h"
#include "model/config/train_config.h"
#include "model/data/packing.h"

namespace assay {

struct CheckpointMeta {
  TrainConfig config;
  std::int64_t step = 0;
  DataPosition data;     // of the training stream
  std::string rng;       // raw bytes of the generator's state
  std::string tokenizer; // Tokenizer::fingerprint()
  std::string corpus;    // Corpus::fingerprint(): resuming the position needs the same documents
  std::int64_t checkpoint_every = 0; // steps between checkpoints of `assay train`; 0: not given
};

// Names are free, and written in this order. fp64, fp32, bf16, fp16, int64, int32, uint8, bool; any
// device, any strides.
using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

struct Checkpoint {
  CheckpointMeta meta;
  NamedTensors tensors; // CPU, contiguous, in the file's order
  std::string path;     // of its JSON, as save_checkpoint() returns it

  const at::Tensor* find(const std::string& name) const;
};

// `path` is a directory (existing, or ending in '/'), which gets "checkpoint-<step>", or a file
// name, with or without ".json" or ".safetensors". Missing directories are made. Returns the path
// of the JSON, a plain_path(). Throws bad input on a full disk or a directory that cannot be
// written; the previous checkpoint then stays whole.
std::string
save_checkpoint(const std::string& path, const CheckpointMeta& meta, const NamedTensors& tensors);

// `path` as above; of a directory the checkpoint of the highest step is taken. A truncated,
// foreign, newer or mismatching file is one error.
Result<Checkpoint> load_checkpoint(const std::string& path);

} // namespace assay
