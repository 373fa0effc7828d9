// Forward of selected attention. A warp walks the tokens that its query selected with an online
// softmax in fp32 (arXiv 2205.14135, algorithm 1) for all heads of the group at once.
#include "kernels/nsa/selected_attention/selected_attention.h"
#include "kernels/nsa/selected_attention/selected_fp32.h"
#include "kernels/nsa/selected_attention/selected_tensor_core.cuh"

namespace assay {

namespace {

// Rows r and r+8 of the running softmax, in powers of two; `sum` is this lane's part.
struct Running {
  float top[2] = {-kInfinity, -kInfinity}, sum[2] = {0, 0};
};

// Scores (scaled by log2 e) become weights; returns by how much older results shrink.
template <int kTiles> __device__ float2 advance(Running& running, float (&score)[kTiles][4]) {
  float shrink[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float top = running.top[half];
#pragma unroll
    for (int j = 0; j < kTiles; ++j)
      top = fmaxf(top, fmaxf(score[j][2 * half], score[j][2 * half + 1]));
    top = row_max(top); // finite: a tile has at least one token
    shrink[half] = exp2_fast(running.top[half] - top);
    running.top[half] = top;
    running.sum[half] *= shrink[half];
#pragma unroll
    for (int j = 0; j < kTiles; ++j)
#pragma unroll
      for (int i = 2 * half; i < 2 * half + 2; ++i) {
        score[j][i] = exp2_fast(score[j][i] - top);
        running.sum[half] += score[j][i];
      }
  }
  return make_float2(shrink[0], shrink[1]);
}

template <class T, int kWidth>
__device__ void finish(const SelectedProblem& problem,
                       const SelectedOutput& output,
                       const Place& place,
                       const Running& running,
                       Result<kWidth>& out) {
  const float sum[2] = {row_sum(running.sum[0]), row_sum(running.sum[1])};
  out.scale_rows(sum[0] > 0 ? 1 / sum[0] : 0, sum[1] > 0 ? 1 / sum[1] : 0);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int head = place.r + 8 * half;
    if (head >= place.group_heads) continue;
    const std::int64_t row = place.query_row(problem, head);
    out.template store<T>(static_cast<T*>(output.out) + row * kWidth, place.c, half == 1);
    if (place.c == 0)
      output.lse[row] = sum[half] > 0 ? running.top[half] * kLn2 + logf(sum[half]) : -kInfinity;
  }
}

template <class T, int kWidth, int kKeys>
__global__ void __launch_bounds__(kWarpsPerBlock * 32, kWidth == 64 ? 2 : 1)
    forward_kernel(SelectedProblem problem, SelectedOutput output) {
  const Place place(problem);
  if (!place.exists) return; // whole warps leave; no barrier follows
  const int r = place.r, c = place.c;
  Row<kWidth> upper, lower;
  upper.load(row_at<T, kWidth>(problem.q, place.query_row(problem, r)), c, r < place.group_heads);
  lower.load(
      row_at<T, kWidth>(problem.q, place.query_row(problem, r + 8)), c, r + 8 < place.group_heads);
  const float factor = problem.scale * kLog2E;
  Running running;
  Result<kWidth> out;
  const Spans spans = selected_spans(problem, place.t, place.group, place.lane);
  for_each_tile<kKeys>(spans, [&](int key, int end) {
    const auto row = [&](const void* base, int offset) {
      const std::int64_t token = min(key + offset, end - 1); // repeats the last token's row
      return row_at<T, kWidth>(base, token * problem.groups + place.group);
    };
    Columns<kWidth> values[kKeys / 16];
#pragma unroll
    for (int i = 0; i < kKeys / 16; ++i)
      values[i].load([&](int index) { return row(problem.v, 16 * i + index); }, r, c);
    float score[kKeys / 8][4] = {};
#pragma unroll
    for (int j = 0; j < kKeys / 8; ++j) {
      Row<kWidth> keys;
      keys.load(row(problem.k, 8 * j + r), c);
      add_dots<T>(score[j], upper, lower, keys);
#pragma unroll
      for (int i = 0; i < 4; ++i)
        score[j][i] = key + 8 * j + 2 * c + (i & 1) < end ? score[j][i] * factor : -kInfinity;
    }
    const float2 shrink = advance(running, score);
    out.scale_rows(shrink.x, shrink.y);
#pragma unroll
    for (int i = 0; i < kKeys / 16; ++i)
      out.template add<T>(Weights<T>(score[2 * i], score[2 * i + 1]), values[i]);
  });
  finish<T>(problem, output, place, running, out);
}

} // namespace

void launch_selected_forward(const SelectedProblem& problem,
                             const SelectedOutput& output,
                             cudaStream_t stream) {
  if (problem.tokens == 0) return;
  if (problem.type == ElementType::Fp32) {
    launch_selected_forward_fp32(problem, output, stream);
    return;
  }
  dispatch_half(problem, [&](auto element, auto width) {
    constexpr int kWidth = decltype(width)::value;
    forward_kernel<decltype(element), kWidth, kWidth == 64 ? 32 : 16>
        <<<selected_grid(problem), kWarpsPerBlock * 32, 0, stream>>>(problem, output);
  });
}

} // namespace assay
