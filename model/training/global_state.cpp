#include "model/training/global_state.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>

#include <string>

namespace assay {

namespace {

class Fnv1a {
public:
  void add(const void* data, std::size_t size) {
    const auto* bytes = static_cast<const unsigned char*>(data);
    for (std::size_t i = 0; i < size; ++i) value_ = (value_ ^ bytes[i]) * 1099511628211ULL;
  }
  void add(std::int64_t value) { add(&value, sizeof value); }
  std::uint64_t value() const { return value_; }

private:
  std::uint64_t value_ = 14695981039346656037ULL;
};

void add_generator(Fnv1a& hash, const at::Generator& generator) {
  const at::Tensor state = generator.get_state();
  hash.add(state.const_data_ptr(), state.nbytes());
}

} // namespace

std::uint64_t global_state_hash() {
  const at::Context& context = at::globalContext();
  Fnv1a hash;
  for (const bool flag : {context.deterministicAlgorithms(),
                          context.deterministicAlgorithmsWarnOnly(),
                          context.deterministicFillUninitializedMemory(),
                          context.deterministicCuDNN(),
                          context.benchmarkCuDNN(),
                          context.userEnabledCuDNN(),
                          context.userEnabledMkldnn(),
                          context.userEnabledFlashSDP(),
                          context.userEnabledMemEfficientSDP(),
                          context.userEnabledMathSDP(),
                          context.userEnabledCuDNNSDP(),
                          context.allowTF32CuBLAS(),
                          context.allowTF32CuDNN(),
                          at::GradMode::is_enabled(),
                          at::autocast::is_autocast_enabled(at::kCPU),
                          at::autocast::is_autocast_enabled(at::kCUDA),
                          at::autocast::is_autocast_cache_enabled()})
    hash.add(static_cast<std::int64_t>(flag));
  hash.add(static_cast<std::int64_t>(context.float32MatmulPrecision()));
  hash.add(static_cast<std::int64_t>(context.allowFP16ReductionCuBLAS()));
  hash.add(static_cast<std::int64_t>(context.allowBF16ReductionCuBLAS()));
  hash.add(static_cast<std::int64_t>(at::get_default_dtype_as_scalartype()));
  hash.add(at::get_num_threads());
  add_generator(hash, at::detail::getDefaultCPUGenerator());
  if (at::hasCUDA() && at::detail::getCUDAHooks().hasPrimaryContext(0))
    add_generator(hash, at::cuda::detail::getDefaultCUDAGenerator(0));
  return hash.value();
}

} // namespace assay
