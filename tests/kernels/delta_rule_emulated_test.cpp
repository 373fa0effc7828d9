// The kernels of kernels/delta_rule on the CPU: arithmetic against fp64, and barriers by a random
// order of threads. Tolerances as on a GPU (tests/model/gpu/delta_rule_gpu_test.cpp).
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/kernels/emulated_warp.h"

#include "kernels/delta_rule/gradients.cuh"
#include "kernels/delta_rule/output.cuh"
#include "kernels/delta_rule/prepare.cuh"
#include "kernels/delta_rule/reverse.cuh"
#include "kernels/delta_rule/starts.cuh"
#include "kernels/delta_rule/state.cuh"
#include "tests/kernels/delta_rule_reference.h"

namespace assay::delta_rule {
namespace delta_rule_emulated_test {

constexpr bf16 kNan = 0x7fc0;

struct Result {
  std::vector<bf16> out, inverse, scores, update, states, d_states, dq, dk, dv;
  std::vector<float> dg, d_beta, gamma;
  bool operator==(const Result&) const = default;
};

template <int D, bool kAlone = false> Result run(const Inputs& in, int pieces = 1) {
  constexpr int kPart = kValuePart<D>;
  const Shape& s = in.shape;
  const int chunks = static_cast<int>(in.chunk.size()) / 2;
  const std::size_t tokens = static_cast<std::size_t>(s.tokens()),
                    heads = static_cast<std::size_t>(s.heads);
  const std::size_t squares = static_cast<std::size_t>(chunks) * heads;
  Result r;
  r.out.assign(tokens * heads * D, kNan), r.update = r.dv = r.out;
  r.dq.assign(in.k.size(), kNan), r.dk = r.dq;
  r.inverse.assign(squares * kChunk * kChunk, kNan), r.scores = r.inverse;
  r.states.assign(squares * D * D, kNan), r.d_states = r.states;
  r.dg.assign(tokens * heads, std::numeric_limits<float>::quiet_NaN()), r.d_beta = r.dg;
  std::vector<float2> decay(squares * kChunk);
  const std::size_t chains = (in.first.size() - 1) * heads * static_cast<std::size_t>(pieces);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> effects(2 * chains * D * D, nan), starts_of(chains * D * D, nan);
  const Problem p{.q = in.q.data(),
                  .k = in.k.data(),
                  .v = in.v.data(),
                  .g = in.g.data(),
                  .beta = in.beta.data(),
                  .chunk = reinterpret_cast<const int2*>(in.chunk.data()),
                  .first = in.first.data(),
                  .decay = decay.data(),
                  .inverse = r.inverse.data(),
                  .scores = r.scores.data(),
                  .update = r.update.data(),
                  .states = r.states.data(),
                  .out = r.out.data(),
                  .heads_k = s.heads_k,
                  .heads = s.heads,
                  .chunks = chunks,
                  .segments = static_cast<int>(in.first.size()) - 1,
                  .scale = 1 / std::sqrt(static_cast<float>(D)),
                  .pieces = pieces,
                  .effects = effects.data(),
                  .starts = starts_of.data()};
  const Gradients b{.problem = p,
                    .d_out = in.d_out.data(),
                    .d_states = r.d_states.data(),
                    .dq = r.dq.data(),
                    .dk = r.dk.data(),
                    .dv = r.dv.data(),
                    .dg = r.dg.data(),
                    .d_beta = r.d_beta.data()};
  const auto blocks = [](int count) { return dim3(static_cast<unsigned>(count)); };
  const dim3 chunk_heads = blocks(chunks * s.heads), chunk_keys = blocks(chunks * s.heads_k);
  const int all = p.segments * s.heads * (D / kPart);
  const dim3 segment_heads = blocks(all * pieces), each_effect = blocks(2 * all * (pieces - 1)),
             start_rows = blocks(p.segments * s.heads * (D / kStartRows));
  emu::launch(chunk_heads, kThreads, prepare_bytes(), [&] { prepare<D>(p); });
  if (pieces > 1) {
    emu::launch(each_effect, kChainThreads<kPart>, StateMemory<D, kPart>::bytes, [&] {
      state<D, kPart, Chain::Effect>(p);
    });
    emu::launch(start_rows, kThreads, starts_bytes<D>(), [&] { starts<D>(p, false); });
  }
  emu::launch(segment_heads, kChainThreads<kPart>, StateMemory<D, kPart>::bytes, [&] {
    pieces > 1 ? state<D, kPart, Chain::Piece>(p) : state<D, kPart, Chain::Whole>(p);
  });
  emu::launch(chunk_heads, kThreads, output_bytes<D>(), [&] { output<D>(p, kAlone ? 0 : 5); });
  if (pieces > 1) {
    effects.assign(effects.size(), nan), starts_of.assign(starts_of.size(), nan);
    emu::launch(each_effect, kChainThreads<kPart>, ReverseMemory<D, kPart, false>::bytes, [&] {
      reverse<D, kPart, false, Chain::Effect>(b);
    });
    emu::launch(start_rows, kThreads, starts_bytes<D>(), [&] { starts<D>(p, true); });
  }
  emu::launch(segment_heads, kChainThreads<kPart>, ReverseMemory<D, kPart, kAlone>::bytes, [&] {
    pieces > 1 ? reverse<D, kPart, kAlone, Chain::Piece>(b)
               : reverse<D, kPart, kAlone, Chain::Whole>(b);
  });
  emu::launch(chunk_keys, kThreads, gradients_bytes<D>(), [&] { gradients<D>(b); });
  for (const float2& d : decay) r.gamma.push_back(d.x);
  return r;
}

// `limit`: largest relative RMS of the output; what rounding of bf16 inputs leaves.
template <int D>
void check(const Shape& shape, double decay, unsigned seed, double limit = 5e-3, int pieces = 1) {
  const Inputs in = make_inputs(shape, seed, decay);
  const Reference expected = reference(in, true);
  emu::order.seed(1);
  const Result seen = run<D>(in, pieces);
  emu::order.seed(12345);
  EXPECT_TRUE(seen == run<D>(in, pieces))
      << "another order of threads gives other bits: a barrier is missing";
  const bool alike = seen == run<D, true>(in, pieces);
  EXPECT_TRUE(alike) << "a block alone on its SM, or outputs that start late, give other bits";
  EXPECT_LE(distance(expected.out, seen.out), limit);
  EXPECT_LE(distance(expected.dq, seen.dq), 8e-3);
  EXPECT_LE(distance(expected.dk, seen.dk), 8e-3);
  EXPECT_LE(distance(expected.dv, seen.dv), 8e-3);
  EXPECT_LE(distance(expected.dg, seen.dg), 2e-2);
  EXPECT_LE(distance(expected.d_beta, seen.d_beta), 2e-2);
}

TEST(DeltaRuleEmulated, Width32) {
  check<32>({{1, 63, 66, 330}, 1, 2, 32}, 0.3, 2); // more chunks than places to load them
}
TEST(DeltaRuleEmulated, Width64) {
  check<64>({{1, 63, 64, 65, 107}, 2, 2, 64}, 0.05, 3);
}
TEST(DeltaRuleEmulated, StrongDecay) {
  check<64>({{2, 130}, 1, 1, 64}, 3.0, 4);
}
TEST(DeltaRuleEmulated, KeysAlike) {
  check<64>({{65}, 1, 1, 64, 2.F}, 0.05, 8, 8e-3); // mean cosine 0.8
}
TEST(DeltaRuleEmulated, TwoKeyHeadsOfTwoValueHeadsEach) {
  check<32>({{70, 7}, 2, 4, 32}, 0.05, 9);
}
TEST(DeltaRuleEmulated, Width128WithTwoValueHeadsAKey) {
  check<128>({{70, 7}, 1, 2, 128}, 0.05, 5);
}

// Pieces of one chunk, of several, of none, and a segment that another is longer than.
TEST(DeltaRuleEmulated, Pieces) {
  check<64>({{330, 64, 65}, 1, 1, 64}, 0.05, 10, 5e-3, 3);
  check<64>({{400}, 1, 1, 64, 2.F}, 0.01, 11, 8e-3, 5); // a state that lives through all pieces
  check<32>({{200, 1}, 2, 4, 32}, 0.05, 12, 5e-3, 4);
}
TEST(DeltaRuleEmulated, PiecesOfWidth128) {
  check<128>({{200}, 1, 2, 128}, 0.01, 13, 5e-3, 3);
}

// What another segment or a later token holds changes no bit.
TEST(DeltaRuleEmulated, AnotherSegmentChangesNoBit) {
  Inputs in = make_inputs({{70, 30}, 1, 1, 64}, 6, 0.05);
  const Result before = run<64>(in);
  const std::size_t from = 70 * 64;
  for (std::size_t i = from; i < in.v.size(); ++i) in.v[i] = in.d_out[i] = kNan;
  const Result after = run<64>(in);
  const auto same = [&](const std::vector<bf16>& x, const std::vector<bf16>& y) {
    return std::equal(x.begin(), x.begin() + from, y.begin());
  };
  EXPECT_TRUE(same(before.out, after.out));
  EXPECT_TRUE(same(before.dq, after.dq));
  EXPECT_TRUE(same(before.dk, after.dk));
  EXPECT_TRUE(same(before.dv, after.dv));
  EXPECT_TRUE(std::equal(before.dg.begin(), before.dg.begin() + 70, after.dg.begin()));
}

// Tables of fixed size: chunks of no token, and segments of no chunk behind the last one.
TEST(DeltaRuleEmulated, RoomThatIsEmptyChangesNoBit) {
  const Inputs in = make_inputs({{70, 30}, 1, 1, 64}, 8, 0.05);
  const Result expected = run<64>(in);
  Inputs wide = in;
  wide.chunk.resize(in.chunk.size() + 2 * 3, 0);
  wide.first.resize(in.first.size() + 2, in.first.back());
  const Result seen = run<64>(wide);
  EXPECT_EQ(seen.out, expected.out);
  EXPECT_EQ(seen.update, expected.update);
  EXPECT_EQ(seen.dq, expected.dq);
  EXPECT_EQ(seen.dk, expected.dk);
  EXPECT_EQ(seen.dv, expected.dv);
  EXPECT_EQ(seen.dg, expected.dg);
  EXPECT_EQ(seen.d_beta, expected.d_beta);
}

TEST(DeltaRuleEmulated, ALaterTokenChangesNoBitOfAnEarlierOutput) {
  const Inputs in = make_inputs({{70}, 1, 1, 64}, 7, 0.3);
  const Result before = run<64>(in);
  for (const std::size_t token : {1, 31, 40, 63, 64}) {
    Inputs changed = in;
    for (std::size_t i = token * 64; i < in.v.size(); ++i)
      changed.q[i] = changed.k[i] = half_of(0.125F), changed.v[i] = half_of(3.F);
    for (std::size_t t = token; t < in.g.size(); ++t) changed.g[t] = -0.7F, changed.beta[t] = 0.9F;
    const Result after = run<64>(changed);
    const auto gamma = before.gamma.begin() + static_cast<std::ptrdiff_t>(token);
    EXPECT_TRUE(std::equal(before.gamma.begin(), gamma, after.gamma.begin())) << token;
    const auto end = before.out.begin() + static_cast<std::ptrdiff_t>(token * 64);
    EXPECT_TRUE(std::equal(before.out.begin(), end, after.out.begin())) << token;
    EXPECT_FALSE(std::equal(end, end + 64, after.out.begin() + (end - before.out.begin())))
        << token;
  }
}

} // namespace delta_rule_emulated_test
} // namespace assay::delta_rule
