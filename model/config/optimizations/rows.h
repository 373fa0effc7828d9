// Rows of optimizations(), one function a file.
#pragma once

#include <vector>

#include "model/config/optimization.h"

namespace assay {

std::vector<Optimization> attention_rows();
std::vector<Optimization> layer_rows();
std::vector<Optimization> training_rows();
std::vector<Optimization> rank_rows();
std::vector<Optimization> planted_rows();

} // namespace assay
