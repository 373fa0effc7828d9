#include "kernels/products/timed_products.h"

#include <fmt/format.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/result.h"
#include "kernels/cuda_check.h"
#include "kernels/products/lt_call.h"

namespace assay::timed_products {

namespace {

constexpr int kProposals = 8; // that are timed
constexpr int kTimedRuns = 3; // of each, after one that is not
constexpr float kMargin = 0.01F;

std::string text_of(const Shape& s) {
  return fmt::format("a product of {} x {} over {}{}{}{}",
                     s.rows,
                     s.columns,
                     s.inner,
                     s.left.transposed ? ", left transposed" : "",
                     s.right.transposed ? ", right transposed" : "",
                     s.biased ? ", biased" : "");
}

// cuBLASLt is told the transpose: out^T = right^T left^T, with `right` as its A and `left` as its
// B. A row-major matrix is the column-major form of its transpose.
LtCall call_of(const Shape& s) {
  const auto operand = [](const Operand& o, std::int64_t rows, std::int64_t columns) {
    return o.transposed ? LtCall::Matrix{CUDA_R_16BF, rows, columns, o.stride}
                        : LtCall::Matrix{CUDA_R_16BF, columns, rows, o.stride};
  };
  LtCall call([&s] { return text_of(s); },
              operand(s.right, s.inner, s.columns),
              operand(s.left, s.rows, s.inner),
              {s.wide ? CUDA_R_32F : CUDA_R_16BF, s.columns, s.rows, s.out_stride});
  call.transpose(s.right.transposed, s.left.transposed);
  if (s.biased) call.set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
  return call;
}

// Of one shape on one device: the proposals, until one of them is chosen.
struct Choice {
  std::vector<LtAlgorithm> proposals; // none: cuBLASLt has no algorithm
  bool timed = false;                 // the first is the fastest
};

struct Choices {
  std::mutex mutex; // also held while algorithms are timed: one thread's runs disturb no other's
  std::map<std::pair<int, Shape>, Choice> of;
};

Choices& choices() {
  static Choices& all = *new Choices; // never destroyed: backward threads may outlive main()
  return all;
}

// Parts of a sum are added up in fp32, also where the result is bf16.
Choice& choice_of(Choices& all, cublasLtHandle_t handle, const Shape& shape) {
  int device = 0;
  ASSAY_CUDA(cudaGetDevice(&device));
  const auto [place, fresh] = all.of.try_emplace(std::pair(device, shape));
  if (fresh)
    place->second.proposals =
        call_of(shape).algorithms(handle,
                                  {static_cast<std::uint64_t>(kWorkspaceBytes),
                                   CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE,
                                   static_cast<std::uint32_t>(kAlignment)},
                                  kProposals);
  return place->second;
}

struct Destroy {
  void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
};
using Event = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, Destroy>;

Event new_event() {
  cudaEvent_t event = nullptr;
  ASSAY_CUDA(cudaEventCreate(&event));
  return Event(event);
}

// Of kTimedRuns, in ms.
float time_of(const auto& one, cudaStream_t stream) {
  const Event begin = new_event(), end = new_event();
  one();
  ASSAY_CUDA(cudaEventRecord(begin.get(), stream));
  for (int i = 0; i < kTimedRuns; ++i) one();
  ASSAY_CUDA(cudaEventRecord(end.get(), stream));
  ASSAY_CUDA(cudaEventSynchronize(end.get()));
  float ms = 0;
  ASSAY_CUDA(cudaEventElapsedTime(&ms, begin.get(), end.get()));
  return ms;
}

// The heuristics' first, unless another is faster by more than kMargin.
LtAlgorithm
fastest_of(const std::vector<LtAlgorithm>& proposals, const auto& run_with, cudaStream_t stream) {
  const LtAlgorithm* fastest = nullptr;
  float least = 0;
  for (const LtAlgorithm& algorithm : proposals) {
    const float ms = time_of([&] { run_with(algorithm); }, stream);
    if (fastest == nullptr || ms < least * (1 - kMargin)) fastest = &algorithm, least = ms;
  }
  return *fastest;
}

bool is_captured(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  ASSAY_CUDA(cudaStreamIsCapturing(stream, &status));
  return status != cudaStreamCaptureStatusNone;
}

} // namespace

bool takes(cublasLtHandle_t handle, const Shape& shape) {
  Choices& all = choices();
  const std::lock_guard lock(all.mutex);
  return !choice_of(all, handle, shape).proposals.empty();
}

void run(cublasLtHandle_t handle,
         const Shape& shape,
         const Pointers& pointers,
         bool add,
         cudaStream_t stream) {
  LtCall call = call_of(shape);
  if (shape.biased) call.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, pointers.bias);
  const auto run_with = [&](const LtAlgorithm& algorithm) {
    call.run(handle,
             {pointers.right, pointers.left, pointers.out, pointers.workspace},
             add ? 1 : 0,
             algorithm,
             stream);
  };
  Choices& all = choices();
  std::unique_lock lock(all.mutex);
  Choice& choice = choice_of(all, handle, shape);
  if (choice.proposals.empty()) internal_error("cuBLASLt has no algorithm for {}", text_of(shape));
  if (!choice.timed && !add && !is_captured(stream))
    choice = {{fastest_of(choice.proposals, run_with, stream)}, true};
  const LtAlgorithm chosen = choice.proposals.front();
  lock.unlock();
  run_with(chosen);
}

} // namespace assay::timed_products
