// Backward of selected attention (arXiv 2205.14135, appendix B.4): with p = exp(score - lse),
//   delta = sum_d dO O;  dS = p (dO V^T - delta);  dQ = scale dS K;  dK = scale dS^T Q;
//   dV = p^T dO.
// dQ goes query by query over its keys, like the forward. dK and dV go key block by key block over
// the queries that selected it (an inverse index), 16 keys a warp: a query costs 4 h d bytes there,
// where adding to its keys' gradients one by one would cost 8 l' d bytes of atomics.
#include "kernels/selected_attention.h"
#include "kernels/selected_tensor_core.cuh"

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
__global__ void __launch_bounds__(kWarpsPerBlock * 32, kWidth == 64 ? 4 : 2)
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
        const float weight = belongs ? fast_exp2(score[i] * factor - heads.lse2[i / 2]) : 0.0F;
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

// The first place whose end is beyond `item`.
__device__ int place_of(const std::int32_t* item_end, int places, int item) {
  int low = 0, high = places - 1;
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (item_end[middle] > item)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

// 16 keys of one warp: rows r and r+8 of what it adds up.
template <class T, int kWidth> struct KeyRows {
  Row<kWidth> k[2], v[2];
  Result<kWidth> grad_k, grad_v;

  // One query's heads, all of them columns.
  __device__ __forceinline__ void add_query(const SelectedProblem& problem,
                                            const SelectedGradients& gradients,
                                            std::int64_t first_row,
                                            int visible, // of the 16 keys
                                            int lane) {
    const int r = lane / 4, c = lane % 4, heads = problem.heads / problem.groups;
    const float factor = problem.scale * kLog2E;
    float weight[2][4] = {}, grad_score[2][4] = {};
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      Row<kWidth> query, grad;
      const bool exists = 8 * j + r < heads;
      query.load(row_at<T, kWidth>(problem.q, first_row + 8 * j + r), c, exists);
      grad.load(row_at<T, kWidth>(gradients.grad_out, first_row + 8 * j + r), c, exists);
      add_dots<T>(weight[j], k[0], k[1], query);
      add_dots<T>(grad_score[j], v[0], v[1], grad);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int head = 8 * j + 2 * c + (i & 1);
        const bool counts = head < heads && r + 8 * (i / 2) < visible;
        const float lse2 = counts ? gradients.lse[first_row + head] * kLog2E : 0;
        const float delta = counts ? gradients.delta[first_row + head] : 0;
        weight[j][i] = counts ? fast_exp2(weight[j][i] * factor - lse2) : 0;
        grad_score[j][i] = weight[j][i] * (grad_score[j][i] - delta);
      }
    }
    const auto heads_of = [&](const void* base) {
      return [=](int head) -> const void* {
        return head < heads ? row_at<T, kWidth>(base, first_row + head) : nullptr;
      };
    };
    Columns<kWidth> rows;
    rows.load(heads_of(gradients.grad_out), r, c);
    grad_v.template add<T>(Weights<T>(weight[0], weight[1]), rows);
    rows.load(heads_of(problem.q), r, c);
    grad_k.template add<T>(Weights<T>(grad_score[0], grad_score[1]), rows);
  }
};

template <class T, int kWidth, int kThreads>
__global__ void __launch_bounds__(kThreads, kThreads == 128 && kWidth == 64 ? 3 : 1)
    key_gradient_kernel(SelectedProblem problem, SelectedGradients gradients, SelectedIndex index) {
  const int lane = static_cast<int>(threadIdx.x) % 32, r = lane / 4, c = lane % 4;
  const int places = problem.groups * problem.tokens;
  const int items = index.item_end[places - 1];
  for (int item = static_cast<int>(blockIdx.x); item < items; item += gridDim.x) {
    const int place = place_of(index.item_end, places, item);
    const int group = place / problem.tokens;
    const int key = place % problem.tokens + 16 * (static_cast<int>(threadIdx.x) / 32);
    KeyRows<T, kWidth> rows;
    std::int64_t row[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      row[half] = static_cast<std::int64_t>(key + r + 8 * half) * problem.groups + group;
      const bool exists = key + r + 8 * half < problem.tokens;
      rows.k[half].load(row_at<T, kWidth>(problem.k, row[half]), c, exists);
      rows.v[half].load(row_at<T, kWidth>(problem.v, row[half]), c, exists);
    }
    const int before = place > 0 ? index.item_end[place - 1] : 0;
    const int begin =
        (place > 0 ? index.query_end[place - 1] : 0) + (item - before) * kQueriesPerItem;
    const int end = min(begin + kQueriesPerItem, index.query_end[place]);
    for (int i = begin; i < end; ++i) {
      const int t = index.queries[i];
      if (key > t) continue; // the whole warp
      const std::int64_t first_row =
          static_cast<std::int64_t>(t) * problem.heads + group * (problem.heads / problem.groups);
      rows.add_query(problem, gradients, first_row, t + 1 - key, lane);
    }
#pragma unroll
    for (int half = 0; half < 2; ++half)
      if (key + r + 8 * half < problem.tokens) {
        rows.grad_k.add_to(gradients.grad_k + row[half] * kWidth, c, half == 1, problem.scale);
        rows.grad_v.add_to(gradients.grad_v + row[half] * kWidth, c, half == 1, 1);
      }
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

// kMaxThreads only bounds what the compiler may use; a warp has 16 keys.
template <int kMaxThreads>
void start_key_gradient(const SelectedProblem& problem,
                        const SelectedGradients& gradients,
                        const SelectedIndex& index,
                        cudaStream_t stream) {
  const int threads = problem.block_size / 16 * 32;
  dispatch_half(problem, [&](auto element, auto width) {
    const auto kernel = key_gradient_kernel<decltype(element), decltype(width)::value, kMaxThreads>;
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
  if (problem.block_size <= 64)
    start_key_gradient<128>(problem, gradients, index, stream);
  else
    start_key_gradient<256>(problem, gradients, index, stream);
}

} // namespace assay
