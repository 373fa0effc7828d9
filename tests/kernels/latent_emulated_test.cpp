// The kernels around the products of latent attention on the CPU against plain fp64 loops: latents
// that fill a warp's row and that do not, every width of the rotary part, columns of others.
#include <gtest/gtest.h>

#include "tests/kernels/kernel_samples.h"

#include "kernels/attention/heads.cuh"
#include "kernels/attention/norm.cuh"

namespace assay::latent {
namespace latent_emulated_test {

using namespace test;

using Doubles = std::vector<double>;
using Halves = std::vector<bf16>;

constexpr std::size_t kTokens = 37;
constexpr int kBlocks = 3; // of the norm's backward kernel here, fewer than tokens need

dim3 warps_for(std::size_t tokens) {
  return dim3(static_cast<unsigned>((tokens + kWarps - 1) / kWarps));
}

void expect_untouched(const Halves& before, const Halves& after, std::size_t i) {
  ASSERT_EQ(before[i], after[i]) << "a column of others was written: " << i;
}

// --- norm ----------------------------------------------------------------------------------------

template <int kWords, bool kWhole> void check_norm(int rank, int rope) {
  SCOPED_TRACE(testing::Message() << "rank " << rank << ", rope " << rope);
  const std::size_t width = static_cast<std::size_t>(rank), tail = static_cast<std::size_t>(rope),
                    stride = width + tail + 8, row = width + tail;
  const Halves down = half(normal(kTokens * stride, 2)), dy = half(normal(kTokens * width)),
               d_key = half(normal(kTokens * tail));
  const std::vector<float> weight = normal(width, .3F, 1);
  Halves y(kTokens * width, kNan), d_down(kTokens * row, kNan);
  std::vector<float> partial(kBlocks * width, NAN);
  const Norm p{down.data(), weight.data(), y.data(), kTokens, rank, static_cast<int>(stride)};
  const NormBackward b{p, dy.data(), d_key.data(), d_down.data(), partial.data(), rope};
  emu::launch(warps_for(kTokens), kThreads, 0, [&] { norm_latent<kWords, kWhole>(p); });
  emu::launch(dim3(kBlocks), kThreads, 0, [&] { norm_latent_backward<kWords, kWhole>(b); });
  Doubles e_y(y.size()), e_down(d_down.size()), e_weight(width);
  for (std::size_t t = 0; t < kTokens; ++t) {
    double square = 0, along = 0;
    for (std::size_t i = 0; i < width; ++i)
      square += value(down[t * stride + i]) * value(down[t * stride + i]);
    const double r = 1 / std::sqrt(square / rank + 1e-6);
    for (std::size_t i = 0; i < width; ++i)
      along += value(down[t * stride + i]) * r * weight[i] * value(dy[t * width + i]) / rank;
    for (std::size_t i = 0; i < width; ++i) {
      const double u = value(down[t * stride + i]) * r, d = value(dy[t * width + i]);
      e_y[t * width + i] = u * weight[i], e_weight[i] += u * d;
      e_down[t * row + i] = r * (d * weight[i] - u * along);
    }
    for (std::size_t i = 0; i < tail; ++i) e_down[t * row + width + i] = value(d_key[t * tail + i]);
  }
  EXPECT_LE(off(e_y, y), kHalf);
  EXPECT_LE(off(e_down, d_down), kHalf);
  EXPECT_LE(off(e_weight, added(partial, width)), kFull);
}

TEST(LatentEmulated, NormEqualsFp64) {
  check_norm<1, false>(16, 8);
  check_norm<1, true>(128, 16);
  check_norm<2, false>(200, 256);
  check_norm<2, true>(256, 32);
  check_norm<8, true>(1024, 64);
}

// --- heads ---------------------------------------------------------------------------------------

struct Case {
  int heads, plain, rope;
};

// Random inputs of a case, and the results of the kernels.
struct Sample {
  std::size_t heads, plain, rope, width, stride, dv_head, dv_token;
  std::vector<float> cos, sin;
  Halves q, up, key, dq, dk, dv;
  Halves turned, k, d_turned, d_up, d_key;

