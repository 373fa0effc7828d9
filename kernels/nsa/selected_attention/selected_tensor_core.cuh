// What the fp16 and bf16 kernels of selected attention share: a warp's place, its rows, dispatch.
#pragma once

#include "kernels/nsa/selected_attention/selected_fragments.cuh"
#include "kernels/nsa/selected_attention/selected_spans.cuh"

namespace assay {

// Neighbouring queries of one group, which select mostly the same blocks: what one warp loads, the
// others find in L1.
constexpr int kWarpsPerBlock = 8;
constexpr float kLn2 = 0.6931471805599453F;

using simt::exp2_fast;
using simt::kLog2E;

// One warp's query and group; lane = 4 r + c.
struct Place {
  int lane, r, c, group, group_heads, t;
  bool exists;

  __device__ explicit Place(const SelectedProblem& problem)
      : lane(static_cast<int>(threadIdx.x) % 32), r(lane / 4), c(lane % 4),
        group(static_cast<int>(blockIdx.x) % problem.groups),
        group_heads(problem.heads / problem.groups) {
    const int place = static_cast<int>(blockIdx.x) / problem.groups * kWarpsPerBlock +
                      static_cast<int>(threadIdx.x) / 32;
    exists = place < problem.tokens;
    t = exists ? problem.tokens - 1 - place : 0; // the last tokens first, as token_of()
  }
  // Of q, out, lse …: the row (t, head of this group).
  __device__ std::int64_t query_row(const SelectedProblem& problem, int head) const {
    return static_cast<std::int64_t>(t) * problem.heads + group * group_heads + head;
  }
};

template <class T, int kWidth> __device__ const T* row_at(const void* base, std::int64_t row) {
  return static_cast<const T*>(base) + row * kWidth;
}

inline unsigned selected_grid(const SelectedProblem& problem) {
  const int blocks = (problem.tokens + kWarpsPerBlock - 1) / kWarpsPerBlock;
  return static_cast<unsigned>(blocks * problem.groups);
}

// Calls launch(T{}, integral_constant width) for the problem's half-precision type and width.
template <int kValue> struct Width { static constexpr int value = kValue; };
template <class Launch> void dispatch_half(const SelectedProblem& problem, Launch&& launch) {
  const bool bf16 = problem.type == ElementType::Bf16, wide = problem.width == 128;
  if (bf16 && wide) launch(Bf16{}, Width<128>{});
  if (bf16 && !wide) launch(Bf16{}, Width<64>{});
  if (!bf16 && wide) launch(Fp16{}, Width<128>{});
  if (!bf16 && !wide) launch(Fp16{}, Width<64>{});
}

} // namespace assay
