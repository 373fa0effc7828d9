// FP8 copies of the weights that linears take, all cast at once: by themselves 56 matrices of
// preset base take 112 small launches a step.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "model/layers/fp8/fp8_matrix.h"

namespace assay {

class Fp8Weights {
public:
  // Casts the weight with the others from the next cast() on: fp32 [out, in] on a GPU, contiguous,
  // `in` a multiple of 16. Others are left to whoever needs them.
  void add(const at::Tensor& weight);
  // Casts all weights to e4m3, by rows and by columns, each by its own largest magnitude. Three
  // launches; a table of addresses is written before them where weights were added or have moved.
  // Counts "fp8/weight_cast" for each.
  void cast();
  // As the last cast() made it; null: it did not.
  const Fp8Matrix* find(const at::Tensor& weight) const;

private:
  struct Weight {
    at::Tensor weight;
    const void* address = nullptr; // as the table has it
    Fp8Matrix matrix;
  };
  bool table_holds() const;
  void make_table();

  std::vector<Weight> weights_;
  std::size_t made_ = 0;             // of weights_, in the table
  at::Tensor slots_, casts_, tiles_; // on the device
};

} // namespace assay
