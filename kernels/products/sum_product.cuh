// A block has a thread that copies operands and two warp groups that compute, which take turns:
// while one multiplies a tile, the other adds its own to the result. Neighbours in the order of
// tiles lie in the same rows of the result, so that blocks that run at a time share the columns of
// `left`.
#pragma once

#include "kernels/products/hopper.cuh"
#include "kernels/products/sum_product_problem.h"

namespace assay::sum_product {

using namespace hopper;

constexpr int kStages = 4;
constexpr int kGroup = 128; // threads of a warp group

struct Stage {
  bf16 left[kRows / kBox][kInner][kBox];
  bf16 right[kColumns / kBox][kInner][kBox];
};
// What a warp group hands out at a time, and how many of them.
constexpr int kBuffers = 4;
using Part = float[kOutRows][kOutBox];
struct Shared {
  Stage stages[kStages];
  Part parts[2][kBuffers]; // of each warp group
  std::uint64_t full[kStages], empty[kStages], ready[2][kBuffers];
};
constexpr int kSharedBytes = sizeof(Shared) + 1024; // it begins at a multiple of 1024

// Where the ring of stages is; every tile takes the next `steps` of it.
struct Ring {
  int stage = 0;
  std::uint32_t parity = 0;
  __device__ __forceinline__ void next() {
    if (++stage == kStages) stage = 0, parity ^= 1;
  }
  __device__ __forceinline__ void skip(int steps) {
    stage += steps;
    parity ^= static_cast<std::uint32_t>(stage / kStages) & 1;
    stage %= kStages;
  }
};

__device__ __forceinline__ int row_of(const Tiles& tiles, int tile) {
  return tile / tiles.columns * kRows;
}
__device__ __forceinline__ int column_of(const Tiles& tiles, int tile) {
  return tile % tiles.columns * kColumns;
}

__device__ __forceinline__ void copy_tiles(const Maps& maps, const Tiles& tiles, Shared& shared) {
  Ring ring;
  for (int tile = blockIdx.x; tile < tiles.count; tile += gridDim.x) {
    const int row = row_of(tiles, tile), column = column_of(tiles, tile);
    for (int step = 0; step < tiles.steps; ++step, ring.next()) {
      wait(&shared.empty[ring.stage], ring.parity ^ 1);
      Stage& stage = shared.stages[ring.stage];
      std::uint64_t* full = &shared.full[ring.stage];
      arrive_expecting(full, sizeof(Stage));
      for (int i = 0; i < kRows / kBox; ++i)
        copy_box(stage.left[i], maps.left, row + i * kBox, step * kInner, full);
      for (int i = 0; i < kColumns / kBox; ++i)
        copy_box(stage.right[i], maps.right, column + i * kBox, step * kInner, full);
    }
  }
}

// Hands a tile of the result out, part by part, by way of shared memory: whole lines leave it. With
// kAdd the parts come from there first, the first of them while the tile is multiplied.
template <bool kAdd> class Puts {
public:
  __device__ __forceinline__ Puts(const CUtensorMap& out, Shared& shared, int group)
      : out_(out), parts_(shared.parts[group]), ready_(shared.ready[group]), named_(3 + group) {}

  __device__ __forceinline__ void begin(int row, int column) {
    row_ = row, column_ = column;
    if (!kAdd || thread() != 0) return;
    wait_reads_of_shared<0>();
#pragma unroll
    for (int i = 0; i < kAhead; ++i) load(i);
  }

  // The sums of the tile's upper (0) or lower (1) 64 rows.
  template <int kHalf> __device__ __forceinline__ void half(const float (&d)[96]) {
    const int lane = thread() % 32, first = thread() / 32 * 16 + lane / 4;
#pragma unroll
    for (int i = kHalf * kPartsOfHalf; i < (kHalf + 1) * kPartsOfHalf; ++i) {
      const int buffer = i % kBuffers;
      if constexpr (kAdd) {
        wait(&ready_[buffer], parity_[buffer]);
        parity_[buffer] ^= 1;
      } else {
        if (thread() == 0) wait_reads_of_shared<kBuffers - 1>();
        wait_named(named_, kGroup);
      }
      Part& part = parts_[buffer];
#pragma unroll
      for (int j = 0; j < kOutBox / 8; ++j) {
        const float* sum = d + (i % kPartsOfHalf * (kOutBox / 8) + j) * 4;
        // The map's swizzle: the 16 bytes of a line change places with the line's number.
        const int at = ((j * 2 + lane % 4 / 2) ^ (first % 8)) * 4 + lane % 2 * 2;
        put(&part[first][at], sum[0], sum[1]);
        put(&part[first + 8][at], sum[2], sum[3]);
      }
      show_copies();
      wait_named(named_, kGroup);
      if (thread() != 0) continue;
      put_box(out_, column(i), row(i), part);
      end_puts();
      if (!kAdd || i + kAhead >= 2 * kPartsOfHalf) continue;
      wait_reads_of_shared<1>();
      load(i + kAhead);
    }
  }

private:
  static constexpr int kPartsOfHalf = kColumns / kOutBox, kAhead = kBuffers - 1;

  __device__ __forceinline__ static int thread() {
    return threadIdx.x % kGroup;
  }
  __device__ __forceinline__ int row(int part) const {
    return row_ + part / kPartsOfHalf * kOutRows;
  }
  __device__ __forceinline__ int column(int part) const {
    return column_ + part % kPartsOfHalf * kOutBox;
  }
  __device__ __forceinline__ void load(int part) {
    const int buffer = part % kBuffers;
    arrive_expecting(&ready_[buffer], sizeof(Part));
    copy_box(parts_[buffer], out_, column(part), row(part), &ready_[buffer]);
  }
  __device__ __forceinline__ static void put(float* to, float x, float y) {
    float2* const pair = reinterpret_cast<float2*>(to);
    *pair = kAdd ? make_float2(pair->x + x, pair->y + y) : make_float2(x, y);
  }

  const CUtensorMap& out_;
  Part* parts_;
  std::uint64_t* ready_;
  int named_, row_ = 0, column_ = 0;
  std::uint32_t parity_[kBuffers] = {};
};

template <bool kAdd>
__device__ __forceinline__ void
compute_tiles(const Maps& maps, const Tiles& tiles, Shared& shared, int group) {
  const int mine = 1 + group, others = 2 - group; // named barriers: whose turn it is to multiply
  const int stride = static_cast<int>(gridDim.x);
  Puts<kAdd> puts(maps.out, shared, group);
  Ring ring;
  if (group == 1) ring.skip(tiles.steps);
  for (int tile = blockIdx.x + group * stride; tile < tiles.count; tile += 2 * stride) {
    puts.begin(row_of(tiles, tile), column_of(tiles, tile));
    if (tile != static_cast<int>(blockIdx.x)) wait_named(mine, 2 * kGroup);
    float upper[96], lower[96];
    for (int step = 0; step < tiles.steps; ++step, ring.next()) {
      wait(&shared.full[ring.stage], ring.parity);
      const Stage& stage = shared.stages[ring.stage];
      const std::uint64_t a = operand(stage.left[0]), b = operand(stage.left[1]),
                          right = operand(stage.right[0]);
      begin_products();
#pragma unroll
      for (int k = 0; k < kInner / 16; ++k) {
        multiply_64_192(upper, a + k * kNext16, right + k * kNext16, step > 0 || k > 0);
        multiply_64_192(lower, b + k * kNext16, right + k * kNext16, step > 0 || k > 0);
      }
      end_products();
      if (step > 0) { // the products of the step before are over
        wait_products<1>();
        if (threadIdx.x % kGroup == 0)
          arrive(&shared.empty[ring.stage == 0 ? kStages - 1 : ring.stage - 1]);
      }
    }
    if (tile + stride < tiles.count) arrive_named(others, 2 * kGroup);
    wait_products<0>();
    if (threadIdx.x % kGroup == 0)
      arrive(&shared.empty[ring.stage == 0 ? kStages - 1 : ring.stage - 1]);
    ring.skip(tiles.steps);
    puts.template half<0>(upper);
    puts.template half<1>(lower);
  }
}

template <bool kAdd>
__global__ void __launch_bounds__(3 * kGroup, 1)
    sum_product_kernel(__grid_constant__ const Maps maps, Tiles tiles) {
  extern __shared__ std::uint8_t raw[];
  Shared& shared =
      *reinterpret_cast<Shared*>((reinterpret_cast<std::uintptr_t>(raw) + 1023) / 1024 * 1024);
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i)
      begin_barrier(&shared.full[i], 1), begin_barrier(&shared.empty[i], 1);
    for (int i = 0; i < kBuffers; ++i)
      begin_barrier(&shared.ready[0][i], 1), begin_barrier(&shared.ready[1][i], 1);
    show_barriers();
    show_copies();
  }
  __syncthreads();
  const int group = static_cast<int>(threadIdx.x) / kGroup;
  if (group == 2) {
    leave_registers<24>();
    if (threadIdx.x == 2 * kGroup) copy_tiles(maps, tiles, shared);
  } else {
    take_registers<240>();
    compute_tiles<kAdd>(maps, tiles, shared, group);
    if (threadIdx.x % kGroup == 0) wait_reads_of_shared<0>(); // or the block would end before
  }
}

} // namespace assay::sum_product
