// The update of all parameters: partial sums of squares -> factors -> AdamW, average and 16-bit
// copy. A block reads its parameter's row once and walks over neighbouring elements, four (16
// bytes) a thread and access; where an address does not allow that, one. Sums have a fixed order.
#pragma once

#include "kernels/update/adamw.h"
#include "kernels/vectors.cuh"

namespace assay::update {

using namespace simt;

constexpr int kThreads = 256, kWarps = kThreads / 32, kFactorThreads = 1024;
constexpr int kParts = 4; // blocks of update_weights() for one of the table
constexpr float kLargest = 3.402823466e38F;

struct Gradients {
  const float* at[kMostGradients]; // of parameters [first, …)
};

struct Squares {
  const Tensor* tensors;
  const Block* blocks; // of this launch
  Partial* partial;    // likewise
  const float* scale;  // of the loss; null: 1
  int first;           // parameter
  Gradients gradients;
};

struct FactorsOf {
  const Partial* partial;
  int count;
  const float *lr, *scale; // scale null: 1, and nothing is skipped
  float *steps, *norm;
  float* found_inf; // null without a scale
  Factors* factors;
  Rule rule;
};

struct Update {
  const Tensor* tensors;
  const Block* blocks;
  const Factors* factors;
  int first;
  CopyType copy_type;
  float first_share, second_share, eps, average_share; // as Step's
  Gradients gradients;
};

__device__ __forceinline__ bool takes_words(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) % 16 == 0;
}

struct Squared {
  float sum = 0, found = 0;

  __device__ __forceinline__ void add(float gradient, float inverse) {
    const float g = gradient * inverse;
    sum += g * g;
    if (!(fabsf(gradient) <= kLargest)) found = 1;
  }
};

__global__ void __launch_bounds__(kThreads) square_sums(Squares p) {
  __shared__ float sums[kWarps], founds[kWarps];
  const int thread = thread_index();
  const Block block = p.blocks[block_index()];
  const std::int64_t begin = block.part * kBlockElements,
                     left = p.tensors[block.tensor].size - begin;
  const int count = static_cast<int>(left < kBlockElements ? left : kBlockElements);
  const float* gradient = p.gradients.at[block.tensor - p.first] + begin;
  const float inverse = p.scale == nullptr ? 1.F : 1.F / *p.scale;
  const int words = takes_words(gradient) ? count / 4 : 0;
  Squared all;
#pragma unroll 4
  for (int i = thread; i < words; i += kThreads) {
    float g[4];
    load(g, gradient + 4 * i);
#pragma unroll
    for (int e = 0; e < 4; ++e) all.add(g[e], inverse);
  }
  for (int i = 4 * words + thread; i < count; i += kThreads) all.add(gradient[i], inverse);
  const float sum = sum_lanes<32>(all.sum), found = sum_lanes<32>(all.found);
  if (thread % 32 == 0) sums[thread / 32] = sum, founds[thread / 32] = found;
  __syncthreads();
  if (thread > 0) return;
  Partial partial{0, 0};
  for (int i = 0; i < kWarps; ++i) partial.squares += sums[i], partial.found += founds[i];
  p.partial[block_index()] = partial;
}

__device__ __forceinline__ void make_factors(const FactorsOf& p, double squares, float found) {
  const float norm = static_cast<float>(sqrt(squares)), lr = *p.lr;
  const bool skip = p.found_inf != nullptr && found > 0;
  const float steps = *p.steps + (skip ? 0.F : 1.F);
  *p.steps = steps;
  *p.norm = norm;
  if (p.found_inf != nullptr) *p.found_inf = skip ? 1.F : 0.F;
  *p.factors = {clip_factor(norm, static_cast<float>(p.rule.max_norm)),
                p.scale == nullptr ? 1.F : 1.F / *p.scale,
                lr,
                static_cast<float>(corrected_rate(lr, p.rule.beta1, steps)),
                static_cast<float>(corrected_root(p.rule.beta2, steps)),
                skip ? 1.F : 0.F};
}

// One block.
__global__ void __launch_bounds__(kFactorThreads) factors(FactorsOf p) {
  __shared__ double sums[kFactorThreads];
  __shared__ float founds[kFactorThreads];
  const int thread = thread_index();
  double sum = 0;
  float found = 0;
  for (int i = thread; i < p.count; i += kFactorThreads)
    sum += p.partial[i].squares, found += p.partial[i].found;
  sums[thread] = sum, founds[thread] = found;
  for (int half = kFactorThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half) sums[thread] += sums[thread + half], founds[thread] += founds[thread + half];
  }
  if (thread == 0) make_factors(p, sums[0], founds[0]);
}

