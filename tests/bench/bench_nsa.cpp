// NSA on a GPU: from selected blocks to ranges in three forms, and attention over them, in time of
// the stream by CUDA events: medians over repeats, each after a write of more than the L2 holds.
// The host loop's time holds its waits.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/cuda/CUDAContext.h>
#include <CLI/CLI.hpp>
#include <c10/cuda/CUDAStream.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <random>
#include <vector>

#include "core/result.h"
#include "model/gates/gates.h"
#include "model/layers/attention/varlen_attention.h"
#include "model/layout/segments.h"
#include "model/nsa/nsa.h"
#include "model/nsa/nsa_ranges.h"
#include "model/nsa/selected_attention.h"
#include "tests/bench/device_time.h"
#include "tests/bench/l2_read.h"

namespace assay {
namespace {

constexpr std::int64_t kBlock = 64;

struct Options {
  int repeats = 30, loop_repeats = 3;
  std::int64_t heads = 16, groups = 1, width = 64, slots = 16;
  std::int64_t longest = 65536;
  std::vector<std::int64_t> tokens{8192, 32768};
};

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

// Bytes a second that the L2 delivers, of a buffer that lies in it whole.
double l2_bytes_per_second(int repeats) {
  constexpr std::int64_t kBytes = 16 << 20;
  constexpr int kPasses = 64;
  const at::Tensor data = // nothing that the kernel would write down
      at::full({kBytes}, 0xff, at::TensorOptions().device(at::kCUDA).dtype(at::kByte));
  const at::Tensor sink = at::zeros({4}, data.options());
  const double ms = device_ms(repeats, [&] {
    launch_l2_read(data.const_data_ptr(),
                   kBytes,
                   kPasses,
                   static_cast<std::uint32_t*>(sink.mutable_data_ptr()),
                   c10::cuda::getCurrentCUDAStream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return static_cast<double>(kBytes) * kPasses / (ms * 1e-3);
}

void time_attention(const Options& options, std::int64_t tokens, double l2_rate) {
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
  const auto row = [l2_rate](
                       const char* form, const char* pass, double ms, double bytes, double memory) {
    fmt::print(
        "  {:<14} {:<17} {:>9.4f} ms; asks for {:>6.2f} GB: {:>6.0f} GB/s by cache, {:.2f} of L2",
        form,
        pass,
        ms,
        bytes * 1e-9,
        bytes / ms * 1e-6,
        bytes / (ms * 1e-3) / l2_rate);
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

// All three branches against dense causal attention of the same heads and groups, both from q, k
// and v to the output: milliseconds forward and backward.
struct Crossover {
  std::int64_t tokens = 0;
  double sparse = 0, dense = 0;
};

Crossover compare_with_dense(const Options& options, const NsaShape& shape, std::int64_t tokens) {
  const std::int64_t heads = 12, groups = 2; // of nsa base
  const auto type = at::TensorOptions().device(at::kCUDA).dtype(at::kBFloat16);
  const auto normal = [&](std::int64_t count) {
    return at::randn({tokens, count, options.width}, type).requires_grad_();
  };
  NsaInputs in;
  in.q = normal(heads);
  for (at::Tensor* x : {&in.k_cmp, &in.k_sel, &in.k_win, &in.v_cmp, &in.v_sel, &in.v_win})
    *x = normal(groups);
  in.gates = at::full({tokens, groups, 3}, 1.0 / 3, type).requires_grad_();
  in.scale = 1 / std::sqrt(static_cast<double>(options.width));
  const Segments whole = segments_of({0, static_cast<std::int32_t>(tokens)}, at::kCUDA);
  const auto layout =
      std::make_shared<const NsaLayout>(make_nsa_layout(whole, shape, kNsaQueryChunkCuda));
  const at::Tensor weights = at::randn({tokens, heads, options.width}, type);
  const std::vector<at::Tensor> all{
      in.q, in.k_cmp, in.k_sel, in.k_win, in.v_cmp, in.v_sel, in.v_win, in.gates};
  return {
      tokens,
      device_ms(options.repeats,
                [&] { (void)torch::autograd::grad({nsa_attention(in, layout)}, all, {weights}); }),
      device_ms(options.repeats, [&] {
        const at::Tensor out = varlen_attention(in.q, in.k_sel, in.v_sel, whole, in.scale);
        (void)torch::autograd::grad({out}, {in.q, in.k_sel, in.v_sel}, {weights});
      })};
}

// Where a falling ratio passes 1, between two lengths on logarithmic axes.
void find_crossover(const Options& options) {
  const NsaShape shape{32, 16, 64, 16, 512}; // of nsa base
  fmt::print("nsa (three branches) against dense flash, 12 heads in 2 groups, d {}, forward and "
             "backward\n",
             options.width);
  Crossover before;
  double crossover = 0;
  for (std::int64_t tokens = 1024; tokens <= options.longest; tokens *= 2) {
    const Crossover now = compare_with_dense(options, shape, tokens);
    fmt::print("  T {:>6}  nsa {:>9.4f} ms  dense {:>9.4f} ms  nsa/dense {:>7.3f}\n",
               tokens,
               now.sparse,
               now.dense,
               now.sparse / now.dense);
    if (before.tokens > 0 && before.sparse > before.dense && now.sparse <= now.dense) {
      const double a = std::log(before.sparse / before.dense), b = std::log(now.sparse / now.dense);
      crossover = static_cast<double>(before.tokens) * std::exp2(a / (a - b));
    }
    before = now;
  }
  const std::int64_t predicted = nsa_crossover(shape).value_or(0);
  if (crossover > 0)
    fmt::print("crossover: {:.0f} tokens; by keys read alone {}\n", crossover, predicted);
  else
    fmt::print("no crossover up to {} tokens; by keys read alone {}\n", options.longest, predicted);
}

int run(const Options& options) {
  if (!at::cuda::is_available()) bad_input("bench_nsa needs a CUDA device, and there is none here");
  const cudaDeviceProp& device = *at::cuda::getCurrentDeviceProperties();
  const double l2_rate = l2_bytes_per_second(options.repeats);
  fmt::print("{}, L2 {:.0f} MB, reads {:.0f} GB/s of it\n",
             device.name,
             static_cast<double>(device.l2CacheSize) * 1e-6,
             l2_rate * 1e-9);
  compare_ranges(options, 2, 256, 4, 32);
  compare_ranges(options, 1, 2048, 2, 16);
  for (const std::int64_t tokens : options.tokens) time_attention(options, tokens, l2_rate);
  find_crossover(options);
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
  app.add_option("--longest", options.longest, "up to where nsa is compared with dense attention");
  CLI11_PARSE(app, argc, argv);
  try {
    return assay::run(options);
  } catch (const std::exception& failure) {
    fmt::print(stderr, "error: {}\n", failure.what());
    return 1;
  }
}
