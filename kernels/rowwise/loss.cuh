// A block a row of logits. With kStaged the row waits in shared memory, so that it is read and
// written once; its copies arrive in groups, and a group is added up while the next ones are on
// their way.
#pragma once

#include <cmath>

#include "kernels/rowwise/loss.h"
#include "kernels/vectors.cuh"

namespace assay::rowwise {

using namespace simt;

constexpr int kLossThreads = 512, kLossWarps = kLossThreads / 32;
constexpr int kLossGroups = 4; // of copies
constexpr int kLossWords = 4;  // of eight columns, that a thread adds up at a time

struct Exponentials {  // sum of 2^x over some x, as sum * 2^most; a NaN stays in `sum`
  float most = -1e30F; // below every logit, and safe to subtract
  float sum = 0;
  __device__ __forceinline__ void add(const Exponentials& o) {
    const float m = fmaxf(most, o.most);
    sum = sum * exp2_fast(most - m) + o.sum * exp2_fast(o.most - m);
    most = m;
  }
};

// Adds the words begin, begin + kLossThreads, … below `end`.
__device__ __forceinline__ void
add_words(Exponentials& total, const uint4* row, int begin, int end) {
  constexpr std::uint32_t kNothing = 0xff80ff80U; // -infinity twice
  for (int first = begin; first < end; first += kLossWords * kLossThreads) {
    uint4 w[kLossWords];
    std::uint32_t top = kNothing;
#pragma unroll
    for (int i = 0; i < kLossWords; ++i) {
      const int word = first + i * kLossThreads;
      w[i] = word < end ? row[word] : make_uint4(kNothing, kNothing, kNothing, kNothing);
      top = max2(top, max2(max2(w[i].x, w[i].y), max2(w[i].z, w[i].w)));
    }
    const float2 two = unpack2(top);
    const float most = fmaxf(total.most, fmaxf(two.x, two.y) * kLog2E);
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kLossWords; ++i) {
      float x[8];
      unpack(x, w[i]);
#pragma unroll
      for (int e = 0; e < 8; ++e) sum += exp2_fast(x[e] * kLog2E - most);
    }
    total.sum = total.sum * exp2_fast(total.most - most) + sum;
    total.most = most;
  }
}

// Sets what is beyond `columns` in the last word to -infinity.
__device__ __forceinline__ void clear_padding(uint4* word, int first_column, int columns) {
  float x[8];
  unpack(x, *word);
#pragma unroll
  for (int e = 0; e < 8; ++e)
    if (first_column + e >= columns) x[e] = -INFINITY;
  store(reinterpret_cast<bf16*>(word), x);
}

// This thread's part of the target's logit.
__device__ __forceinline__ float target_part(const Loss& p, std::int64_t row, std::int64_t target) {
  float dot = 0;
  for (int i = 4 * thread_index(); i < p.width; i += 4 * kLossThreads) {
    float a[4], b[4];
    load(a, p.x + row * p.width + i);
    load(b, p.weight + target * p.width + i);
    dot += a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3];
  }
  return dot;
}

template <bool kGradient>
__device__ __forceinline__ void ignore_row(const Loss& p, uint4* here, int row) {
  if (thread_index() == 0) p.losses[row] = 0;
  if constexpr (kGradient)
    for (int i = thread_index(); i < p.stride / 8; i += kLossThreads)
      here[i] = make_uint4(0, 0, 0, 0);
}

