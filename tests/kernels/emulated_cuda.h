// Runs CUDA kernels on the CPU, one thread block at a time, to check their arithmetic and their
// synchronization without a GPU: every thread is a fiber, a warp's instructions (mma, ldmatrix,
// shuffles) meet at a rendezvous, asynchronous copies arrive only when waited for, and fibers run
// in a random order, so that a missing barrier shows as a result that changes with the seed.
// Include it before the kernels' headers.
#pragma once

#define ASSAY_EMULATED_CUDA

// The kernels are written for nvcc, and fibers save registers as setjmp does.
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wclobbered"
#pragma GCC diagnostic ignored "-Wshadow"

#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __restrict__
#define __launch_bounds__(...)
#define __shared__ static // blocks run one after the other

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};
struct float2 {
  float x, y;
};
struct float4 {
  float x, y, z, w;
};
struct int2 {
  int x, y;
};
struct uint2 {
  unsigned x, y;
};
struct uint4 {
  unsigned x, y, z, w;
};
inline float2 make_float2(float x, float y) {
  return {x, y};
}
inline int2 make_int2(int x, int y) {
  return {x, y};
}
inline uint2 make_uint2(unsigned a, unsigned b) {
  return {a, b};
}
inline float4 make_float4(float a, float b, float c, float d) {
  return {a, b, c, d};
}
inline uint4 make_uint4(unsigned a, unsigned b, unsigned c, unsigned d) {
  return {a, b, c, d};
}

namespace emu {

struct Rendezvous {
  int size = 0, arrived = 0;
  unsigned generation = 0;
  std::vector<char> slots[2];
};
struct Copy {
  void* to;
  std::size_t bytes;
  char data[16];
};
struct Fiber {
  ucontext_t context;
  std::unique_ptr<char[]> stack;
  bool done = false;
  unsigned tid = 0;
  std::vector<std::vector<Copy>> groups;
  std::vector<Copy> open;
};
struct Block {
  std::vector<Fiber> fibers;
  Rendezvous all, second, pairs[2];
  std::vector<Rendezvous> warps;
  std::vector<char> shared;
};

inline Block* block = nullptr;
inline Fiber* self = nullptr;
inline ucontext_t scheduler;
inline std::function<void()>* body = nullptr;
inline dim3 block_index, block_size, grid_size;
inline std::mt19937 order(1);

inline void pause() {
  swapcontext(&self->context, &scheduler);
}

inline void meet(Rendezvous& r, int index, const void* in, std::size_t bytes, void* everything) {
  const unsigned generation = r.generation;
  std::vector<char>& slots = r.slots[generation & 1];
  if (slots.size() < bytes * std::size_t(r.size)) slots.resize(bytes * std::size_t(r.size));
  if (bytes) std::memcpy(slots.data() + bytes * std::size_t(index), in, bytes);
  if (++r.arrived == r.size) {
    r.arrived = 0;
    ++r.generation;
  } else {
    while (r.generation == generation) pause();
  }
  if (bytes) std::memcpy(everything, slots.data(), bytes * std::size_t(r.size));
}

template <class T> void warp_gather(const T& mine, T (&all)[32]) {
  meet(block->warps[self->tid / 32], int(self->tid % 32), &mine, sizeof(T), all);
}

inline void entry() {
  (*body)();
  self->done = true;
  swapcontext(&self->context, &scheduler);
}

inline void
launch(dim3 grid, unsigned threads, std::size_t shared_bytes, std::function<void()> kernel) {
  grid_size = grid, block_size = dim3(threads);
  body = &kernel;
  Block b;
  b.fibers.resize(threads);
  for (Fiber& f : b.fibers) f.stack.reset(new char[256 * 1024]);
  for (unsigned y = 0; y < grid.y; ++y)
    for (unsigned x = 0; x < grid.x; ++x) {
      block_index = dim3(x, y);
      b.shared.assign(shared_bytes + 128, char(0x7f)); // NaN if read before written
      b.all = {}, b.all.size = int(threads), b.second = {};
      b.pairs[0] = b.pairs[1] = {};
      b.warps.assign(threads / 32, Rendezvous{});
      for (Rendezvous& w : b.warps) w.size = 32;
      block = &b;
      for (unsigned t = 0; t < threads; ++t) {
        Fiber& f = b.fibers[t];
        f.done = false, f.tid = t, f.groups.clear(), f.open.clear();
        getcontext(&f.context);
        f.context.uc_stack.ss_sp = f.stack.get();
        f.context.uc_stack.ss_size = 256 * 1024;
        f.context.uc_link = &scheduler;
        makecontext(&f.context, entry, 0);
      }
      std::vector<unsigned> warps(threads / 32);
      for (unsigned w = 0; w < warps.size(); ++w) warps[w] = w;
      for (bool any = true; any;) {
        any = false;
        std::shuffle(warps.begin(), warps.end(), order);
        for (unsigned w : warps) {
          // A warp runs ahead for a random number of rounds before the others go on.
          const unsigned rounds = 1 + order() % 24;
          for (unsigned r = 0; r < rounds; ++r)
            for (unsigned lane = 0; lane < 32; ++lane) {
              Fiber& f = b.fibers[w * 32 + lane];
              if (f.done) continue;
              any = true;
              self = &f;
              swapcontext(&scheduler, &f.context);
            }
        }
      }
    }
  block = nullptr;
}

inline char* shared_memory() {
  const auto p = reinterpret_cast<std::uintptr_t>(block->shared.data());
  return reinterpret_cast<char*>((p + 127) & ~std::uintptr_t(127));
}

} // namespace emu

