// The chunk forms of RWKV-6 and Mamba-2 against their recurrences, a plain loop over numbers and
// central differences, in fp64.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "model/gates/gates.h"
#include "model/layers/scan/rwkv6.h"
#include "model/layers/scan/ssd.h"
#include "tests/model/model_fixture.h"

namespace assay {
namespace scan_test {

using testing_model::make_segments;
using Tensors = std::vector<at::Tensor>;

constexpr std::int64_t kHeads = 4;

struct Case {
  const char* name;
  std::vector<std::int32_t> cu;
  double decay; // log decays are minus softplus of normal numbers, times this
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::int32_t length : {1, 2, 15, 16, 17, 40}) all.push_back({"one", {0, length}, 1});
  all.push_back({"ragged", {0, 1, 2, 19, 51, 52, 60}, 1});
  all.push_back({"several_go_on", {0, 40, 60, 93, 97}, 0.2});
  all.push_back({"no_decay", {0, 10, 50}, 0});
  all.push_back({"sudden_decay", {0, 10, 50}, 80});
  return all;
}

at::Tensor normal(at::IntArrayRef shape, std::uint64_t seed) {
  return at::empty(shape, at::kDouble)
      .normal_(0, 1, at::make_generator<at::CPUGeneratorImpl>(seed));
}

// A scan with its inputs in the order of its parameters.
struct Scan {
  const char* name;
  Tensors (*inputs)(std::int64_t tokens, double decay);
  at::Tensor (*loop)(const Tensors&, const Segments&);
  at::Tensor (*chunked)(const Tensors&, const Segments&);
  std::vector<double> (*by_hand)(const Tensors&, const std::vector<std::int32_t>& cu);
};

Tensors rwkv_inputs(std::int64_t tokens, double decay) {
  return {normal({tokens, kHeads, 5}, 1),
          normal({tokens, kHeads, 5}, 2),
          normal({tokens, kHeads, 3}, 3),
          at::softplus(normal({tokens, kHeads, 5}, 4)).mul(-decay),
          normal({kHeads, 5}, 5)};
}

// Two groups of two heads.
Tensors ssd_inputs(std::int64_t tokens, double decay) {
  return {normal({tokens, kHeads, 3}, 6),
          at::softplus(normal({tokens, kHeads}, 7)).mul(-decay),
          normal({tokens, 2, 5}, 8),
          normal({tokens, 2, 5}, 9)};
}

// arXiv 2404.05892, section 4.2, unrolled: a sum over the tokens before, each decayed
// by every token between.
std::vector<double> rwkv_by_hand(const Tensors& in, const std::vector<std::int32_t>& cu) {
  const auto r = in[0].accessor<double, 3>(), k = in[1].accessor<double, 3>(),
             v = in[2].accessor<double, 3>(), w = in[3].accessor<double, 3>();
  const auto u = in[4].accessor<double, 2>();
  std::vector<double> out;
  for (std::size_t s = 1; s < cu.size(); ++s)
    for (std::int64_t t = cu[s - 1]; t < cu[s]; ++t)
      for (std::int64_t h = 0; h < kHeads; ++h)
        for (std::int64_t c = 0; c < 3; ++c) {
          double sum = 0;
          for (std::int64_t i = 0; i < 5; ++i) {
            sum += r[t][h][i] * u[h][i] * k[t][h][i] * v[t][h][c];
            double decay = 0;
            for (std::int64_t j = t - 1; j >= cu[s - 1]; --j) {
              sum += r[t][h][i] * std::exp(decay) * k[j][h][i] * v[j][h][c];
              decay += w[j][h][i];
            }
          }
          out.push_back(sum);
        }
  return out;
}

// arXiv 2405.21060, section 3, unrolled: y_t = sum over j <= t of c_t b_j a_{j+1} ... a_t x_j.
std::vector<double> ssd_by_hand(const Tensors& in, const std::vector<std::int32_t>& cu) {
  const auto x = in[0].accessor<double, 3>(), b = in[2].accessor<double, 3>(),
             c = in[3].accessor<double, 3>();
  const auto a = in[1].accessor<double, 2>();
  std::vector<double> out;
  for (std::size_t s = 1; s < cu.size(); ++s)
    for (std::int64_t t = cu[s - 1]; t < cu[s]; ++t)
      for (std::int64_t h = 0; h < kHeads; ++h)
        for (std::int64_t p = 0; p < 3; ++p) {
          double sum = 0, decay = 0;
          for (std::int64_t j = t; j >= cu[s - 1]; --j) {
            double match = 0;
            for (std::int64_t n = 0; n < 5; ++n) match += c[t][h / 2][n] * b[j][h / 2][n];
            sum += match * std::exp(decay) * x[j][h][p];
            decay += a[j][h];
          }
          out.push_back(sum);
        }
  return out;
}

const Scan kScans[] = {
    {"rwkv6",
     rwkv_inputs,
     [](const Tensors& in, const Segments& s) {
       return rwkv6_loop(in[0], in[1], in[2], in[3], in[4], s);
     },
     [](const Tensors& in, const Segments& s) {
       return rwkv6_chunked(in[0], in[1], in[2], in[3], in[4], s);
     },
     rwkv_by_hand},
    {"ssd",
     ssd_inputs,
     [](const Tensors& in, const Segments& s) { return ssd_loop(in[0], in[1], in[2], in[3], s); },
     [](const Tensors& in, const Segments& s) {
       return ssd_chunked(in[0], in[1], in[2], in[3], s);
     },
     ssd_by_hand}};

// Gradients of a weighted sum of the outputs.
double weighted(const at::Tensor& out) {
  return (out * at::linspace(-1, 1, out.numel(), at::kDouble).view_as(out).cos())
      .sum()
      .item<double>();
}

Tensors
gradients(at::Tensor (*form)(const Tensors&, const Segments&), Tensors in, const Segments& s) {
  for (at::Tensor& x : in) x = x.detach().clone().requires_grad_();
  const at::Tensor out = form(in, s);
  (out * at::linspace(-1, 1, out.numel(), at::kDouble).view_as(out).cos()).sum().backward();
  Tensors result;
  for (const at::Tensor& x : in) // one token has no decay that a loop reads
    result.push_back(x.grad().defined() ? x.grad() : at::zeros_like(x));
  return result;
}

class ScanCases : public testing::TestWithParam<Case> {};

TEST_P(ScanCases, TheLoopIsTheUnrolledSum) {
  const Segments segments = make_segments(GetParam().cu, kHeads, 16);
  for (const Scan& scan : kScans) {
    const Tensors in = scan.inputs(GetParam().cu.back(), GetParam().decay);
    const at::Tensor expected = at::tensor(scan.by_hand(in, GetParam().cu), at::kDouble);
    EXPECT_LE(relative_rms(scan.loop(in, segments).flatten(), expected), 1e-12) << scan.name;
  }
}

TEST_P(ScanCases, ChunksEqualTheLoop) {
  for (const std::int64_t chunk : {1, 2, 16, 64}) {
    const Segments segments = make_segments(GetParam().cu, kHeads, chunk);
    for (const Scan& scan : kScans) {
      const Tensors in = scan.inputs(GetParam().cu.back(), GetParam().decay);
      EXPECT_LE(relative_rms(scan.chunked(in, segments), scan.loop(in, segments)), 1e-10)
          << scan.name << ", chunks of " << chunk;
    }
  }
}

TEST_P(ScanCases, GradientsEqualThoseOfTheLoop) {
  for (const std::int64_t chunk : {1, 16, 64}) {
    const Segments segments = make_segments(GetParam().cu, kHeads, chunk);
    for (const Scan& scan : kScans) {
      const Tensors in = scan.inputs(GetParam().cu.back(), GetParam().decay);
      const Tensors expected = gradients(scan.loop, in, segments),
                    actual = gradients(scan.chunked, in, segments);
      for (std::size_t i = 0; i < in.size(); ++i) {
        const double size = std::max(1.0, expected[i].abs().max().item<double>());
        EXPECT_LE((actual[i] - expected[i]).abs().max().item<double>() / size, 1e-10)
            << scan.name << ", chunks of " << chunk << ", input " << i;
      }
    }
  }
}

TEST_P(ScanCases, GradientsEqualCentralDifferences) {
  const Segments segments = make_segments(GetParam().cu, kHeads, 16);
  constexpr double kStep = 1e-5;
  for (const Scan& scan : kScans) {
    const Tensors in = scan.inputs(GetParam().cu.back(), GetParam().decay);
    const Tensors analytic = gradients(scan.chunked, in, segments);
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < in.size(); ++i) {
      double* values = in[i].data_ptr<double>();
      const at::Tensor expected = analytic[i].contiguous();
      const std::int64_t stride = std::max<std::int64_t>(1, in[i].numel() / 11);
      for (std::int64_t at = 0; at < in[i].numel(); at += stride) {
        const double kept = values[at];
        values[at] = kept + kStep;
        const double up = weighted(scan.chunked(in, segments));
        values[at] = kept - kStep;
        const double down = weighted(scan.chunked(in, segments));
        values[at] = kept;
        EXPECT_NEAR((up - down) / (2 * kStep), expected.data_ptr<double>()[at], 1e-6)
            << scan.name << ", input " << i << " at " << at;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Lengths, ScanCases, testing::ValuesIn(cases()), [](const auto& row) {
  return std::string(row.param.name) + "_" + std::to_string(row.param.cu.back());
});

TEST(Scans, BitEqualForDocumentsWhoseNeighboursChange) {
  const Segments segments = make_segments({0, 40, 110, 130}, kHeads, 64);
  for (const Scan& scan : kScans) {
    Tensors in = scan.inputs(130, 1);
    for (at::Tensor& x : in) x = x.to(at::kFloat);
    const at::Tensor before = scan.chunked(in, segments);
    for (at::Tensor& x : in)
      if (x.size(0) == 130) x.narrow(0, 40, 70).mul_(0.7);
    const at::Tensor after = scan.chunked(in, segments);
    EXPECT_TRUE(at::equal(before.narrow(0, 0, 40), after.narrow(0, 0, 40))) << scan.name;
    EXPECT_TRUE(at::equal(before.narrow(0, 110, 20), after.narrow(0, 110, 20))) << scan.name;
    EXPECT_FALSE(at::equal(before.narrow(0, 40, 70), after.narrow(0, 40, 70))) << scan.name;
  }
}

} // namespace scan_test
} // namespace assay