// All threads' sums, and the target's logit, in the same order on every thread.
struct LossSums {
  Exponentials all;
  float exact, rounded; // the target's logit, in units of log 2
};
__device__ __forceinline__ LossSums block_sums(Exponentials mine, float dot, float rounded) {
  __shared__ float tops[kLossWarps], sums[kLossWarps], dots[kLossWarps], target[1];
  dot = sum_lanes<32>(dot);
#pragma unroll
  for (int d = 16; d > 0; d /= 2) {
    Exponentials other;
    other.most = __shfl_xor_sync(0xffffffffU, mine.most, d);
    other.sum = __shfl_xor_sync(0xffffffffU, mine.sum, d);
    mine.add(other);
  }
  const int warp = thread_index() / 32;
  if (thread_index() % 32 == 0) tops[warp] = mine.most, sums[warp] = mine.sum, dots[warp] = dot;
  if (thread_index() == 0) target[0] = rounded;
  __syncthreads();
  LossSums result{{tops[0], sums[0]}, dots[0], target[0] * kLog2E};
#pragma unroll
  for (int i = 1; i < kLossWarps; ++i) result.all.add({tops[i], sums[i]}), result.exact += dots[i];
  result.exact *= kLog2E;
  return result;
}

// log2 of the sum of exponentials, the exact logit in the rounded one's place.
__device__ __forceinline__ float log_sum(LossSums s) {
  s.all.add({s.exact, 1.F});
  const float least = exp2_fast(s.exact - s.all.most);
  const float rest = s.all.sum - exp2_fast(s.rounded - s.all.most);
  return s.all.most + log2_fast(rest < least ? least : rest); // a NaN stays
}

// here = (softmax - onehot) * factor.
__device__ __forceinline__ void
write_gradient(const Loss& p, const uint4* row, uint4* here, int target, float exact, float lse) {
  const float factor = *p.factor, shift = log2_fast(factor) - lse;
  for (int i = thread_index(); i < p.stride / 8; i += kLossThreads) {
    float x[8];
    unpack(x, row[i]);
#pragma unroll
    for (int e = 0; e < 8; ++e) x[e] = exp2_fast(x[e] * kLog2E + shift);
    if (i == target / 8) {
#pragma unroll
      for (int e = 0; e < 8; ++e)
        if (8 * i + e == target) x[e] = exp2_fast(exact + shift) - factor;
    }
    store(reinterpret_cast<bf16*>(here + i), x);
  }
}

template <bool kGradient, bool kStaged>
__global__ void __launch_bounds__(kLossThreads, 2) loss(Loss p) {
  const int thread = thread_index(), index = block_index(), words = p.stride / 8;
  bf16* const logits = p.logits + static_cast<std::int64_t>(index) * p.stride;
  uint4* const here = reinterpret_cast<uint4*>(logits);
  const int target = static_cast<int>(p.targets[index]);
  if (target < 0) return ignore_row<kGradient>(p, here, index);
  uint4* const row = kStaged ? reinterpret_cast<uint4*>(shared_memory()) : here;
  // Words that a group of copies brings; each thread reads only what it copied.
  const int span =
      (words + kLossGroups * kLossThreads - 1) / (kLossGroups * kLossThreads) * kLossThreads;
  const auto end_of = [&](int group) {
    return (group + 1) * span < words ? (group + 1) * span : words;
  };
  if constexpr (kStaged) {
#pragma unroll
    for (int group = 0; group < kLossGroups; ++group) {
      for (int i = group * span + thread; i < end_of(group); i += kLossThreads)
        copy16(row + i, here + i, true);
      copies_commit();
    }
  }
  const float rounded = unpack2(logits[target]).x; // before anyone writes the row
  const float dot = target_part(p, index, target);
  Exponentials mine;
  const auto add_group = [&](int group) {
    const int last = words - 1;
    if (last / span == group && last % kLossThreads == thread)
      clear_padding(row + last, 8 * last, p.columns);
    add_words(mine, row, group * span + thread, end_of(group));
  };
  if constexpr (kStaged) copies_wait<3>();
  add_group(0);
  if constexpr (kStaged) copies_wait<2>();
  add_group(1);
  if constexpr (kStaged) copies_wait<1>();
  add_group(2);
  if constexpr (kStaged) copies_wait<0>();
  add_group(3);
  const LossSums sums = block_sums(mine, dot, rounded);
  const float lse = log_sum(sums);
  if (thread == 0) p.losses[index] = (lse - sums.exact) / kLog2E;
  if constexpr (kGradient) write_gradient(p, row, here, target, sums.exact, lse);
}

} // namespace assay::rowwise
