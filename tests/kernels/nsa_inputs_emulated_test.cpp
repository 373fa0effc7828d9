// The kernels around the branches of native sparse attention on the CPU against plain fp64 loops:
// documents with and without compressed blocks, places without a query, more blocks than documents
// have.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/kernels/kernel_samples.h"

#include "kernels/nsa/inputs.cuh"
#include "kernels/nsa/mix.cuh"

namespace assay::nsa {
namespace nsa_inputs_emulated_test {

using namespace test;

using Doubles = std::vector<double>;
using Halves = std::vector<bf16>;

const std::vector<std::size_t> kEnds{0, 1, 20, 23, 61};
constexpr std::size_t kRoom = 3; // blocks that no document has
constexpr std::size_t d = kWidth;

struct Shape {
  std::size_t heads, groups, length, stride, gate;
};

// What NsaLayout says of the documents.
struct Layout {
  std::size_t tokens = kEnds.back(), blocks = 0;
  std::vector<std::int64_t> place, place_token, block_tokens, token_blocks;

  explicit Layout(const Shape& s) : place(tokens, -1) {
    for (std::size_t i = 1; i < kEnds.size(); ++i) {
      const std::size_t first = kEnds[i - 1], size = kEnds[i] - first;
      const std::size_t whole = size < s.length ? 0 : (size - s.length) / s.stride + 1;
      for (std::size_t b = 0; b < whole; ++b) {
        for (std::size_t c = 0; c < s.length; ++c)
          block_tokens.push_back(static_cast<std::int64_t>(first + b * s.stride + c));
        for (std::size_t c = 0; c < s.stride; ++c) {
          const std::size_t t = s.length - 1 + b * s.stride + c;
          if (t < size) place[first + t] = static_cast<std::int64_t>(place_token.size());
          place_token.push_back(t < size ? static_cast<std::int64_t>(first + t) : -1);
        }
      }
      blocks += whole;
    }
    blocks += kRoom;
    place_token.resize(blocks * s.stride, -1), block_tokens.resize(blocks * s.length, 0);
    const std::size_t covers = s.length / s.stride;
    token_blocks.assign(covers * tokens, static_cast<std::int64_t>(blocks));
    for (std::size_t b = 0; b < blocks - kRoom; ++b)
      for (std::size_t c = 0; c < s.length; ++c)
        token_blocks[c / s.stride * tokens +
                     static_cast<std::size_t>(block_tokens[b * s.length + c])] =
            static_cast<std::int64_t>(b);
  }
};

// Element of head h of token t in places.
std::size_t in_places(const Shape& s, std::int64_t place, std::size_t h) {
  const auto p = static_cast<std::size_t>(place);
  return ((p / s.stride * s.heads + h) * s.stride + p % s.stride) * d;
}

Doubles doubles(const Halves& x) {
  Doubles y;
  for (const bf16 v : x) y.push_back(value(v));
  return y;
}

struct Angles {
  std::vector<float> cos, sin;
  explicit Angles(std::size_t tokens) {
    for (const float angle : normal(tokens * d / 2, 3))
      cos.push_back(std::cos(angle)), sin.push_back(std::sin(angle));
  }
  void turn(std::size_t t, double sign, double* x) const {
    for (std::size_t i = 0; i < d / 2; ++i) {
      const double c = cos[t * d / 2 + i], s = sign * sin[t * d / 2 + i], a = x[2 * i];
      x[2 * i] = a * c - x[2 * i + 1] * s;
      x[2 * i + 1] = x[2 * i + 1] * c + a * s;
    }
  }
};

dim3 warps_for(std::size_t tokens) {
  return dim3(static_cast<unsigned>((tokens + kWarps - 1) / kWarps));
}

// --- inputs --------------------------------------------------------------------------------------

void check_inputs(const Shape& s) {
  const Layout layout(s);
  const Angles angles(layout.tokens);
  const std::size_t T = layout.tokens, H = s.heads, G = s.groups, rows = H + 6 * G;
  const Halves product = half(normal(T * rows * d));
  Halves q(T * H * d, kNan), places(layout.blocks * H * s.stride * d, kNan), branch[4];
  Halves k_blocks(layout.blocks * G * d, kNan), v_blocks = k_blocks;
  std::vector<float> mean(T * G * d, NAN);
  Inputs p{};
  p.product = product.data(), p.cos = angles.cos.data(), p.sin = angles.sin.data();
  p.place = layout.place.data(), p.place_token = layout.place_token.data();
  p.block_tokens = layout.block_tokens.data(), p.q = q.data(), p.q_places = places.data();
  p.mean = mean.data(), p.k_blocks = k_blocks.data(), p.v_blocks = v_blocks.data();
  for (std::size_t i = 0; i < 4; ++i) {
    branch[i].assign(T * G * d, kNan);
    p.branch[i] = branch[i].data();
  }
  p.tokens = static_cast<int>(T), p.heads = static_cast<int>(H), p.groups = static_cast<int>(G);
  p.blocks = static_cast<int>(layout.blocks), p.length = static_cast<int>(s.length);
  p.stride = static_cast<int>(s.stride);
  emu::launch(warps_for(T), kThreads, 0, [&] { inputs_kernel(p); });
  emu::launch(dim3(static_cast<unsigned>(p.blocks)), kThreads, 0, [&] { blocks_kernel(p); });

  Doubles all = doubles(product), e_mean(mean.size()), e_places(places.size());
  Doubles e_q(q.size()), e_k(k_blocks.size()), e_v(v_blocks.size()), e_branch[4];
  for (Doubles& e : e_branch) e.resize(T * G * d);
  for (std::size_t t = 0; t < T; ++t)
    for (std::size_t row = 0; row < H + 3 * G; ++row) angles.turn(t, 1, &all[(t * rows + row) * d]);
  for (std::size_t t = 0; t < T; ++t) {
    const double* x = &all[t * rows * d];
    for (std::size_t h = 0; h < H; ++h)
      for (std::size_t i = 0; i < d; ++i) {
        e_q[(t * H + h) * d + i] = x[h * d + i];
        e_mean[(t * G + h / (H / G)) * d + i] += x[h * d + i] / static_cast<double>(H / G);
        if (layout.place[t] >= 0) e_places[in_places(s, layout.place[t], h) + i] = x[h * d + i];
      }
    for (std::size_t i = 0; i < G * d; ++i) {
      const std::size_t from[4] = {H + G, H + 2 * G, H + 4 * G, H + 5 * G};
      for (std::size_t b = 0; b < 4; ++b) e_branch[b][t * G * d + i] = x[from[b] * d + i];
    }
  }
  for (std::size_t b = 0; b < layout.blocks; ++b)
    for (std::size_t c = 0; c < s.length; ++c) {
      const double* x =
          &all[static_cast<std::size_t>(layout.block_tokens[b * s.length + c]) * rows * d];
      for (std::size_t i = 0; i < G * d; ++i) {
        e_k[b * G * d + i] += x[H * d + i] / static_cast<double>(s.length);
        e_v[b * G * d + i] += x[(H + 3 * G) * d + i] / static_cast<double>(s.length);
      }
    }
  EXPECT_LE(off(e_q, q), kHalf);
  EXPECT_LE(off(e_places, places), kHalf);
  EXPECT_LE(off(e_mean, mean), kFull);
  EXPECT_LE(off(e_k, k_blocks), kHalf);
  EXPECT_LE(off(e_v, v_blocks), kHalf);
  for (std::size_t b = 0; b < 4; ++b) EXPECT_LE(off(e_branch[b], branch[b]), kHalf) << b;
}

void check_inputs_backward(const Shape& s) {
  const Layout layout(s);
  const Angles angles(layout.tokens);
  const std::size_t T = layout.tokens, H = s.heads, G = s.groups, rows = H + 6 * G;
  const Halves dq[2] = {half(normal(T * H * d)), half(normal(T * H * d))};
  const Halves d_places = half(normal(layout.blocks * H * s.stride * d));
  const std::vector<float> d_mean = normal(T * G * d);
  Halves branch[4], blocks[2], d_product(T * rows * d, kNan);
  for (Halves& x : branch) x = half(normal(T * G * d));
  for (Halves& x : blocks) x = half(normal(layout.blocks * G * d));
  InputsBackward p{};
  p.cos = angles.cos.data(), p.sin = angles.sin.data();
  p.place = layout.place.data(), p.token_blocks = layout.token_blocks.data();
  p.d_q[0] = dq[0].data(), p.d_q[1] = dq[1].data(), p.d_q_places = d_places.data();
  p.d_mean = d_mean.data(), p.d_product = d_product.data();
  for (std::size_t i = 0; i < 4; ++i) p.d_branch[i] = branch[i].data();
  for (std::size_t i = 0; i < 2; ++i) p.d_blocks[i] = blocks[i].data();
  p.tokens = static_cast<int>(T), p.heads = static_cast<int>(H), p.groups = static_cast<int>(G);
  p.blocks = static_cast<int>(layout.blocks), p.length = static_cast<int>(s.length);
  p.stride = static_cast<int>(s.stride);
  emu::launch(warps_for(T), kThreads, 0, [&] { inputs_backward_kernel(p); });

  Doubles e(d_product.size());
  for (std::size_t b = 0; b < layout.blocks - kRoom; ++b)
    for (std::size_t c = 0; c < s.length; ++c)
      for (std::size_t i = 0; i < G * d; ++i) {
        const auto t = static_cast<std::size_t>(layout.block_tokens[b * s.length + c]);
        for (std::size_t v = 0; v < 2; ++v)
          e[(t * rows + H + 3 * v * G) * d + i] +=
              value(blocks[v][b * G * d + i]) / static_cast<double>(s.length);
      }
  for (std::size_t t = 0; t < T; ++t) {
    double* row = &e[t * rows * d];
    for (std::size_t h = 0; h < H; ++h)
      for (std::size_t i = 0; i < d; ++i) {
        const std::size_t at = (t * H + h) * d + i;
        row[h * d + i] = value(dq[0][at]) + value(dq[1][at]) +
                         d_mean[(t * G + h / (H / G)) * d + i] / static_cast<double>(H / G);
        if (layout.place[t] >= 0)
          row[h * d + i] += value(d_places[in_places(s, layout.place[t], h) + i]);
      }
    for (std::size_t i = 0; i < G * d; ++i) {
      const std::size_t to[4] = {H + G, H + 2 * G, H + 4 * G, H + 5 * G};
      for (std::size_t b = 0; b < 4; ++b) row[to[b] * d + i] = value(branch[b][t * G * d + i]);
    }
    for (std::size_t r = 0; r < H + 3 * G; ++r) angles.turn(t, -1, row + r * d);
  }
  EXPECT_LE(off(e, d_product), kHalf);
}

const Shape kShapes[] = {{12, 2, 8, 4, 32}, {3, 3, 4, 4, 16}, {16, 1, 8, 2, 5}};

TEST(NsaInputsEmulated, InputsEqualFp64) {
  for (const Shape& shape : kShapes) check_inputs(shape);
}

TEST(NsaInputsEmulated, GradientsOfInputsEqualFp64) {
  for (const Shape& shape : kShapes) check_inputs_backward(shape);
}

// --- mix -----------------------------------------------------------------------------------------

struct MixSample {
  Shape s;
  Layout layout{s};
  std::size_t T = layout.tokens, H = s.heads, G = s.groups, E = s.gate, own = H / G;
  Halves o[3], dy = half(normal(T * H * d));
  std::vector<float> mean = normal(T * G * d), in = normal(E * d, .2F), in_bias = normal(E);
  std::vector<float> out = normal(3 * E), out_bias = normal(3);

