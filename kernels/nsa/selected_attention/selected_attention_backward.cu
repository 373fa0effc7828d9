// Backward of selected attention (arXiv 2205.14135, appendix B.4): with p = exp(score - lse),
//   delta = sum_d dO O;  dS = p (dO V^T - delta);  dQ = scale dS K;  dK = scale dS^T Q;
//   dV = p^T dO.
// dQ goes query by query over its keys, like the forward. dK and dV go key block by key block over
// the queries that selected it (an inverse index, selected_key_gradient.cuh): a query costs 4 h d
// bytes there, where adding to its keys' gradients one by one would cost 8 l' d bytes of atomics.
#include "kernels/nsa/selected_attention/selected_attention.h"
#include "kernels/nsa/selected_attention/selected_key_gradient.cuh"
#include "kernels/nsa/selected_attention/selected_tensor_core.cuh"

namespace assay {

namespace {

template <class T, int kWidth>
__device__ float row_product(const Row<kWidth>& a, const Row<kWidth>& b) {
  float sum = 0;
#pragma unroll
  for (int m = 0; m < kWidth / 32; ++m)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 x = unpack<T>(a.part[m].w[i]), y = unpack<T>(b.part[m].w[i]);
      sum += x.x * y.x + x.y * y.y;
    }
  return row_sum(sum);
}

// Heads r and r+8 of one query.
template <class T, int kWidth> struct QueryHeads {
  Row<kWidth> q[2], grad[2];
  float lse2[2], delta[2]; // lse in powers of two

  __device__ QueryHeads(const SelectedProblem& problem,
                        const SelectedGradients& gradients,
                        const Place& place) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int head = place.r + 8 * half;
      const bool exists = head < place.group_heads;
      const std::int64_t row = place.query_row(problem, head);
      q[half].load(row_at<T, kWidth>(problem.q, row), place.c, exists);
      grad[half].load(row_at<T, kWidth>(gradients.grad_out, row), place.c, exists);
      Row<kWidth> out;
      out.load(row_at<T, kWidth>(gradients.out, row), place.c, exists);
      delta[half] = row_product<T>(grad[half], out);
      lse2[half] = exists ? gradients.lse[row] * kLog2E : 0;
      if (exists && place.c == 0) gradients.delta[row] = delta[half];
    }
  }
};

template <class T, int kWidth>
__global__ void __launch_bounds__(kWarpsPerBlock * 32, kWidth == 64 ? 2 : 1)
    query_gradient_kernel(SelectedProblem problem, SelectedGradients gradients) {
  const Place place(problem);
  if (!place.exists) return; // whole warps leave; no barrier follows
  const int r = place.r, c = place.c;
  const QueryHeads<T, kWidth> heads(problem, gradients, place);
  const float factor = problem.scale * kLog2E;
  Result<kWidth> grad_q;
  const Spans spans = selected_spans(problem, place.t, place.group, place.lane);
  for_each_tile<16>(spans, [&](int key, int end) {
    const auto row = [&](const void* base, int offset) {
      const std::int64_t token = min(key + offset, end - 1); // repeats the last token's row
      return row_at<T, kWidth>(base, token * problem.groups + place.group);
    };
    float grad_score[2][4];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      float score[4] = {}, grad_weight[4] = {};
      Row<kWidth> keys, values;
      keys.load(row(problem.k, 8 * j + r), c);
      values.load(row(problem.v, 8 * j + r), c);
      add_dots<T>(score, heads.q[0], heads.q[1], keys);
      add_dots<T>(grad_weight, heads.grad[0], heads.grad[1], values);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const bool belongs = key + 8 * j + 2 * c + (i & 1) < end;
        const float weight = belongs ? exp2_fast(score[i] * factor - heads.lse2[i / 2]) : 0.0F;
        grad_score[j][i] = weight * (grad_weight[i] - heads.delta[i / 2]);
      }
    }
    Columns<kWidth> keys;
    keys.load([&](int index) { return row(problem.k, index); }, r, c);
    grad_q.template add<T>(Weights<T>(grad_score[0], grad_score[1]), keys);
  });
  grad_q.scale_rows(problem.scale, problem.scale);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int head = r + 8 * half;
    if (head < place.group_heads)
      grad_q.template store<T>(static_cast<T*>(gradients.grad_q) +
                                   place.query_row(problem, head) * kWidth,
                               c,
                               half == 1);
  }
}

// As many thread blocks as the device runs at once: the number of items stays on the device.
template <class Kernel> unsigned resident_blocks(Kernel kernel, int threads) {
  int device = 0, processors = 0, blocks = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device) != cudaSuccess ||
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, 0) != cudaSuccess)
    return 1; // the failure stays in cudaGetLastError
  return static_cast<unsigned>(processors * (blocks > 0 ? blocks : 1));
}

template <int kQueries, int kMaxThreads>
void start_key_gradient(const SelectedProblem& problem,
                        const SelectedGradients& gradients,
                        const SelectedIndex& index,
                        cudaStream_t stream) {
  const int threads = problem.block_size / 16 * 32; // a warp per 16 keys
  dispatch_half(problem, [&](auto element, auto width) {
    const auto kernel =
        key_gradient_kernel<decltype(element), decltype(width)::value, kQueries, kMaxThreads>;
    const unsigned grid = resident_blocks(kernel, threads);
    kernel<<<grid, static_cast<unsigned>(threads), 0, stream>>>(problem, gradients, index);
  });
}

} // namespace

void launch_selected_query_gradient(const SelectedProblem& problem,
                                    const SelectedGradients& gradients,
                                    cudaStream_t stream) {
  if (problem.tokens == 0) return;
  dispatch_half(problem, [&](auto element, auto width) {
    query_gradient_kernel<decltype(element), decltype(width)::value>
        <<<selected_grid(problem), kWarpsPerBlock * 32, 0, stream>>>(problem, gradients);
  });
}

void launch_selected_key_gradient(const SelectedProblem& problem,
                                  const SelectedGradients& gradients,
                                  const SelectedIndex& index,
                                  cudaStream_t stream) {
  if (problem.tokens == 0) return;
  const int heads = problem.heads / problem.groups;
  const bool wide = problem.block_size > 64;
  const auto start = heads > 8   ? (wide ? start_key_gradient<1, 256> : start_key_gradient<1, 128>)
                     : heads > 4 ? (wide ? start_key_gradient<2, 256> : start_key_gradient<2, 128>)
                                 : (wide ? start_key_gradient<4, 256> : start_key_gradient<4, 128>);
  start(problem, gradients, index, stream);
}

} // namespace assay
