// A forward pass compiled ahead of time (AOTInductor), read from a package that
// experiments/packages/compile.py wrote (optimization `compile`).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/families/family.h"

namespace torch::inductor {
class AOTIModelPackageLoader;
}

namespace assay {

class CompiledModel {
public:
  // Of config.package. Throws bad input when it cannot be read, when it was compiled for another
  // family, number of rows or tokens a row, or for weights of other names or shapes than the given
  // parameters.
  CompiledModel(const TrainConfig& config, const std::vector<Parameter>& parameters);
  ~CompiledModel();

  // Logits [B*T, vocab_size], fp32, of the values that `parameters` hold now, which it reads where
  // they lie; documents isolated. Counts "eval_forward/compiled".
  at::Tensor logits(const Batch& batch, const std::vector<Parameter>& parameters);

private:
  void read(const std::vector<Parameter>& parameters);

  std::string path_;
  std::unique_ptr<torch::inductor::AOTIModelPackageLoader> loader_;
  std::vector<const void*> read_; // where the weights lay when the package was told
};

// int64 [B, T]: the place in its row where each token's document begins.
at::Tensor document_starts(const Batch& batch);

} // namespace assay
