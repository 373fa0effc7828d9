// Gates of the branches and their mix. A warp handles a token and group: lane e is hidden unit e of
// the gates, then all lanes share the group's heads.
#pragma once

#include "kernels/nsa/inputs.cuh"

namespace assay::nsa {

constexpr int kGatePitch = kWidth + 4; // floats between rows of `in`: lanes read different banks

// In shared memory: the first product's weights, and each warp's mean and gradient.
struct MixShared {
  alignas(16) float in[kMostGate][kGatePitch];
  alignas(16) float mean[kWarps][kWidth];
  alignas(16) float d_pre[kWarps][kMostGate];
};

// A lane's unit; a unit that does not exist has no weights.
struct GateUnit {
  float bias = 0, out[3] = {};

  __device__ __forceinline__ GateUnit(const Mix& p, MixShared& shared, int lane) {
    for (int i = thread_index(); i < kMostGate * kWidth; i += kThreads)
      shared.in[i / kWidth][i % kWidth] = i / kWidth < p.gate ? p.in[i] : 0.F;
    __syncthreads();
    if (lane >= p.gate) return;
    bias = p.in_bias[lane];
#pragma unroll
    for (int c = 0; c < 3; ++c) out[c] = p.out[c * p.gate + lane];
  }
};

struct Gates {
  float hidden, slope; // of the lane's unit: silu and its derivative
  float g[3];          // of the branches

  // `unit`: t groups + group.
  __device__ __forceinline__
  Gates(const Mix& p, const GateUnit& weights, MixShared& shared, std::int64_t unit, int lane) {
    float* mean = shared.mean[thread_index() / 32];
    const float2 two = *reinterpret_cast<const float2*>(p.mean + unit * kWidth + 2 * lane);
    __syncwarp(); // the lanes are done with the unit before
    mean[2 * lane] = two.x, mean[2 * lane + 1] = two.y;
    __syncwarp();
    float pre = weights.bias;
#pragma unroll
    for (int k = 0; k < kWidth; k += 4) {
      float a[4], b[4];
      load(a, &shared.in[lane][k]);
      load(b, mean + k);
#pragma unroll
      for (int e = 0; e < 4; ++e) pre += a[e] * b[e];
    }
    const float s = sigmoid(pre);
    hidden = pre * s, slope = s + hidden * (1.F - s);
    float most = -__builtin_huge_valf(), sum = 0;
#pragma unroll
    for (int c = 0; c < 3; ++c) {
      g[c] = sum_lanes<32>(weights.out[c] * hidden) + p.out_bias[c];
      most = g[c] > most ? g[c] : most;
    }
#pragma unroll
    for (int c = 0; c < 3; ++c) sum += g[c] = exp2_fast((g[c] - most) * kLog2E);
#pragma unroll
    for (int c = 0; c < 3; ++c) g[c] /= sum;
  }
};

// Where a word of eight columns of a token's group lies.
struct MixWord {
  std::int64_t token, place; // element in [T, H, d], and in places; < 0: none

  __device__ __forceinline__ MixWord(const Mix& p, std::int64_t unit, int word) {
    const std::int64_t t = unit / p.groups, at = p.place[t];
    const int own = p.heads / p.groups,
              head = static_cast<int>(unit % p.groups) * own + word / (kWidth / 8);
    const int column = word % (kWidth / 8) * 8;
    token = (t * p.heads + head) * kWidth + column;
    place = at < 0 ? -1 : nsa_places::at_place(at, head, p.heads, p.stride, kWidth) + column;
  }
};

__device__ __forceinline__ int group_words(const Mix& p) {
  return p.heads / p.groups * (kWidth / 8);
}

__global__ void __launch_bounds__(kThreads, 2) mix_kernel(Mix p) {
  __shared__ MixShared shared;
  const int lane = thread_index() % 32;
  const GateUnit weights(p, shared, lane);
  const std::int64_t units = static_cast<std::int64_t>(p.tokens) * p.groups;
  for (std::int64_t unit = token_of_warp(); unit < units; unit += block_count() * kWarps) {
    const Gates gates(p, weights, shared, unit, lane);
    for (int word = lane; word < group_words(p); word += 32) {
      const MixWord at(p, unit, word);
      float y[8] = {};
      if (at.place >= 0) add_from(y, p.o_places + at.place, gates.g[0]);
      add_from(y, p.o_selected + at.token, gates.g[1]);
      add_from(y, p.o_window + at.token, gates.g[2]);
      store(p.y + at.token, y);
    }
  }
}

__device__ __forceinline__ float dot(const float (&a)[8], const bf16* b) {
  float x[8], sum = 0;
  load(x, b);
#pragma unroll
  for (int e = 0; e < 8; ++e) sum += a[e] * x[e];
  return sum;
}

__device__ __forceinline__ void store_scaled(bf16* to, const float (&x)[8], float factor) {
  float y[8];
#pragma unroll
  for (int e = 0; e < 8; ++e) y[e] = factor * x[e];
  store(to, y);
}

// Writes the branches' gradients of a token and group; `d` becomes the gradient of the gates'
// logits.
__device__ __forceinline__ void branch_gradients(
    const MixBackward& b, const Gates& gates, std::int64_t unit, int lane, float (&d)[3]) {
  const Mix& p = b.forward;
  for (int word = lane; word < group_words(p); word += 32) {
    const MixWord at(p, unit, word);
    float dy[8];
    load(dy, b.dy + at.token);
    if (at.place >= 0) {
      d[0] += dot(dy, p.o_places + at.place);
      store_scaled(b.d_places + at.place, dy, gates.g[0]);
    }
    d[1] += dot(dy, p.o_selected + at.token);
    d[2] += dot(dy, p.o_window + at.token);
    store_scaled(b.d_selected + at.token, dy, gates.g[1]);
    store_scaled(b.d_window + at.token, dy, gates.g[2]);
  }
  float along = 0;
#pragma unroll
  for (int c = 0; c < 3; ++c) along += gates.g[c] * (d[c] = sum_lanes<32>(d[c]));
#pragma unroll
  for (int c = 0; c < 3; ++c) d[c] = gates.g[c] * (d[c] - along);
}

// A lane's sums over the units of its warp.
struct GateSums {
  float in[kWidth] = {}, bias = 0, out[3] = {}, out_bias[3] = {};

