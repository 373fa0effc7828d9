// Selected attention in fp32 with plain multiply-adds: one thread block per query and group, a warp
// per four heads, a lane one key of a tile of 32. Its gradients of keys and values are added one by
// one: this path carries parity, not speed.
#include "kernels/nsa/selected_attention/selected_fp32.h"
#include "kernels/nsa/selected_attention/selected_spans.cuh"

namespace assay {

namespace {

constexpr int kThreads = 128, kTile = 32, kHeads = 4; // of a warp

__device__ float warp_max(float x) {
  for (int step = 16; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, step));
  return x;
}
__device__ float warp_sum(float x) {
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(kAllLanes, x, step);
  return x;
}

struct Unit {
  int lane, first_head, group_heads, group, t; // first_head: of this warp, inside the group
  std::int64_t query_row;                      // of head 0 of the group

  __device__ explicit Unit(const SelectedProblem& problem)
      : lane(static_cast<int>(threadIdx.x) % 32),
        first_head(static_cast<int>(threadIdx.x) / 32 * kHeads),
        group_heads(problem.heads / problem.groups),
        group(static_cast<int>(blockIdx.x % problem.groups)), t(token_of(problem, blockIdx.x)),
        query_row(static_cast<std::int64_t>(t) * problem.heads + group * group_heads) {}
};

// The group's heads of a [T, H, d] tensor; heads that do not exist are zero.
template <int kWidth>
__device__ void
load_heads(float (&to)[kMaxGroupHeads][kWidth], const void* from, const Unit& unit) {
  const float* rows = static_cast<const float*>(from) + unit.query_row * kWidth;
  for (int i = static_cast<int>(threadIdx.x); i < kMaxGroupHeads * kWidth; i += kThreads)
    to[i / kWidth][i % kWidth] = i / kWidth < unit.group_heads ? rows[i] : 0;
}

// Tokens key … key + 31 of a [T, G, d] tensor; from `end` on the last one is repeated. Padded: a
// lane reads its own row without bank conflicts.
template <int kWidth>
__device__ void load_tile(float (&to)[kTile][kWidth + 1],
                          const void* from,
                          const SelectedProblem& problem,
                          int group,
                          int key,
                          int end) {
  for (int i = static_cast<int>(threadIdx.x); i < kTile * kWidth; i += kThreads) {
    const std::int64_t token = min(key + i / kWidth, end - 1);
    to[i / kWidth][i % kWidth] =
        static_cast<const float*>(from)[(token * problem.groups + group) * kWidth + i % kWidth];
  }
}

// dots[i] = head (first + i) . row `lane` of the tile
template <int kWidth>
__device__ void head_dots(float (&dots)[kHeads],
                          const float (&heads)[kMaxGroupHeads][kWidth],
                          int first,
                          const float (&row)[kWidth + 1]) {
  for (int i = 0; i < kHeads; ++i) dots[i] = 0;
  for (int d = 0; d < kWidth; ++d)
#pragma unroll
    for (int i = 0; i < kHeads; ++i) dots[i] += heads[first + i][d] * row[d];
}

// sum[i][x] += over the tile's keys: weight[i] of the key's lane times its row at d = lane + 32 x
template <int kWidth>
__device__ void add_rows(float (&sum)[kHeads][kWidth / 32],
                         const float (&weight)[kHeads],
                         const float (&tile)[kTile][kWidth + 1],
                         int lane) {
  for (int key = 0; key < kTile; ++key)
#pragma unroll
    for (int i = 0; i < kHeads; ++i) {
      const float w = __shfl_sync(kAllLanes, weight[i], key);
#pragma unroll
      for (int x = 0; x < kWidth / 32; ++x) sum[i][x] += w * tile[key][lane + 32 * x];
    }
}

template <int kWidth>
__global__ void __launch_bounds__(kThreads)
    forward_fp32_kernel(SelectedProblem problem, SelectedOutput output) {
  __shared__ float q[kMaxGroupHeads][kWidth];
  __shared__ float tile[kTile][kWidth + 1];
  const Unit unit(problem);
  load_heads(q, problem.q, unit);
  float top[kHeads], sum[kHeads] = {}, out[kHeads][kWidth / 32] = {};
  for (float& x : top) x = -kInfinity;
  const Spans spans = selected_spans(problem, unit.t, unit.group, unit.lane);
  for_each_tile<kTile>(spans, [&](int key, int end) { // the same tiles in every warp
    __syncthreads();
    load_tile<kWidth>(tile, problem.k, problem, unit.group, key, end);
    __syncthreads();
    float weight[kHeads];
    head_dots(weight, q, unit.first_head, tile[unit.lane]);
    for (int i = 0; i < kHeads; ++i) {
      const float score = key + unit.lane < end ? weight[i] * problem.scale : -kInfinity;
      const float new_top = fmaxf(top[i], warp_max(score)), shrink = expf(top[i] - new_top);
      top[i] = new_top;
      weight[i] = expf(score - new_top);
      sum[i] = sum[i] * shrink + weight[i];
      for (float& x : out[i]) x *= shrink;
    }
    __syncthreads();
    load_tile<kWidth>(tile, problem.v, problem, unit.group, key, end);
    __syncthreads();
    add_rows<kWidth>(out, weight, tile, unit.lane);
  });
  for (int i = 0; i < kHeads; ++i) {
    const float total = warp_sum(sum[i]); // all lanes, also of heads that do not exist
    if (unit.first_head + i >= unit.group_heads) continue;
    const std::int64_t row = unit.query_row + unit.first_head + i;
    for (int x = 0; x < kWidth / 32; ++x)
      static_cast<float*>(output.out)[row * kWidth + unit.lane + 32 * x] =
          total > 0 ? out[i][x] / total : 0;
    if (unit.lane == 0) output.lse[row] = total > 0 ? top[i] + logf(total) : -kInfinity;
  }
}

// to[key][d] += factor sum over heads of weight[head][key] heads[head][d]
template <int kWidth>
__device__ void add_to_keys(float* to,
                            const float (&weight)[kMaxGroupHeads][kTile + 1],
                            const float (&heads)[kMaxGroupHeads][kWidth],
                            const SelectedProblem& problem,
                            int group,
                            int key,
                            int end,
                            float factor) {
  for (int i = static_cast<int>(threadIdx.x); i < kTile * kWidth; i += kThreads) {
    const int row = i / kWidth, d = i % kWidth;
    if (key + row >= end) break; // rows only grow
    float sum = 0;
#pragma unroll
    for (int head = 0; head < kMaxGroupHeads; ++head) sum += weight[head][row] * heads[head][d];
    const std::int64_t token = key + row;
    atomicAdd(to + (token * problem.groups + group) * kWidth + d, sum * factor);
  }
}

template <int kWidth>
__global__ void __launch_bounds__(kThreads)
    backward_fp32_kernel(SelectedProblem problem, SelectedGradients gradients) {
  __shared__ float q[kMaxGroupHeads][kWidth], grad[kMaxGroupHeads][kWidth];
  __shared__ float tile[kTile][kWidth + 1];
  __shared__ float weights[kMaxGroupHeads][kTile + 1], grad_scores[kMaxGroupHeads][kTile + 1];
  const Unit unit(problem);
  load_heads(q, problem.q, unit);
  load_heads(grad, gradients.grad_out, unit);
  __syncthreads();
  float lse[kHeads], delta[kHeads], grad_q[kHeads][kWidth / 32] = {};
  for (int i = 0; i < kHeads; ++i) {
    const int head = unit.first_head + i;
    const bool exists = head < unit.group_heads;
    const std::int64_t row = unit.query_row + head;
    float part = 0;
    for (int d = unit.lane; d < kWidth && exists; d += 32)
      part += grad[head][d] * static_cast<const float*>(gradients.out)[row * kWidth + d];
    delta[i] = warp_sum(part);
    lse[i] = exists ? gradients.lse[row] : kInfinity; // weight 0
    if (exists && unit.lane == 0) gradients.delta[row] = delta[i];
  }
  const Spans spans = selected_spans(problem, unit.t, unit.group, unit.lane);
  for_each_tile<kTile>(spans, [&](int key, int end) { // the same tiles in every warp
    float score[kHeads], grad_score[kHeads];
    __syncthreads();
    load_tile<kWidth>(tile, problem.v, problem, unit.group, key, end);
    __syncthreads();
    head_dots(grad_score, grad, unit.first_head, tile[unit.lane]);
    __syncthreads();
    load_tile<kWidth>(tile, problem.k, problem, unit.group, key, end);
    __syncthreads();
    head_dots(score, q, unit.first_head, tile[unit.lane]);
    for (int i = 0; i < kHeads; ++i) {
      const float weight = key + unit.lane < end ? expf(score[i] * problem.scale - lse[i]) : 0;
      grad_score[i] = weight * (grad_score[i] - delta[i]);
      weights[unit.first_head + i][unit.lane] = weight;
      grad_scores[unit.first_head + i][unit.lane] = grad_score[i];
    }
    add_rows<kWidth>(grad_q, grad_score, tile, unit.lane);
    __syncthreads();
    add_to_keys(gradients.grad_v, weights, grad, problem, unit.group, key, end, 1);
    add_to_keys(gradients.grad_k, grad_scores, q, problem, unit.group, key, end, problem.scale);
  });
  for (int i = 0; i < kHeads && unit.first_head + i < unit.group_heads; ++i)
    for (int x = 0; x < kWidth / 32; ++x)
      static_cast<float*>(
          gradients.grad_q)[(unit.query_row + unit.first_head + i) * kWidth + unit.lane + 32 * x] =
          grad_q[i][x] * problem.scale;
}

unsigned grid_of(const SelectedProblem& problem) {
  return static_cast<unsigned>(problem.tokens) * static_cast<unsigned>(problem.groups);
}

} // namespace

void launch_selected_forward_fp32(const SelectedProblem& problem,
                                  const SelectedOutput& output,
                                  cudaStream_t stream) {
  const auto kernel = problem.width == 128 ? forward_fp32_kernel<128> : forward_fp32_kernel<64>;
  kernel<<<grid_of(problem), kThreads, 0, stream>>>(problem, output);
}

void launch_selected_backward_fp32(const SelectedProblem& problem,
                                   const SelectedGradients& gradients,
                                   cudaStream_t stream) {
  if (problem.tokens == 0) return;
  const auto kernel = problem.width == 128 ? backward_fp32_kernel<128> : backward_fp32_kernel<64>;
  kernel<<<grid_of(problem), kThreads, 0, stream>>>(problem, gradients);
}

} // namespace assay