  explicit Sample(const Case& c)
      : heads(static_cast<std::size_t>(c.heads)), plain(static_cast<std::size_t>(c.plain)),
        rope(static_cast<std::size_t>(c.rope)), width(plain + rope), stride(rope + 24),
        dv_head(plain + 16), dv_token(heads * dv_head + 8) {
    q = half(normal(kTokens * heads * width)), up = half(normal(kTokens * heads * 2 * plain));
    key = half(normal(kTokens * stride)), dq = half(normal(q.size())), dk = half(normal(q.size()));
    dv = half(normal(kTokens * dv_token));
    for (const float angle : normal(kTokens * rope / 2, 3))
      cos.push_back(std::cos(angle)), sin.push_back(std::sin(angle));
    turned = q, d_turned = dq, k.assign(q.size(), kNan), d_up.assign(up.size(), kNan);
    d_key.assign(kTokens * rope, kNan);
  }
  void run() {
    const int h = static_cast<int>(heads), d = static_cast<int>(plain), r = static_cast<int>(rope);
    const Heads p{turned.data(),
                  up.data(),
                  key.data(),
                  cos.data(),
                  sin.data(),
                  k.data(),
                  kTokens,
                  h,
                  d,
                  r,
                  static_cast<int>(stride)};
    const HeadsBackward b{d_turned.data(),
                          dk.data(),
                          dv.data(),
                          cos.data(),
                          sin.data(),
                          d_up.data(),
                          d_key.data(),
                          kTokens,
                          h,
                          d,
                          r,
                          static_cast<std::int64_t>(dv_head),
                          static_cast<std::int64_t>(dv_token)};
    emu::launch(warps_for(kTokens), kHeadThreads, 0, [&] { latent_heads(p); });
    emu::launch(warps_for(kTokens), kHeadThreads, 0, [&] { latent_heads_backward(b); });
  }
  // Rotary columns of token t turned by the angle (back: sign -1).
  void turn(std::size_t t, double sign, double* x) const {
    for (std::size_t i = 0; i < rope / 2; ++i) {
      const double c = cos[t * rope / 2 + i], s = sign * sin[t * rope / 2 + i], a = x[2 * i];
      x[2 * i] = a * c - x[2 * i + 1] * s;
      x[2 * i + 1] = x[2 * i + 1] * c + a * s;
    }
  }
};

void expect_token(const Sample& s, std::size_t t, Doubles (&e)[5]) {
  auto& [turned, k, d_turned, d_up, d_key] = e;
  Doubles key(s.rope), sum(s.rope);
  for (std::size_t i = 0; i < s.rope; ++i) key[i] = value(s.key[t * s.stride + i]);
  s.turn(t, 1, key.data());
  for (std::size_t h = 0; h < s.heads; ++h) {
    const std::size_t head = (t * s.heads + h) * s.width, two = (t * s.heads + h) * 2 * s.plain;
    for (std::size_t i = 0; i < s.width; ++i) {
      turned[head + i] = value(s.q[head + i]), d_turned[head + i] = value(s.dq[head + i]);
      k[head + i] = i < s.plain ? value(s.up[two + i]) : key[i - s.plain];
      if (i < s.plain)
        d_up[two + i] = value(s.dk[head + i]);
      else
        sum[i - s.plain] += value(s.dk[head + i]);
    }
    for (std::size_t i = 0; i < s.plain; ++i)
      d_up[two + s.plain + i] = value(s.dv[t * s.dv_token + h * s.dv_head + i]);
    s.turn(t, 1, &turned[head + s.plain]);
    s.turn(t, -1, &d_turned[head + s.plain]);
  }
  s.turn(t, -1, sum.data());
  std::copy(sum.begin(), sum.end(), &d_key[t * s.rope]);
}

void check_heads(const Case& c) {
  SCOPED_TRACE(testing::Message() << c.heads << " heads, " << c.plain << " + " << c.rope);
  Sample s(c);
  s.run();
  Doubles e[5] = {Doubles(s.q.size()),
                  Doubles(s.q.size()),
                  Doubles(s.q.size()),
                  Doubles(s.up.size()),
                  Doubles(s.d_key.size())};
  for (std::size_t t = 0; t < kTokens; ++t) expect_token(s, t, e);
  EXPECT_LE(off(e[0], s.turned), kHalf);
  EXPECT_LE(off(e[1], s.k), kHalf);
  EXPECT_LE(off(e[2], s.d_turned), kHalf);
  EXPECT_EQ(off(e[3], s.d_up), 0); // copies
  EXPECT_LE(off(e[4], s.d_key), kHalf);
  for (std::size_t i = 0; i < s.q.size(); ++i)
    if (i % s.width < s.plain) {
      expect_untouched(s.q, s.turned, i);
      expect_untouched(s.dq, s.d_turned, i);
    }
}

TEST(LatentEmulated, HeadsEqualFp64) {
  check_heads({12, 64, 32}); // preset base
  check_heads({5, 32, 16});  // tiny: the last lanes have no head in the sum
  check_heads({2, 16, 8});
  check_heads({1, 8, 256});
  check_heads({3, 128, 64});
  check_heads({33, 24, 8}); // more heads than lanes
}

// A token's results do not depend on another token: bit for bit.
TEST(LatentEmulated, AnotherTokenChangesNoBit) {
  Sample before({3, 16, 8});
  Sample after = before;
  const std::size_t row = 3 * before.width, first = 9 * row;
  for (std::size_t i = first; i < first + row; ++i)
    after.turned[i] = after.d_turned[i] = after.dk[i] = 0x4040; // 3.0
  for (std::size_t i = 9 * before.stride; i < 10 * before.stride; ++i) after.key[i] = 0xc0a0;
  before.run(), after.run();
  const auto same = [](const Halves& x, const Halves& y, std::size_t t) {
    const std::size_t per_token = x.size() / kTokens;
    return std::memcmp(&x[t * per_token], &y[t * per_token], per_token * sizeof(bf16)) == 0;
  };
  for (std::size_t t = 0; t < kTokens; ++t) {
    EXPECT_EQ(same(before.turned, after.turned, t), t != 9) << t;
    EXPECT_EQ(same(before.k, after.k, t), t != 9) << t;
    EXPECT_EQ(same(before.d_turned, after.d_turned, t), t != 9) << t;
    EXPECT_EQ(same(before.d_up, after.d_up, t), t != 9) << t;
    EXPECT_EQ(same(before.d_key, after.d_key, t), t != 9) << t;
  }
}

} // namespace latent_emulated_test
} // namespace assay::latent