  // Of all warps, one after the other: a fixed order.
  __device__ __forceinline__ void write(float* partial, int gate, int lane, float* sums) const {
    const int warp = thread_index() / 32, size = gate * kGateSums + 3;
    for (int w = 0; w < kWarps; ++w) {
      if (w == warp && lane < gate) {
        const auto put = [&](int at, float x) { sums[at] = w == 0 ? x : sums[at] + x; };
#pragma unroll
        for (int k = 0; k < kWidth; ++k) put(lane * kWidth + k, in[k]);
        put(gate * kWidth + lane, bias);
#pragma unroll
        for (int c = 0; c < 3; ++c) put(gate * (kWidth + 1 + c) + lane, out[c]);
#pragma unroll
        for (int c = 0; c < 3; ++c)
          if (lane == 0) put(gate * (kWidth + 4) + c, out_bias[c]);
      }
      __syncthreads();
    }
    for (int i = thread_index(); i < size; i += kThreads) partial[i] = sums[i];
  }
};

__device__ __forceinline__ void clear_places(const MixBackward& b, int lane) {
  const Mix& p = b.forward;
  const int words = p.heads * (kWidth / 8);
  for (std::int64_t place = token_of_warp(); place < b.places; place += block_count() * kWarps) {
    if (b.place_token[place] >= 0) continue;
    for (int i = lane; i < words; i += 32)
      *reinterpret_cast<uint4*>(
          b.d_places + nsa_places::at_place(place, i / (kWidth / 8), p.heads, p.stride, kWidth) +
          i % (kWidth / 8) * 8) = uint4{};
  }
}

__global__ void __launch_bounds__(kThreads, 2) mix_backward_kernel(MixBackward b) {
  __shared__ MixShared shared;
  __shared__ float sums[kMostGate * kGateSums + 3];
  const Mix& p = b.forward;
  const int lane = thread_index() % 32;
  const GateUnit weights(p, shared, lane);
  clear_places(b, lane);
  GateSums total;
  float* mean = shared.mean[thread_index() / 32];
  float* shared_pre = shared.d_pre[thread_index() / 32];
  const std::int64_t units = static_cast<std::int64_t>(p.tokens) * p.groups;
  for (std::int64_t unit = token_of_warp(); unit < units; unit += block_count() * kWarps) {
    const Gates gates(p, weights, shared, unit, lane);
    float d[3] = {}, d_hidden = 0;
    branch_gradients(b, gates, unit, lane, d);
#pragma unroll
    for (int c = 0; c < 3; ++c) {
      d_hidden += weights.out[c] * d[c];
      total.out[c] += d[c] * gates.hidden;
      total.out_bias[c] += d[c];
    }
    const float d_pre = d_hidden * gates.slope;
    total.bias += d_pre;
    shared_pre[lane] = d_pre; // read by nobody since the last __syncwarp() of Gates
    __syncwarp();
#pragma unroll
    for (int k = 0; k < kWidth; ++k) total.in[k] += d_pre * mean[k];
    float2 d_mean{0, 0};
#pragma unroll 8
    for (int e = 0; e < kMostGate; ++e) {
      const float2 w = *reinterpret_cast<const float2*>(&shared.in[e][2 * lane]);
      d_mean.x += w.x * shared_pre[e], d_mean.y += w.y * shared_pre[e];
    }
    *reinterpret_cast<float2*>(b.d_mean + unit * kWidth + 2 * lane) = d_mean;
  }
  total.write(b.partial + static_cast<std::int64_t>(block_index()) * (p.gate * kGateSums + 3),
              p.gate,
              lane,
              sums);
}

} // namespace assay::nsa
