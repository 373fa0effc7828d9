// The chain over chunks as a kernel of its own, where few segments are long: a thread takes two
// elements of a state through all chunks of a segment.
#pragma once

#include <type_traits>

#include "kernels/scan/chunks.cuh"

namespace assay::scan {

// S_0 = begin, S_{n+1} = decay_n S_n + added_n, from the first chunk of a segment to the last or
// the other way round; `states` holds added_n and gets S_n. decay: [chunks, heads, keys /
// kRowsADecay].
struct Chain {
  ChunkTable at;
  bf16* states; // [chunks, heads, keys, 64]
  const float* decay;
  const float* begin; // [slots, heads, keys, 64]
  float* end;
};

constexpr int kChainThreads = 64, kChainDepth = 32; // chunks in flight

template <int kKeys, int kRowsADecay, bool kReverse>
__global__ void __launch_bounds__(kChainThreads) chain(Chain p) {
  constexpr int kStates = kKeys * kWidth, kBlocks = kStates / 2 / kChainThreads,
                kDecays = kKeys / kRowsADecay;
  const int unit = block_index() / kBlocks, segment = unit / p.at.heads, head = unit % p.at.heads;
  const int element = (block_index() % kBlocks * kChainThreads + thread_index()) * 2;
  const Span span(p.at, segment);
  float2 s = make_float2(0, 0);
  if (span.slot.x >= 0)
    s = *reinterpret_cast<const float2*>(
        p.begin + (wide(span.slot.x) * p.at.heads + head) * kStates + element);
  const std::int64_t unit0 = wide(span.begin + (kReverse ? span.count - 1 : 0)) * p.at.heads + head;
  bf16* states = p.states + unit0 * kStates + element;
  const float* decays = p.decay + unit0 * kDecays + element / kWidth / kRowsADecay;
  const std::int64_t step = kReverse ? -p.at.heads : p.at.heads;
  const auto steps = [&](auto whole, int left) {
    std::uint32_t added[kChainDepth];
    float decay[kChainDepth];
#pragma unroll
    for (int i = 0; i < kChainDepth; ++i)
      if (decltype(whole)::value || i < left) {
        added[i] = *reinterpret_cast<const std::uint32_t*>(states + i * step * kStates);
        decay[i] = decays[i * step * kDecays];
      }
#pragma unroll
    for (int i = 0; i < kChainDepth; ++i)
      if (decltype(whole)::value || i < left) {
        put(states + i * step * kStates, s.x, s.y);
        const float2 x = unpack2(added[i]);
        s = make_float2(fmaf(decay[i], s.x, x.x), fmaf(decay[i], s.y, x.y));
      }
    states += kChainDepth * step * kStates, decays += kChainDepth * step * kDecays;
  };
  int t = 0;
  for (; t + kChainDepth <= span.count; t += kChainDepth) steps(std::true_type{}, kChainDepth);
  if (t < span.count) steps(std::false_type{}, span.count - t);
  if (span.slot.y >= 0)
    *reinterpret_cast<float2*>(p.end + (wide(span.slot.y) * p.at.heads + head) * kStates +
                               element) = s;
}

} // namespace assay::scan
