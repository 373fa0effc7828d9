// The kernels of the delta rule's inputs on the CPU against plain fp64 loops: segments of every
// length around the four taps, walks that end inside them, every head width.
#include <gtest/gtest.h>

#include "tests/kernels/kernel_samples.h"

#include "kernels/delta_rule/inputs_backward.cuh"

namespace assay::delta_rule {
namespace delta_inputs_emulated_test {

using namespace test;

using Doubles = std::vector<double>;

constexpr double kSum = 2e-5; // relative RMS of fp32 sums over tokens, whose terms nearly cancel

struct Case {
  std::vector<int> lengths; // of the segments
  int width, heads, walk;
};

// Random inputs of a case, and the results of the kernels.
struct Sample {
  int tokens = 0, width, heads, row, walk, walks;
  std::size_t inner, columns; // of each of q, k and v, and of a row in use
  std::vector<std::int32_t> position;
  std::vector<bf16> projected, dq, dk, dv;
  std::vector<float> conv, a_log, bias, dg, d_beta;
  std::vector<bf16> q, k, v, d_projected;
  std::vector<float> g, beta, partial_conv, partial_decay;

  explicit Sample(const Case& c) : width(c.width), heads(c.heads), walk(c.walk) {
    for (const int length : c.lengths)
      for (int i = 0; i < length; ++i) position.push_back(i);
    tokens = static_cast<int>(position.size()), walks = walks_of(tokens, walk);
    inner = static_cast<std::size_t>(heads) * static_cast<std::size_t>(width);
    columns = 4 * inner + 2 * static_cast<std::size_t>(heads);
    row = static_cast<int>((columns + 3) / 4 * 4 +
                           4); // columns beyond the row's end belong to others
    const std::size_t size = count(inner), gates = count(static_cast<std::size_t>(heads));
    projected = half(normal(count(static_cast<std::size_t>(row))));
    dq = half(normal(size)), dk = half(normal(size)), dv = half(normal(size));
    conv = normal(3 * inner * kTaps, .4F), a_log = normal(static_cast<std::size_t>(heads), .5F, 1);
    bias = normal(static_cast<std::size_t>(heads), 1, -3);
    dg = normal(gates), d_beta = normal(gates);
    q.assign(size, kNan), k = v = q, d_projected.assign(projected.size(), kNan);
    g.assign(gates, NAN), beta = g;
    partial_conv.assign(static_cast<std::size_t>(walks) * 3 * inner * kTaps, NAN);
    partial_decay.assign(static_cast<std::size_t>(walks * 2 * heads), NAN);
  }
  std::size_t count(std::size_t per_token) const {
    return static_cast<std::size_t>(tokens) * per_token;
  }
  RuleInputs forward() {
    return {projected.data(),
            conv.data(),
            a_log.data(),
            bias.data(),
            position.data(),
            q.data(),
            k.data(),
            v.data(),
            g.data(),
            beta.data(),
            tokens,
            heads,
            row,
            walk};
  }
  RuleInputGradients backward() {
    return {forward(),
            dq.data(),
            dk.data(),
            dv.data(),
            dg.data(),
            d_beta.data(),
            d_projected.data(),
            partial_conv.data(),
            partial_decay.data()};
  }
  template <int D> void run() {
    const int parts = (static_cast<int>(inner) + kInputColumns - 1) / kInputColumns;
    const dim3 grid(static_cast<unsigned>(walks), static_cast<unsigned>(3 * parts + 1));
    const RuleInputs p = forward();
    const RuleInputGradients b = backward();
    emu::launch(grid, kInputThreads, 0, [&] { delta_inputs<D>(p); });
    emu::launch(grid, kInputThreads, 0, [&] { delta_inputs_backward<D>(b); });
  }
  void run_kernels() {
    if (width == 32) run<32>();
    if (width == 64) run<64>();
    if (width == 128) run<128>();
  }
};

struct Expected {
  Doubles y[3], g, beta, d_projected, d_conv, d_decay;
};

// One head of q (part 0), k (1) or v (2) of one token, both ways.
void expect_head(const Sample& s, Expected& e, std::size_t t, int part, int head) {
  const std::size_t D = static_cast<std::size_t>(s.width), row = static_cast<std::size_t>(s.row),
                    first = static_cast<std::size_t>(head) * D;
  const std::vector<bf16>& dy = part == 0 ? s.dq : part == 1 ? s.dk : s.dv;
  const std::size_t reach = static_cast<std::size_t>(std::min(kTaps - 1, s.position[t]));
  Doubles sum(D), u(D);
  double square = 0, along = 0;
  for (std::size_t i = 0; i < D; ++i) {
    const std::size_t c = static_cast<std::size_t>(part) * s.inner + first + i;
    for (std::size_t j = 0; j <= reach; ++j)
      sum[i] += s.conv[c * kTaps + j] * value(s.projected[(t - j) * row + c]);
    u[i] = silu(sum[i]);
    square += u[i] * u[i], along += u[i] * value(dy[t * s.inner + first + i]);
  }
  const double r = part < 2 ? 1 / std::sqrt(square + 1e-6) : 1;
  for (std::size_t i = 0; i < D; ++i) {
    const std::size_t c = static_cast<std::size_t>(part) * s.inner + first + i,
                      at = t * s.inner + first + i;
    e.y[part][at] = u[i] * r;
    const double d = value(dy[at]), du = part < 2 ? r * (d - u[i] * r * r * along) : d;
    for (std::size_t j = 0; j <= reach; ++j) {
      const std::size_t from = (t - j) * row + c;
      e.d_projected[from] += s.conv[c * kTaps + j] * du * d_silu(sum[i]);
      e.d_conv[c * kTaps + j] += du * d_silu(sum[i]) * value(s.projected[from]);
    }
  }
}

double sigma(double x) {
  return 1 / (1 + std::exp(-x));
}

void expect_gates(const Sample& s, Expected& e, std::size_t t, std::size_t head) {
  const std::size_t heads = static_cast<std::size_t>(s.heads), at = t * heads + head,
                    a = t * static_cast<std::size_t>(s.row) + 4 * s.inner + head, b = a + heads;
  const double x = value(s.projected[a]) + s.bias[head], rate = -std::exp(double{s.a_log[head]}),
               beta = sigma(value(s.projected[b]));
  e.g[at] = rate * std::log1p(std::exp(x)), e.beta[at] = beta;
  e.d_projected[a] = s.dg[at] * rate * sigma(x);
  e.d_projected[b] = s.d_beta[at] * beta * (1 - beta);
  e.d_decay[head] += s.dg[at] * e.g[at], e.d_decay[heads + head] += e.d_projected[a];
}

Expected expected(const Sample& s) {
  Expected e;
  for (Doubles& y : e.y) y.resize(s.q.size());
  e.g.resize(s.g.size()), e.beta.resize(s.g.size()), e.d_projected.resize(s.projected.size());
  e.d_conv.resize(s.conv.size()), e.d_decay.resize(2 * s.a_log.size());
  for (std::size_t t = 0; t < s.position.size(); ++t) {
    for (int part = 0; part < 3; ++part)
      for (int head = 0; head < s.heads; ++head) expect_head(s, e, t, part, head);
    for (std::size_t head = 0; head < s.a_log.size(); ++head) expect_gates(s, e, t, head);
  }
  return e;
}

void check(const Case& c) {
  SCOPED_TRACE(testing::Message() << "width " << c.width << ", walk " << c.walk);
  Sample s(c);
  s.run_kernels();
  const Expected e = expected(s);
  EXPECT_LE(off(e.y[0], s.q), kHalf);
  EXPECT_LE(off(e.y[1], s.k), kHalf);
  EXPECT_LE(off(e.y[2], s.v), kHalf);
  EXPECT_LE(off(e.g, s.g), kFull);
  EXPECT_LE(off(e.beta, s.beta), kFull);
  const std::size_t row = static_cast<std::size_t>(s.row);
  for (std::size_t i = 0; i < s.d_projected.size(); ++i)
    if ((i % row >= 3 * s.inner && i % row < 4 * s.inner) || i % row >= s.columns) {
      ASSERT_EQ(s.d_projected[i], kNan) << "a column of others was written";
      s.d_projected[i] = 0;
    }
  EXPECT_LE(off(e.d_projected, s.d_projected), kHalf);
  EXPECT_LE(off(e.d_conv, added(s.partial_conv, s.conv.size())), kSum);
  EXPECT_LE(off(e.d_decay, added(s.partial_decay, e.d_decay.size())), kSum);
}

const std::vector<int> kLengths{1, 2, 3, 4, 5, 1, 13, 7, 1, 22};

TEST(DeltaInputsEmulated, EqualFp64ForEveryHeadWidth) {
  check({kLengths, 32, 3, 16});  // 96 columns: most threads repeat others
  check({kLengths, 64, 5, 16});  // 320: one whole block and a part
  check({kLengths, 128, 2, 16}); // 256
}

TEST(DeltaInputsEmulated, EqualFp64ForEveryEndOfAWalk) {
  for (const int walk : {1, 2, 3, 5, 8, 59, 64}) check({kLengths, 32, 1, walk});
}

// What a segment's tokens get does not depend on the values of another: bit for bit.
TEST(DeltaInputsEmulated, AnotherSegmentChangesNoBit) {
  Sample before({{6, 9, 4}, 32, 2, 4}), after = before;
  const std::size_t row = static_cast<std::size_t>(before.row), inner = before.inner;
  for (std::size_t t = 6; t < 15; ++t) {
    for (std::size_t i = 0; i < row; ++i) after.projected[t * row + i] = 0x4040; // 3.0
    for (std::size_t i = 0; i < inner; ++i) after.dq[t * inner + i] = 0xc0a0;    // -5.0
  }
  before.run_kernels(), after.run_kernels();
  const auto same = [](const std::vector<bf16>& x,
                       const std::vector<bf16>& y,
                       std::size_t first,
                       std::size_t count) {
    return std::memcmp(&x[first], &y[first], count * sizeof(bf16)) == 0;
  };
  for (std::size_t t = 0; t < before.position.size(); ++t) {
    const bool changed = t >= 6 && t < 15;
    EXPECT_NE(same(before.q, after.q, t * inner, inner), changed) << t;
    EXPECT_NE(same(before.d_projected, after.d_projected, t * row, 3 * inner), changed) << t;
  }
}

} // namespace delta_inputs_emulated_test
} // namespace assay::delta_rule
