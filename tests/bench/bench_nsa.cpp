// NSA on a GPU: from selected blocks to ranges in three forms, and attention over them, in time of
// the stream by CUDA events: medians over repeats, each after a write of more than the L2 holds.
// The host loop's time holds its waits.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <CLI/CLI.hpp>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <random>
#include <vector>

#include "core/result.h"
#include "core/statistics.h"
#include "model/gates.h"
#include "model/nsa_ranges.h"
#include "model/selected_attention.h"

namespace assay {
namespace {

constexpr std::int64_t kBlock = 64;

struct Options {
  int repeats = 30, loop_repeats = 3;
  std::int64_t heads = 16, groups = 1, width = 64, slots = 16;
  std::vector<std::int64_t> tokens{8192, 32768};
};

// Milliseconds of `work` on the current stream, the median of `repeats` after two warm-ups.
double device_ms(int repeats, const std::function<void()>& work) {
  const at::Tensor l2 = at::empty({2 * at::cuda::getCurrentDeviceProperties()->l2CacheSize},
                                  at::TensorOptions().device(at::kCUDA).dtype(at::kByte));
  std::vector<double> times;
  for (int i = -2; i < repeats; ++i) {
    l2.zero_();
    at::cuda::CUDAEvent begin(cudaEventDefault), end(cudaEventDefault);
    begin.record(c10::cuda::getCurrentCUDAStream());
    work();
    end.record(c10::cuda::getCurrentCUDAStream());
    end.synchronize();
    if (i >= 0) times.push_back(begin.elapsed_time(end));
  }
  return median(times);
}

// Block 0, the query's own and the one before it, and random others without repetition: int64
// [B, S, G, n] on the device.
at::Tensor
random_selection(std::int64_t rows, std::int64_t tokens, std::int64_t groups, std::int64_t slots) {
  std::mt19937_64 random(1);
  const at::Tensor blocks = at::full({rows, tokens, groups, slots}, -1, at::kLong);
  auto* out = blocks.mutable_data_ptr<std::int64_t>();
  std::vector<std::int64_t> others;
  for (std::int64_t unit = 0; unit < rows * tokens * groups; ++unit, out += slots) {
    const std::int64_t own = unit / groups % tokens / kBlock;
    others.clear();
    for (std::int64_t block = 1; block < own - 1; ++block) others.push_back(block);
    std::vector<std::int64_t> chosen{0};
    if (own >= 1) chosen.push_back(own);
    if (own >= 2) chosen.push_back(own - 1);
    std::sample(others.begin(),
                others.end(),
                std::back_inserter(chosen),
                std::max<std::int64_t>(0, slots - static_cast<std::int64_t>(chosen.size())),
                random);
    std::shuffle(chosen.begin(), chosen.end(), random);
    std::copy_n(
        chosen.begin(), std::min<std::size_t>(chosen.size(), static_cast<std::size_t>(slots)), out);
  }
  return blocks.cuda();
}

void compare_ranges(const Options& options,
                    std::int64_t rows,
                    std::int64_t tokens,
                    std::int64_t groups,
                    std::int64_t slots) {
  const at::Tensor blocks = random_selection(rows, tokens, groups, slots);
  const at::Tensor expected = ranges_looped(blocks, kBlock);
  if (!at::equal(ranges_tensor(blocks, kBlock), expected) ||
      !at::equal(ranges_kernel(blocks, kBlock), expected))
    internal_error("the three range conversions differ");
  const double looped =
      device_ms(options.loop_repeats, [&] { (void)ranges_looped(blocks, kBlock); });
  fmt::print("ranges, B {} S {} G {} n {}\n", rows, tokens, groups, slots);
  const auto row = [&](const char* name, double ms) {
    fmt::print("  {:<28} {:>12.4f} ms  {:>10.1f}x\n", name, ms, looped / ms);
  };
  row("v1, host loop", looped);
  row("v2a, tensor operations",
      device_ms(options.repeats, [&] { (void)ranges_tensor(blocks, kBlock); }));
  row("v2b, one kernel", device_ms(options.repeats, [&] { (void)ranges_kernel(blocks, kBlock); }));
}

struct Case {
  at::Tensor q, k, v, weights;
  Selection blocks, ranges;
  // Bytes that the kernels ask for, whichever cache serves them: forward, rows of K and V of every
  // query; backward, these again, and for every query and block q and grad of all heads.
  double forward_bytes = 0, backward_bytes = 0;
  double memory_bytes = 0; // of q, k, v and out: what the forward must read and write at least
};

Case make_case(const Options& options, std::int64_t tokens) {
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(2);
  const auto normal = [&](std::int64_t count) {
    return at::empty({tokens, count, options.width}, at::kFloat)
        .normal_(0, 1, generator)
        .to(at::TensorOptions().device(at::kCUDA).dtype(at::kBFloat16));
  };
  Case it;
  it.q = normal(options.heads).requires_grad_();
  it.k = normal(options.groups).requires_grad_();
  it.v = normal(options.groups).requires_grad_();
  it.weights = normal(options.heads);
  const at::Tensor blocks = random_selection(1, tokens, options.groups, options.slots);
  const at::Tensor starts =
      at::zeros({tokens}, at::TensorOptions().device(at::kCUDA).dtype(at::kInt));
  const at::Tensor ranges = ranges_kernel(blocks, kBlock);
  it.blocks = {blocks.squeeze(0), starts, kBlock};
  it.ranges = {ranges.squeeze(0), starts, kBlock};
  const double keys = (ranges.select(-1, 1) - ranges.select(-1, 0)).sum().item<double>();
  const auto row = static_cast<double>(options.width * 2); // bytes of one head of one token
  const double pairs = blocks.ge(0).sum().item<double>();
  it.forward_bytes = keys * row * 2;
  it.backward_bytes =
      it.forward_bytes + pairs * static_cast<double>(options.heads / options.groups) * row * 2;
  it.memory_bytes = static_cast<double>(tokens * (options.heads + options.groups) * 2) * row;
  return it;
}

// Output and gradients of either form against the tensor form, before anything is timed.
void check_parity(const Case& it, double scale) {
  constexpr double kBound = 1e-2;
  const char* names[] = {"output", "gradient of q", "gradient of k", "gradient of v"};
  const auto run = [&](auto&& attention, const Selection& selection) {
    const at::Tensor out = attention(it.q, it.k, it.v, selection, scale);
    std::vector<at::Tensor> all = torch::autograd::grad({out}, {it.q, it.k, it.v}, {it.weights});
    all.insert(all.begin(), out.detach());
    return all;
  };
  const auto expected = run(selected_attention_tensor_form, it.blocks);
  for (const Selection* form : {&it.blocks, &it.ranges}) {
    const auto actual = run(selected_attention, *form);
    for (std::size_t i = 0; i < expected.size(); ++i)
      if (const double error = relative_rms(actual[i], expected[i]); !(error <= kBound))
        internal_error("{} of the kernels differs from the tensor form by {:.3g} > {}",
                       names[i],
                       error,
                       kBound);
  }
}

void time_attention(const Options& options, std::int64_t tokens) {
  const Case it = make_case(options, tokens);
  const double scale = 1 / std::sqrt(static_cast<double>(options.width));
  check_parity(it, scale);
  fmt::print("selected attention, T {} G {} heads {} d {} n {} l' {}, bf16\n",
             tokens,
             options.groups,
             options.heads,
             options.width,
             options.slots,
             kBlock);
  const auto row = [](const char* form, const char* pass, double ms, double bytes, double memory) {
    fmt::print("  {:<14} {:<17} {:>9.4f} ms; asks for {:>6.2f} GB: {:>6.0f} GB/s by cache",
               form,
               pass,
               ms,
               bytes * 1e-9,
               bytes / ms * 1e-6);
    if (memory > 0)
      fmt::print("; {:.3f} GB at least: {:.0f} GB/s by memory", memory * 1e-9, memory / ms * 1e-6);
    fmt::print("\n");
  };
  for (const Selection* form : {&it.blocks, &it.ranges}) {
    const char* name = form == &it.blocks ? "block indices" : "ranges";
    const auto forward = [&] { return selected_attention(it.q, it.k, it.v, *form, scale); };
    const double ahead = device_ms(options.repeats, [&] {
      const at::NoGradGuard no_grad;
      (void)forward();
    });
    const double both = device_ms(options.repeats, [&] {
      (void)torch::autograd::grad({forward()}, {it.q, it.k, it.v}, {it.weights});
    });
    row(name, "forward", ahead, it.forward_bytes, it.memory_bytes);
    row(name, "forward+backward", both, it.forward_bytes + it.backward_bytes, 0);
  }
}

int run(const Options& options) {
  if (!at::cuda::is_available()) bad_input("bench_nsa needs a CUDA device, and there is none here");
  const cudaDeviceProp& device = *at::cuda::getCurrentDeviceProperties();
  fmt::print("{}, L2 {:.0f} MB\n", device.name, static_cast<double>(device.l2CacheSize) * 1e-6);
  compare_ranges(options, 2, 256, 4, 32);
  compare_ranges(options, 1, 2048, 2, 16);
  for (const std::int64_t tokens : options.tokens) time_attention(options, tokens);
  return 0;
}

} // namespace
} // namespace assay

int main(int argc, char** argv) {
  assay::Options options;
  CLI::App app("range conversion and selected attention on a GPU");
  app.add_option("--repeats", options.repeats, "timed repeats of each line");
  app.add_option("--loop-repeats", options.loop_repeats, "timed repeats of the host loop");
  app.add_option("--tokens", options.tokens, "lengths for selected attention");
  app.add_option("--heads", options.heads, "query heads");
  app.add_option("--groups", options.groups, "key-value groups");
  app.add_option("--width", options.width, "head width, 64 or 128");
  app.add_option("--selected", options.slots, "blocks of 64 tokens a query");
  CLI11_PARSE(app, argc, argv);
  try {
    return assay::run(options);
  } catch (const std::exception& failure) {
    fmt::print(stderr, "error: {}\n", failure.what());
    return 1;
  }
}
