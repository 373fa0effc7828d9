// The kernels of kernels/scan on the CPU: arithmetic against fp64, and barriers by a random order
// of threads. Tolerances as on a GPU (tests/model/gpu/scan_gpu_test.cpp).
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/kernels/emulated_warp.h"

#include "kernels/scan/chain.cuh"
#include "kernels/scan/rwkv6_backward.cuh"
#include "kernels/scan/rwkv6_forward.cuh"
#include "kernels/scan/ssd_backward.cuh"
#include "kernels/scan/ssd_forward.cuh"
#include "tests/kernels/scan_reference.h"

namespace assay::scan {
namespace scan_emulated_test {

constexpr bf16 kNan = 0x7fc0;
constexpr float kNotWritten = std::numeric_limits<float>::quiet_NaN();

enum class Along { Segments, Chunks }; // one kernel along segments, or passes over chunks

struct Run {
  const Inputs& in;
  test::ChunkLists lists;
  ChunkTable at, alone;
  std::size_t states;
  Halfs out, dr, dk, dv, dw16, entering, leaving;
  std::vector<float> end, d_begin, dw, du, decay, du_parts;

  explicit Run(const Inputs& inputs, int empty_chunks = 0)
      : in(inputs), lists(test::cut(in.shape.lengths, kChunk)),
        states(in.shape.lengths.size() * in.shape.heads * in.shape.keys * kValues) {
    lists.chunk.resize(lists.chunk.size() + 2 * static_cast<std::size_t>(empty_chunks), 0);
    if (empty_chunks > 0) lists.first.resize(lists.first.size() + 2, lists.first.back());
    const std::size_t squares = static_cast<std::size_t>(lists.chunks()) * in.shape.heads;
    at = {reinterpret_cast<const int2*>(lists.chunk.data()),
          lists.first.data(),
          lists.chunks(),
          static_cast<int>(lists.first.size()) - 1,
          in.shape.heads,
          in.begin.empty() ? nullptr : reinterpret_cast<const int2*>(lists.slot.data())};
    alone = at;
    alone.first = nullptr, alone.slot = nullptr, alone.segments = at.chunks;
    out.assign(in.v.size(), kNan), dv = out;
    dr.assign(in.r.size(), kNan), dk = dr, dw16.assign(in.w16.size(), kNan);
    entering.assign(squares * in.shape.keys * kValues, kNan), leaving = entering;
    end.assign(states, kNotWritten), d_begin = end;
    dw.assign(in.w.size(), kNotWritten), du.assign(in.u.size(), kNotWritten);
    decay.assign(squares * kWidth, kNotWritten), du_parts = decay;
  }
  template <class Kernel> void launch(int blocks, int threads, int bytes, Kernel kernel) {
    emu::launch(dim3(static_cast<unsigned>(blocks)),
                static_cast<unsigned>(threads),
                static_cast<std::size_t>(bytes),
                kernel);
  }
  template <int kKeys, int kRowsADecay, bool kReverse> void join(Halfs& of) {
    const Chain p{at,
                  of.data(),
                  decay.data(),
                  (kReverse ? in.d_end : in.begin).data(),
                  (kReverse ? d_begin : end).data()};
    launch(at.segments * at.heads * (kKeys * kWidth / 2 / kChainThreads), kChainThreads, 0, [&] {
      chain<kKeys, kRowsADecay, kReverse>(p);
    });
  }
};

struct Rwkv6Run : Run {
  using Run::Run;
  template <bool kReverse> void scan(Along along) {
    RwkvState p{at,
                (kReverse ? in.r : in.k).data(),
                (kReverse ? in.d_out : in.v).data(),
                in.w16.data(),
                (kReverse ? in.d_end : in.begin).data(),
                (kReverse ? d_begin : end).data(),
                (kReverse ? leaving : entering).data(),
                decay.data()};
    if (along == Along::Segments)
      return launch(at.segments * at.heads, kRwkvThreads, RwkvStateMemory<false>::bytes, [&] {
        rwkv6_state<kReverse, false>(p);
      });
    p.at = alone;
    launch(at.chunks * at.heads, kRwkvThreads, RwkvStateMemory<true>::bytes, [&] {
      rwkv6_state<kReverse, true>(p);
    });
    join<kWidth, 1, kReverse>(kReverse ? leaving : entering);
  }
  void all(Along along) {
    Rwkv6 p{.at = at,
            .r = in.r.data(),
            .k = in.k.data(),
            .v = in.v.data(),
            .w = in.w16.data(),
            .u = in.u.data(),
            .states = entering.data(),
            .out = out.data(),
            .decay = decay.data()};
    const Rwkv6Gradients back{.problem = p,
                              .d_out = in.d_out.data(),
                              .d_states = leaving.data(),
                              .dr = dr.data(),
                              .dk = dk.data(),
                              .dv = dv.data(),
                              .dw = dw16.data(),
                              .du_parts = du_parts.data(),
                              .du = du.data()};
    const int squares = at.chunks * at.heads;
    scan<false>(along);
    launch(squares, kRwkvThreads, kRwkvOutputBytes, [&] { rwkv6_output(p); });
    scan<true>(along);
    launch(squares, kRwkvThreads, kRwkvGradientsBytes, [&] { rwkv6_gradients(back); });
    launch(at.heads, kDuThreads, kDuThreads * 4, [&] { rwkv6_du(back); });
  }
};

template <int N> struct SsdRun : Run {
  using Run::Run;
  template <bool kReverse, Pass kPass> void pass() {
    const SsdScan p{kPass == Pass::kWhole ? at : alone,
                    (kReverse ? in.k : in.r).data(),
                    (kReverse ? in.r : in.k).data(),
                    (kReverse ? in.d_out : in.v).data(),
                    in.w.data(),
                    (kReverse ? in.d_end : in.begin).data(),
                    (kReverse ? d_begin : end).data(),
                    (kReverse ? leaving : entering).data(),
                    decay.data(),
                    (kReverse ? dv : out).data(),
                    in.shape.groups};
    launch(p.at.segments * at.heads, kScanThreads, ScanMemory<N, kPass>::bytes, [&] {
      ssd_scan<N, kReverse, kPass>(p);
    });
  }
  template <bool kReverse> void scan(Along along) {
    if (along == Along::Segments) return pass<kReverse, Pass::kWhole>();
    pass<kReverse, Pass::kAdded>();
    join<N, N, kReverse>(kReverse ? leaving : entering);
    pass<kReverse, Pass::kOutput>();
  }
  void all(Along along) {
    const Ssd p{.at = at,
                .x = in.v.data(),
                .a = in.w.data(),
                .b = in.k.data(),
                .c = in.r.data(),
                .states = entering.data(),
                .out = out.data(),
                .decay = decay.data(),
                .groups = in.shape.groups};
    const SsdGradients back{.problem = p,
                            .d_out = in.d_out.data(),
                            .d_states = leaving.data(),
                            .dx = dv.data(),
                            .da = dw.data(),
                            .db = dk.data(),
                            .dc = dr.data()};
    scan<false>(along);
    scan<true>(along);
    launch(at.chunks * in.shape.groups, kGradientThreads, SsdGradientsMemory<N>::bytes, [&] {
      ssd_gradients<N>(back);
    });
  }
};

template <class Mixer>
Mixer run(const Inputs& in, unsigned order, Along along = Along::Segments, int empty = 0) {
  emu::order.seed(order);
  Mixer mixer(in, empty);
  mixer.all(along);
  return mixer;
}

bool same_floats(const std::vector<float>& x, const std::vector<float>& y) { // NaN equals itself
  return x.size() == y.size() &&
         (x.empty() || std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0);
}
bool same_results(const Run& x, const Run& y) {
  return x.out == y.out && x.dr == y.dr && x.dk == y.dk && x.dv == y.dv && x.dw16 == y.dw16 &&
         same_floats(x.dw, y.dw) && same_floats(x.du, y.du) && same_floats(x.end, y.end) &&
         same_floats(x.d_begin, y.d_begin);
}

template <class Mixer> void check(const Shape& shape, unsigned seed, bool states) {
  const Inputs in = make_inputs(shape, seed, states);
  const Reference expected = reference(in);
  const Mixer seen = run<Mixer>(in, 1);
  EXPECT_TRUE(same_results(seen, run<Mixer>(in, 12345)))
      << "another order of threads gives other bits: a barrier is missing";
  EXPECT_TRUE(same_results(seen, run<Mixer>(in, 7, Along::Chunks)))
      << "passes over chunks give other bits";
  EXPECT_LE(test::distance(expected.out, seen.out), 5e-3);
  EXPECT_LE(test::distance(expected.dr, seen.dr), 8e-3);
  EXPECT_LE(test::distance(expected.dk, seen.dk), 8e-3);
  EXPECT_LE(test::distance(expected.dv, seen.dv), 8e-3);
  if (shape.ssd) {
    EXPECT_LE(test::distance(expected.dw, seen.dw), 2e-2);
  } else {
    EXPECT_LE(test::distance(expected.dw, seen.dw16), 2e-2);
    EXPECT_LE(test::distance(expected.du, seen.du), 2e-2);
  }
  if (!states) return;
  EXPECT_LE(test::distance(expected.end, seen.end), 5e-3);
  EXPECT_LE(test::distance(expected.d_begin, seen.d_begin), 8e-3);
}

TEST(ScanEmulated, Ssd) {
  check<SsdRun<64>>({true, {1, 63, 64, 65, 130}, 2, 1, 64, 1e-3, 1}, 3, true);
}
TEST(ScanEmulated, SsdThatForgetsAtOnce) {
  check<SsdRun<64>>({true, {2, 15, 130}, 3, 1, 64, .1, 20}, 4, false);
}
TEST(ScanEmulated, SsdWithGroupsAndAState128Wide) {
  check<SsdRun<128>>({true, {130, 7}, 4, 2, 128, 1e-4, .1}, 5, true);
}
TEST(ScanEmulated, Rwkv6) {
  check<Rwkv6Run>({false, {1, 63, 64, 65, 130}, 1, 1, 64, 1e-3, 1}, 6, true);
}
TEST(ScanEmulated, Rwkv6ThatForgetsAtOnce) {
  check<Rwkv6Run>({false, {2, 15, 130}, 2, 2, 64, 1e-3, 20}, 7, false);
}
TEST(ScanEmulated, Rwkv6ThatHardlyForgets) {
  check<Rwkv6Run>({false, {150}, 1, 1, 64, 1e-5, 1e-4}, 8, true);
}
TEST(ScanEmulated, Rwkv6WithoutMemory) {
  check<Rwkv6Run>({false, {70}, 1, 1, 64, 5, 20}, 9, false);
}

// What another segment holds changes no bit.
template <class Mixer> void check_isolation(const Shape& shape) {
  Inputs in = make_inputs(shape, 6, false);
  const Mixer before = run<Mixer>(in, 1);
  const auto from = [&](const auto& x) {
    return static_cast<std::ptrdiff_t>(x.size() / shape.tokens() * shape.lengths[0]);
  };
  std::fill(in.v.begin() + from(in.v), in.v.end(), kNan);
  std::fill(in.d_out.begin() + from(in.d_out), in.d_out.end(), kNan);
  const Mixer after = run<Mixer>(in, 1);
  const auto same = [&](const auto& x, const auto& y) {
    return std::equal(x.begin(), x.begin() + from(x), y.begin());
  };
  EXPECT_TRUE(same(before.out, after.out) && same(before.dr, after.dr));
  EXPECT_TRUE(same(before.dk, after.dk) && same(before.dv, after.dv));
  EXPECT_TRUE(same(before.dw, after.dw) || !shape.ssd);
  EXPECT_TRUE(same(before.dw16, after.dw16));
}

TEST(ScanEmulated, AnotherSegmentChangesNoBit) {
  check_isolation<SsdRun<64>>({true, {70, 30}, 1, 1, 64, 1e-3, 1});
  check_isolation<Rwkv6Run>({false, {70, 30}, 1, 1, 64, 1e-3, 1});
}

// Tables of fixed size: chunks of no token, and segments of no chunk behind the last one.
template <class Mixer> void check_room(const Shape& shape) {
  const Inputs in = make_inputs(shape, 8, false);
  const Mixer expected = run<Mixer>(in, 1);
  EXPECT_TRUE(same_results(expected, run<Mixer>(in, 1, Along::Segments, 3)));
  EXPECT_TRUE(same_results(expected, run<Mixer>(in, 1, Along::Chunks, 3)));
}

TEST(ScanEmulated, RoomThatIsEmptyChangesNoBit) {
  check_room<SsdRun<64>>({true, {70, 30}, 2, 1, 64, 1e-3, 1});
  check_room<Rwkv6Run>({false, {70, 30}, 1, 1, 64, 1e-3, 1});
}

} // namespace scan_emulated_test
} // namespace assay::scan
