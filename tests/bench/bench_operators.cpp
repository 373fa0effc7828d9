// Operators that libraries of kernels have too, at the shapes of tests/bench/peers/operators.py:
// the loss head, the gated delta rule, RWKV-6, Mamba-2's SSD, and NSA's compressed and selected
// branch. Each is compared with its slow form, then timed: one line of JSON per form and pass.
#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <CLI/CLI.hpp>
#include <c10/cuda/CUDAFunctions.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/result.h"
#include "model/gates/gates.h"
#include "model/layers/delta_rule/gated_delta_rule.h"
#include "model/layers/linear/kept_weights.h"
#include "model/layers/loss_head.h"
#include "model/layers/scan/rwkv6.h"
#include "model/layers/scan/ssd.h"
#include "model/layout/chunk_layout.h"
#include "model/layout/segments.h"
#include "model/memory/peak_memory.h"
#include "model/nsa/nsa.h"
#include "model/nsa/nsa_strided.h"
#include "model/nsa/selected_attention.h"
#include "tests/bench/device_time.h"

namespace assay {
namespace {

constexpr double kBound = 2e-2; // relative, of results in bf16
constexpr std::int64_t kAhead = 5'000'000;

using Results = std::vector<at::Tensor>;
using Work = std::function<Results()>;

// Memory that a call needs beside its inputs and what it returns.
double extra_mib(const Work& work) {
  PeakMemory memory(Device::Cuda);
  const Results results = work();
  c10::cuda::device_synchronize();
  return static_cast<double>(memory.peak_bytes() - current_bytes(Device::Cuda)) / (1 << 20);
}

void report(int repeats,
            const std::string& operation,
            const std::string& shape,
            const char* form,
            const char* pass,
            const Work& work) {
  const auto call = [&] { (void)work(); };
  const double device = device_ms(repeats, call, kAhead), user = user_ms(repeats, call);
  fmt::print(R"({{"operator": "{}", "shape": "{}", "side": "assay", "form": "{}", "pass": "{}", )"
             R"("device_ms": {:.4f}, "user_ms": {:.4f}, "extra_mib": {:.1f}}})"
             "\n",
             operation,
             shape,
             form,
             pass,
             device,
             user,
             extra_mib(work));
  std::fflush(stdout);
}

void check(const std::string& operation, const Results& actual, const Results& expected) {
  for (std::size_t i = 0; i < expected.size(); ++i)
    if (const double error = relative_rms(actual[i], expected[i]); !(error <= kBound))
      internal_error(
          "result {} of {} differs from the slow form by {:.3g} > {}", i, operation, error, kBound);
}

at::Tensor normal(at::IntArrayRef shape) {
  return at::randn(shape, at::TensorOptions().device(at::kCUDA).dtype(at::kBFloat16));
}

at::Tensor leaf(const at::Tensor& x) {
  return x.detach().requires_grad_();
}

Work without_gradient(const Work& forward) {
  return [forward] {
    const at::NoGradGuard no_grad;
    return forward();
  };
}

// The head's weights in fp32 with a kept copy in bf16, as the trainer has them with `weights16`.
void loss_head(int repeats) {
  constexpr std::int64_t kTokens = 16384, kWidth = 768, kVocabulary = 50304;
  const at::Tensor x = leaf(normal({kTokens, kWidth}));
  const at::Tensor head = leaf(normal({kVocabulary, kWidth}).to(at::kFloat) * 0.02);
  const at::Tensor targets =
      at::randint(kVocabulary, {kTokens}, at::TensorOptions().device(at::kCUDA).dtype(at::kLong));
  const auto both = [&](const at::Tensor& loss) {
    Results all = torch::autograd::grad({loss}, {x, head});
    all.push_back(loss.detach());
    return all;
  };
  const std::string shape = fmt::format("N {}, D {}, V {}, bf16", kTokens, kWidth, kVocabulary);
  for (const auto& [mib, timed] : {std::pair{64, false}, {256, false}, {64, true}, {256, true}}) {
    KeptWeights kept(at::kBFloat16, {.timed = timed});
    const KeptGuard guard(&kept);
    const Work chunked = [&, mib = mib] { return both(chunked_loss(x, head, targets, mib)); };
    check("the loss head",
          chunked(),
          both(logits_loss(at::mm(x.to(at::kFloat), head.to(at::kBFloat16).to(at::kFloat).t()),
                           targets)));
    const std::string form = fmt::format("{} MiB{}", mib, timed ? ", timed products" : "");
    report(repeats, "loss_head", shape, form.c_str(), "forward+backward", chunked);
  }
}

Segments row_segments(std::int64_t rows, std::int64_t tokens, std::int64_t heads) {
  std::vector<std::int32_t> ends{0};
  for (std::int64_t row = 1; row <= rows; ++row)
    ends.push_back(static_cast<std::int32_t>(row * tokens));
  TrainConfig config;
  config.heads = heads, config.chunk_size = 64, config.conv_kernel = 4;
  Segments segments = segments_of(ends, at::kCUDA);
  segments.chunks = std::make_shared<const ChunkLayout>(make_chunk_layout(segments, config));
  return segments;
}

struct DeltaShape {
  std::int64_t rows, tokens, heads_k, heads, width;
};

// The slow form takes q and k repeated to as many heads as v has.
void delta_rule(int repeats, const DeltaShape& s) {
  const std::int64_t tokens = s.rows * s.tokens;
  const Segments segments = row_segments(s.rows, s.tokens, s.heads);
  const auto unit = [&] {
    const at::Tensor x = normal({tokens, s.heads_k, s.width});
    return leaf(x / x.norm(2, {2}, true));
  };
  const at::Tensor q = unit(), k = unit(), v = leaf(normal({tokens, s.heads, s.width}));
  const at::Tensor g = leaf(-at::softplus(normal({tokens, s.heads}).to(at::kFloat)));
  const at::Tensor beta = leaf(normal({tokens, s.heads}).to(at::kFloat).sigmoid());
  const at::Tensor d_out = normal({tokens, s.heads, s.width});
  const auto fused = [&] { return gated_delta_rule_fused(q, k, v, g, beta, segments); };
  const auto slow = [&] {
    const auto repeated = [&](const at::Tensor& x) {
      return x.repeat_interleave(s.heads / s.heads_k, 1);
    };
    return gated_delta_rule_chunked(repeated(q), repeated(k), v, g, beta, segments);
  };
  const auto both = [&](const std::function<at::Tensor()>& rule) {
    const at::Tensor out = rule();
    Results all = torch::autograd::grad({out}, {q, k, v, g, beta}, {d_out});
    all.push_back(out.detach());
    return all;
  };
  check("the gated delta rule", both(fused), both(slow));
  const std::string shape = fmt::format(
      "{} x {}, {}/{} heads, d {}, bf16", s.rows, s.tokens, s.heads_k, s.heads, s.width);
  report(repeats, "delta_rule", shape, "fused", "forward", without_gradient([&] {
           return Results{fused()};
         }));
  report(repeats, "delta_rule", shape, "fused", "forward+backward", [&] { return both(fused); });
}

struct ScanSize {
  std::int64_t rows, tokens, heads;
};
constexpr ScanSize kScans[] = {{64, 64, 4}, {8, 2048, 12}, {16, 2048, 12}, {1, 32768, 12}};

void report_scan(int repeats,
                 const char* operation,
                 const ScanSize& s,
                 const Results& in,
                 const std::function<at::Tensor()>& fused,
                 const std::function<at::Tensor()>& slow) {
  const at::Tensor d_out = normal({s.rows * s.tokens, s.heads, 64});
  const auto both = [&](const std::function<at::Tensor()>& scan) {
    const at::Tensor out = scan();
    Results all = torch::autograd::grad({out}, in, {d_out});
    all.push_back(out.detach());
    return all;
  };
  check(operation, both(fused), both(slow));
  const std::string shape = fmt::format("{} x {}, {} heads, d 64, bf16", s.rows, s.tokens, s.heads);
  report(repeats, operation, shape, "fused", "forward", without_gradient([&] {
           return Results{fused()};
         }));
  report(repeats, operation, shape, "fused", "forward+backward", [&] { return both(fused); });
}

void rwkv6(int repeats) {
  for (const ScanSize& s : kScans) {
    const Segments segments = row_segments(s.rows, s.tokens, s.heads);
    const auto values = [&] { return normal({s.rows * s.tokens, s.heads, 64}); };
    const at::Tensor r = leaf(values()), k = leaf(values()), v = leaf(values()),
                     w = leaf(-(values() - 3).exp()),
                     u = leaf(normal({s.heads, 64}).to(at::kFloat));
    report_scan(
        repeats,
        "rwkv6",
        s,
        {r, k, v, w, u},
        [&] { return rwkv6_fused(r, k, v, w, u, segments); },
        [&] { return rwkv6_chunked(r, k, v, w, u, segments); });
  }
}

// b and c are shared by all heads, N 64.
void ssd(int repeats) {
  for (const ScanSize& s : kScans) {
    const Segments segments = row_segments(s.rows, s.tokens, s.heads);
    const std::int64_t tokens = s.rows * s.tokens;
    const at::Tensor x = leaf(normal({tokens, s.heads, 64})),
                     a = leaf(-(normal({tokens, s.heads}).to(at::kFloat) - 3).exp()),
                     b = leaf(normal({tokens, 1, 64})), c = leaf(normal({tokens, 1, 64}));
    report_scan(
        repeats,
        "ssd",
        s,
        {x, a, b, c},
        [&] { return ssd_fused(x, a, b, c, segments); },
        [&] { return ssd_chunked(x, a, b, c, segments); });
  }
}

// Compressed (blocks of 64 without overlap) and selected branch with their gates, the choice of
// blocks included.
void nsa(int repeats, std::int64_t tokens) {
  constexpr std::int64_t kHeads = 16, kGroups = 1, kWidth = 64, kBlock = 64, kChosen = 16;
  const at::Tensor q = leaf(normal({tokens, kHeads, kWidth}));
  const at::Tensor k = leaf(normal({tokens, kGroups, kWidth}));
  const at::Tensor v = leaf(normal({tokens, kGroups, kWidth}));
  const at::Tensor gates = normal({2, tokens, kHeads, 1}).sigmoid(), weights = at::randn_like(q);
  const double scale = 1 / std::sqrt(static_cast<double>(kWidth));
  const auto layout = std::make_shared<const NsaLayout>(
      make_nsa_layout(segments_of({0, static_cast<std::int32_t>(tokens)}, at::kCUDA),
                      NsaShape{kBlock, kBlock, kBlock, kChosen, 1},
                      kNsaQueryChunkCuda));
  const auto run = [&](bool kernels) {
    const at::Tensor k_blocks = nsa_compress(k, layout), v_blocks = nsa_compress(v, layout);
    VarlenResult compressed;
    if (kernels)
      compressed = strided_attention(q, k_blocks, v_blocks, layout, scale);
    else
      compressed.out = nsa_compressed_attention(q, k_blocks, v_blocks, layout, scale);
    const at::Tensor blocks = kernels ? strided_select(q, k_blocks, compressed.lse, *layout, scale)
                                      : nsa_select_blocks(q, k_blocks, *layout, scale);
    const at::Tensor selected =
        kernels ? nsa_selected_attention(q, k, v, blocks, layout, scale, NsaRanges::Direct)
                : selected_attention_tensor_form(
                      q, k, v, {blocks, layout->document_start, kBlock}, scale);
    return compressed.out * gates[0] + selected * gates[1];
  };
  check("NSA", {run(true)}, {run(false)});
  const std::string shape = fmt::format("T {}, {} heads in {} group, d {}, {} blocks of {}, bf16",
                                        tokens,
                                        kHeads,
                                        kGroups,
                                        kWidth,
                                        kChosen,
                                        kBlock);
  report(repeats, "nsa", shape, "kernels", "forward", without_gradient([&] {
           return Results{run(true)};
         }));
  report(repeats, "nsa", shape, "kernels", "forward+backward", [&] {
    return torch::autograd::grad({run(true)}, {q, k, v}, {weights});
  });
}

const std::map<std::string, std::function<void(int)>> kOperators{
    {"loss_head", loss_head},
    {"delta_rule",
     [](int repeats) {
       for (const DeltaShape& shape : {DeltaShape{8, 2048, 12, 12, 64},
                                       DeltaShape{1, 8192, 16, 32, 128},
                                       DeltaShape{1, 32768, 12, 12, 64}})
         delta_rule(repeats, shape);
     }},
    {"nsa",
     [](int repeats) {
       for (const std::int64_t tokens : {8192, 32768}) nsa(repeats, tokens);
     }},
    {"rwkv6", rwkv6},
    {"ssd", ssd},
};

} // namespace
} // namespace assay

int main(int argc, char** argv) {
  int repeats = 30;
  std::vector<std::string> names;
  CLI::App app("operators on a GPU, beside those of tests/bench/peers/operators.py");
  app.add_option("--repeats", repeats, "timed repeats of each line");
  app.add_option("OPERATOR", names, "which; all of them if none is named")
      ->check(CLI::IsMember(assay::kOperators));
  CLI11_PARSE(app, argc, argv);
  try {
    if (!at::cuda::is_available())
      assay::bad_input("bench_operators needs a CUDA device, and there is none here");
    at::manual_seed(1);
    for (const auto& [name, run] : assay::kOperators)
      if (names.empty() || std::count(names.begin(), names.end(), name) > 0) run(repeats);
    return 0;
  } catch (const std::exception& failure) {
    fmt::print(stderr, "error: {}\n", failure.what());
    return 1;
  }
}
