// Rows of optimizations(), one function a file.
#pragma once

#include <vector>

#include "model/config/optimization.h"

namespace assay {

// A letter of TrainConfig::pattern: G, M, N, A, P, R, S or C.
inline bool has_layer(const TrainConfig& c, char letter) {
  return c.pattern.find(letter) != std::string::npos;
}

inline bool in_bf16_or_fp8(const TrainConfig& c) {
  return c.precision == Precision::Bf16 || c.precision == Precision::Fp8;
}

std::vector<Optimization> attention_rows();
std::vector<Optimization> layer_rows();
std::vector<Optimization> training_rows();
std::vector<Optimization> data_rows();
std::vector<Optimization> rank_rows();
std::vector<Optimization> planted_rows();

} // namespace assay
