// What the kernels of the update read: a table of parameters on the device, fixed blocks of them,
// and scalars on the device. Gradients are not in the table: they stay where autograd puts them,
// and their addresses come with every launch.
#pragma once

#include <cstdint>

namespace assay::update {

struct Tensor {
  float *weight, *first, *second; // [size]; running means of the gradient and of its square
  float* average;                 // [size]; null: none
  std::uint16_t* copy;            // [size] of 16 bits; null: none
  std::int64_t size;
  float decay; // of the weight, decoupled
};

struct Block { // elements [part * kBlockElements, …) of a parameter
  std::int32_t tensor, part;
};

constexpr std::int64_t kBlockElements = 16384;
constexpr int kMostGradients = 448; // of a launch: its parameters may have 4 KiB

struct Partial { // of one block
  float squares;
  float found; // above 0: an element is inf or NaN
};

enum class CopyType : int { Bf16, Fp16 };

// The rule's constants; `average` is 1 - decay of the average.
struct Rule {
  double beta1, beta2, eps, max_norm, average;
};

// Of one update, made on the device.
struct Factors {
  float clip;    // of the gradient
  float inverse; // of the loss scale
  float lr, rate, root;
  float skip; // above 0: weights and moments stay
};

} // namespace assay::update
