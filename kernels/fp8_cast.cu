#include "kernels/fp8_cast.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <algorithm>

namespace assay {

namespace {

constexpr unsigned kThreads = 256;
constexpr std::int64_t kMaxBlocks = 2048;
constexpr int kTile = 64; // rows and columns of a block's tile
constexpr float kLeast = 1e-12F;

__device__ float value_of(float x) {
  return x;
}
__device__ float value_of(__nv_bfloat16 x) {
  return __bfloat162float(x);
}
__device__ float value_of(__half x) {
  return __half2float(x);
}

// Bits of non-negative floats grow with their values, and a NaN's are above infinity's.
template <class T> __global__ void amax_kernel(const T* x, std::int64_t count, float* amax) {
  int largest = 0;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += stride)
    largest = max(largest, __float_as_int(fabsf(value_of(x[i]))));
  largest = __reduce_max_sync(0xFFFFFFFFU, largest);
  if (threadIdx.x % 32 == 0) atomicMax(reinterpret_cast<int*>(amax), largest);
}

// One tile: thread (i, j) reads 4 columns of 4 rows, and writes 4 bytes at a time in both orders.
template <class T, __nv_fp8_interpretation_t kFormat>
__global__ void cast_kernel(Fp8Cast cast, float largest) {
  __shared__ unsigned char tile[kTile][kTile + 4];
  const T* x = static_cast<const T*>(cast.x);
  const float amax = *cast.amax;
  const float bounded = amax < kLeast ? kLeast : amax; // keeps a NaN
  const float scale = largest / bounded;
  const std::int64_t row0 = static_cast<std::int64_t>(blockIdx.y) * kTile;
  const std::int64_t column0 = static_cast<std::int64_t>(blockIdx.x) * kTile;
  if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0 && threadIdx.y == 0)
    *cast.inverse_scale = bounded / largest;
  for (int r = threadIdx.y; r < kTile; r += blockDim.y)
    for (int c = threadIdx.x * 4; c < kTile; c += blockDim.x * 4)
      for (int k = 0; k < 4; ++k) {
        const std::int64_t row = row0 + r, column = column0 + c + k;
        const bool inside = row < cast.rows && column < cast.columns;
        const float scaled = inside ? value_of(x[row * cast.columns + column]) * scale : 0.0F;
        tile[r][c + k] = __nv_cvt_float_to_fp8(scaled, __NV_SATFINITE, kFormat);
      }
  __syncthreads();
  auto* by_rows = static_cast<unsigned char*>(cast.by_rows);
  auto* by_columns = static_cast<unsigned char*>(cast.by_columns);
  // Padded sizes are multiples of 16, so 4 bytes are inside or outside together.
  for (int r = threadIdx.y; r < kTile; r += blockDim.y)
    for (int c = threadIdx.x * 4; c < kTile; c += blockDim.x * 4) {
      if (by_rows != nullptr && row0 + r < cast.padded_rows && column0 + c < cast.padded_columns) {
        const uchar4 four = make_uchar4(tile[r][c], tile[r][c + 1], tile[r][c + 2], tile[r][c + 3]);
        *reinterpret_cast<uchar4*>(by_rows + (row0 + r) * cast.padded_columns + column0 + c) = four;
      }
      if (by_columns != nullptr && column0 + r < cast.padded_columns &&
          row0 + c < cast.padded_rows) {
        const uchar4 four = make_uchar4(tile[c][r], tile[c + 1][r], tile[c + 2][r], tile[c + 3][r]);
        *reinterpret_cast<uchar4*>(by_columns + (column0 + r) * cast.padded_rows + row0 + c) = four;
      }
    }
}

template <class T> void launch(const Fp8Cast& cast, cudaStream_t stream) {
  const std::int64_t count = cast.rows * cast.columns;
  const auto blocks = std::clamp<std::int64_t>((count + kThreads - 1) / kThreads, 1, kMaxBlocks);
  amax_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(
      static_cast<const T*>(cast.x), count, cast.amax);
  const auto tiles = [](std::int64_t size) {
    return static_cast<unsigned>((size + kTile - 1) / kTile);
  };
  const dim3 grid(tiles(cast.padded_columns), tiles(cast.padded_rows)), block(16, 16);
  if (cast.format == Fp8Format::E4M3)
    cast_kernel<T, __NV_E4M3><<<grid, block, 0, stream>>>(cast, 448.0F);
  else
    cast_kernel<T, __NV_E5M2><<<grid, block, 0, stream>>>(cast, 57344.0F);
}

} // namespace

void launch_fp8_cast(const Fp8Cast& cast, cudaStream_t stream) {
  switch (cast.source) {
  case Fp8Source::Float:
    return launch<float>(cast, stream);
  case Fp8Source::Bf16:
    return launch<__nv_bfloat16>(cast, stream);
  case Fp8Source::Half:
    return launch<__half>(cast, stream);
  }
}

} // namespace assay