  explicit MixSample(const Shape& shape) : s(shape) {
    o[0] = half(normal(layout.blocks * H * s.stride * d));
    o[1] = half(normal(T * H * d)), o[2] = half(normal(T * H * d));
    for (std::size_t p = 0; p < layout.place_token.size(); ++p) // must not be read
      for (std::size_t h = 0; h < H && layout.place_token[p] < 0; ++h)
        std::fill_n(&o[0][in_places(s, static_cast<std::int64_t>(p), h)], d, kNan);
  }
  Mix problem() const {
    Mix p{};
    p.o_places = o[0].data(), p.o_selected = o[1].data(), p.o_window = o[2].data();
    p.mean = mean.data(), p.in = in.data(), p.in_bias = in_bias.data();
    p.out = out.data(), p.out_bias = out_bias.data(), p.place = layout.place.data();
    p.tokens = static_cast<int>(T), p.heads = static_cast<int>(H), p.groups = static_cast<int>(G);
    p.stride = static_cast<int>(s.stride), p.gate = static_cast<int>(E);
    return p;
  }
  // Element of branch c; nothing where it is 0.
  bool find(std::size_t c, std::size_t t, std::size_t h, std::size_t& at) const {
    at = c > 0 ? (t * H + h) * d : layout.place[t] < 0 ? 0 : in_places(s, layout.place[t], h);
    return c > 0 || layout.place[t] >= 0;
  }
};

struct ExactGates {
  Doubles pre, hidden, g;
  ExactGates(const MixSample& x, std::size_t unit) {
    for (std::size_t e = 0; e < x.E; ++e) {
      double sum = x.in_bias[e];
      for (std::size_t i = 0; i < d; ++i)
        sum += double{x.in[e * d + i]} * double{x.mean[unit * d + i]};
      pre.push_back(sum), hidden.push_back(silu(sum));
    }
    double total = 0;
    for (std::size_t c = 0; c < 3; ++c) {
      double logit = x.out_bias[c];
      for (std::size_t e = 0; e < x.E; ++e) logit += double{x.out[c * x.E + e]} * hidden[e];
      g.push_back(std::exp(logit)), total += g.back();
    }
    for (double& gate : g) gate /= total;
  }
};

void check_mix(const Shape& shape) {
  const MixSample x(shape);
  Halves y(x.dy.size(), kNan), d_o[3];
  for (std::size_t c = 0; c < 3; ++c) d_o[c].assign(x.o[c].size(), kNan);
  constexpr std::size_t kBlocks = 3;
  const std::size_t size = x.E * kGateSums + 3;
  std::vector<float> d_mean(x.mean.size(), NAN), partial(kBlocks * size, NAN);
  Mix p = x.problem();
  p.y = y.data();
  const MixBackward b{p,
                      x.dy.data(),
                      x.layout.place_token.data(),
                      d_o[0].data(),
                      d_o[1].data(),
                      d_o[2].data(),
                      d_mean.data(),
                      partial.data(),
                      static_cast<int>(x.layout.place_token.size())};
  emu::launch(dim3(kBlocks), kThreads, 0, [&] { mix_kernel(p); });
  emu::launch(dim3(kBlocks), kThreads, 0, [&] { mix_backward_kernel(b); });

  Doubles e_y(y.size()), e_o[3], e_mean(d_mean.size()), e_sum(size);
  for (std::size_t c = 0; c < 3; ++c) e_o[c].resize(d_o[c].size());
  for (std::size_t unit = 0; unit < x.T * x.G; ++unit) {
    const ExactGates gates(x, unit);
    const std::size_t t = unit / x.G;
    Doubles d_g(3);
    for (std::size_t h = unit % x.G * x.own; h < (unit % x.G + 1) * x.own; ++h)
      for (std::size_t c = 0; c < 3; ++c) {
        std::size_t at = 0;
        if (!x.find(c, t, h, at)) continue;
        for (std::size_t i = 0; i < d; ++i) {
          const double dy = value(x.dy[(t * x.H + h) * d + i]), o = value(x.o[c][at + i]);
          e_y[(t * x.H + h) * d + i] += gates.g[c] * o;
          d_g[c] += dy * o, e_o[c][at + i] = gates.g[c] * dy;
        }
      }
    double along = 0;
    for (std::size_t c = 0; c < 3; ++c) along += gates.g[c] * d_g[c];
    for (std::size_t e = 0; e < x.E; ++e) {
      double d_hidden = 0;
      for (std::size_t c = 0; c < 3; ++c) {
        const double d_logit = gates.g[c] * (d_g[c] - along);
        d_hidden += x.out[c * x.E + e] * d_logit;
        e_sum[x.E * (d + 1 + c) + e] += d_logit * gates.hidden[e];
        if (e == 0) e_sum[x.E * (d + 4) + c] += d_logit;
      }
      const double d_pre = d_hidden * d_silu(gates.pre[e]);
      e_sum[x.E * d + e] += d_pre;
      for (std::size_t i = 0; i < d; ++i) {
        e_sum[e * d + i] += d_pre * x.mean[unit * d + i];
        e_mean[unit * d + i] += d_pre * x.in[e * d + i];
      }
    }
  }
  EXPECT_LE(off(e_y, y), kHalf);
  for (std::size_t c = 0; c < 3; ++c) EXPECT_LE(off(e_o[c], d_o[c]), kHalf) << c;
  EXPECT_LE(off(e_mean, d_mean), kFull);
  EXPECT_LE(off(e_sum, added(partial, size)), kFull);
}

TEST(NsaInputsEmulated, MixAndGradientsEqualFp64) {
  for (const Shape& shape : kShapes) check_mix(shape);
}

// --- places --------------------------------------------------------------------------------------

TEST(NsaInputsEmulated, RowsMoveToPlacesAndBack) {
  for (const Shape& s : kShapes) {
    const Layout layout(s);
    const Halves x = half(normal(layout.tokens * s.heads * d));
    Halves there(layout.blocks * s.stride * s.heads * d, kNan), back(x.size(), kNan);
    const auto move = [&](const Halves& from, Halves& to, const std::vector<std::int64_t>& index) {
      return PlacesProblem{from.data(),
                           to.data(),
                           index.data(),
                           static_cast<std::int64_t>(index.size()),
                           static_cast<int>(s.heads),
                           static_cast<int>(d),
                           static_cast<int>(s.stride)};
    };
    const auto grid = [&](std::size_t rows) {
      return dim3(static_cast<unsigned>((rows * s.heads * d / 8 + 255) / 256));
    };
    const PlacesProblem to = move(x, there, layout.place_token),
                        from = move(there, back, layout.place);
    emu::launch(grid(layout.place_token.size()), nsa_places::kThreads, 0, [&] {
      nsa_places::move_rows<true>(to);
    });
    emu::launch(
        grid(layout.tokens), nsa_places::kThreads, 0, [&] { nsa_places::move_rows<false>(from); });
    Halves e_there(there.size(), 0), e_back(x.size(), 0);
    for (std::size_t t = 0; t < layout.tokens; ++t)
      for (std::size_t h = 0; h < s.heads && layout.place[t] >= 0; ++h)
        for (std::size_t i = 0; i < d; ++i)
          e_there[in_places(s, layout.place[t], h) + i] = e_back[(t * s.heads + h) * d + i] =
              x[(t * s.heads + h) * d + i];
    EXPECT_EQ(there, e_there);
    EXPECT_EQ(back, e_back);
  }
}

} // namespace nsa_inputs_emulated_test
} // namespace assay::nsa