struct EmuIndex {
  struct X {
    operator unsigned() const { return emu::self->tid; }
  } x;
};
inline EmuIndex threadIdx;
struct EmuBlock {
  struct X {
    operator unsigned() const { return emu::block_index.x; }
  } x;
  struct Y {
    operator unsigned() const { return emu::block_index.y; }
  } y;
};
inline EmuBlock blockIdx;

inline unsigned __byte_perm(unsigned a, unsigned b, unsigned pick) {
  const unsigned long long all = a | (unsigned long long)b << 32;
  unsigned bytes = 0;
  for (unsigned i = 0; i < 4; ++i)
    bytes |= unsigned(all >> (8 * (pick >> (4 * i) & 7)) & 0xff) << (8 * i);
  return bytes;
}
inline int atomicMax(int* place, int value) { // fibers are not preempted
  const int before = *place;
  *place = std::max(before, value);
  return before;
}

inline int __popc(unsigned x) {
  return __builtin_popcount(x);
}
template <class T> T min(T a, T b) {
  return std::min(a, b);
}
template <class T> T max(T a, T b) {
  return std::max(a, b);
}

inline void __syncthreads() {
  emu::meet(emu::block->all, int(emu::self->tid), nullptr, 0, nullptr);
}
inline void __syncwarp(unsigned = ~0u) {
  emu::meet(emu::block->warps[emu::self->tid / 32], int(emu::self->tid % 32), nullptr, 0, nullptr);
}
template <class T> T __shfl_up_sync(unsigned, T value, unsigned delta) {
  T all[32];
  emu::warp_gather(value, all);
  const unsigned lane = emu::self->tid % 32;
  return lane >= delta ? all[lane - delta] : value;
}
template <class T> T __shfl_xor_sync(unsigned, T value, unsigned mask) {
  T all[32];
  emu::warp_gather(value, all);
  return all[(emu::self->tid % 32) ^ mask];
}
template <class T> T __shfl_sync(unsigned, T value, unsigned lane) {
  T all[32];
  emu::warp_gather(value, all);
  return all[lane & 31];
}
inline unsigned __ballot_sync(unsigned, bool value) {
  bool all[32];
  emu::warp_gather(value, all);
  unsigned bits = 0;
  for (unsigned i = 0; i < 32; ++i) bits |= unsigned(all[i]) << i;
  return bits;
}