// 16-bit copies of two neighbours.
__device__ __forceinline__ std::uint32_t pack_copy(CopyType type, float low, float high) {
  return type == CopyType::Bf16 ? pack2(low, high) : pack2_fp16(low, high);
}

__device__ __forceinline__ void
store_copy(CopyType type, std::uint16_t* to, const Element<float> (&x)[4]) {
  *reinterpret_cast<uint2*>(to) = make_uint2(pack_copy(type, x[0].weight, x[1].weight),
                                             pack_copy(type, x[2].weight, x[3].weight));
}

// One parameter's elements from where a block begins.
struct Pointers {
  Tensor t;
  const float* gradient;

  __device__ Pointers(const Tensor& whole, const float* gradients, std::int64_t begin)
      : t(whole), gradient(gradients + begin) {
    t.weight += begin, t.first += begin, t.second += begin;
    if (t.average != nullptr) t.average += begin;
    if (t.copy != nullptr) t.copy += begin;
  }

  // Blocks begin at multiples of 16 bytes of every tensor.
  __device__ bool words() const {
    return takes_words(gradient) && takes_words(t.weight) && takes_words(t.first) &&
           takes_words(t.second) && takes_words(t.average) && takes_words(t.copy);
  }
};

__device__ __forceinline__ void
update_word(const Pointers& p, int i, const Step<float>& s, bool skip, CopyType type) {
  float gradient[4], weight[4], first[4], second[4], average[4] = {};
  Element<float> x[4];
  load(weight, p.t.weight + i);
  if (p.t.average != nullptr) load(average, p.t.average + i);
  if (!skip) {
    load(gradient, p.gradient + i);
    load(first, p.t.first + i);
    load(second, p.t.second + i);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      x[e] = {weight[e], first[e], second[e], 0};
      update_weight(x[e], gradient[e], s);
      weight[e] = x[e].weight, first[e] = x[e].first, second[e] = x[e].second;
    }
    store(p.t.weight + i, weight);
    store(p.t.first + i, first);
    store(p.t.second + i, second);
    if (p.t.copy != nullptr) store_copy(type, p.t.copy + i, x);
  }
  if (p.t.average == nullptr) return;
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    x[e].weight = weight[e], x[e].average = average[e];
    update_average(x[e], s);
    average[e] = x[e].average;
  }
  store(p.t.average + i, average);
}

__device__ __forceinline__ void
update_one(const Pointers& p, int i, const Step<float>& s, bool skip, CopyType type) {
  Element<float> x{p.t.weight[i], p.t.first[i], p.t.second[i], 0};
  if (!skip) {
    update_weight(x, p.gradient[i], s);
    p.t.weight[i] = x.weight, p.t.first[i] = x.first, p.t.second[i] = x.second;
    if (p.t.copy != nullptr)
      p.t.copy[i] = static_cast<std::uint16_t>(pack_copy(type, x.weight, 0) & 0xffffU);
  }
  if (p.t.average == nullptr) return;
  x.average = p.t.average[i];
  update_average(x, s);
  p.t.average[i] = x.average;
}

// Reads 20 bytes an element and writes 16, and 2 of its copy; a skipped update moves the average
// alone.
__global__ void __launch_bounds__(kThreads) update_weights(Update p) {
  constexpr std::int64_t kElements = kBlockElements / kParts;
  const Block block = p.blocks[block_index() / kParts];
  const Tensor& whole = p.tensors[block.tensor];
  const std::int64_t begin = block.part * kBlockElements + block_index() % kParts * kElements,
                     left = whole.size - begin;
  if (left <= 0) return;
  const int count = static_cast<int>(left < kElements ? left : kElements);
  const Factors f = *p.factors;
  const Step<float> s{p.first_share,
                      p.second_share,
                      p.eps,
                      p.average_share,
                      f.clip,
                      f.inverse,
                      f.lr * whole.decay,
                      f.rate,
                      f.root};
  const Pointers at(whole, p.gradients.at[block.tensor - p.first], begin);
  const int words = at.words() ? count / 4 : 0;
#pragma unroll 2
  for (int i = thread_index(); i < words; i += kThreads)
    update_word(at, 4 * i, s, f.skip > 0, p.copy_type);
  for (int i = 4 * words + thread_index(); i < count; i += kThreads)
    update_one(at, i, s, f.skip > 0, p.copy_type);
}

} // namespace assay::update
