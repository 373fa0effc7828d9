// cuBLASLt without a GPU: descriptors are real, heuristics and products are plain loops that do
// what its documentation says of them. Of CUDA's runtime what such products ask.
#pragma once

#include <cublasLt.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "kernels/bf16.h"

namespace fake_cublaslt {

struct Answers {
  cublasStatus_t heuristic = CUBLAS_STATUS_SUCCESS, product = CUBLAS_STATUS_SUCCESS;
  // Of the algorithms: the first cannot run.
  std::vector<std::uint64_t> proposed{0, 77};
  std::map<std::uint64_t, float> ms; // of one run, by algorithm
  int device = 0;
  bool captures = false;
  int asked = 0;                  // how often the heuristics were
  std::vector<std::uint64_t> ran; // algorithms, in order
};
extern Answers answers;

inline constexpr std::size_t kWorkspace = 4096;

assay::bf16 rounded(double x);
double value(assay::bf16 x);
double gelu(double x);
double gelu_slope(double x);
std::vector<assay::bf16> normal(std::int64_t count);

// Within the rounding of a result in fp32 or bf16.
void expect_near(double actual, double expected, const char* what);

// A device that no test before had: algorithms are kept by device.
int fresh_device();

} // namespace fake_cublaslt
