// What the fp16 and bf16 kernels of selected attention share: a warp's place, its rows, dispatch.
#pragma once

#include "kernels/selected_fragments.cuh"
#include "kernels/selected_spans.cuh"

namespace assay {

constexpr int kWarpsPerBlock = 4;
constexpr float kLog2E = 1.4426950408889634F, kLn2 = 0.6931471805599453F;

using simt::exp2_fast;

// One warp's query and group; lane = 4 r + c.
struct Place {
  int lane, r, c, group, t, group_heads;
  bool exists;

  __device__ explicit Place(const SelectedProblem& problem)
      : lane(static_cast<int>(threadIdx.x) % 32), r(lane / 4), c(lane % 4),
        group_heads(problem.heads / problem.groups) {
    const std::int64_t unit =
        static_cast<std::int64_t>(blockIdx.x) * kWarpsPerBlock + threadIdx.x / 32;
    exists = unit < static_cast<std::int64_t>(problem.tokens) * problem.groups;
    group = static_cast<int>(unit % problem.groups);
    t = exists ? token_of(problem, unit) : 0;
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
  const std::int64_t units = static_cast<std::int64_t>(problem.tokens) * problem.groups;
  return static_cast<unsigned>((units + kWarpsPerBlock - 1) / kWarpsPerBlock);
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
