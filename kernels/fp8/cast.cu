#include "kernels/fp8/cast.h"

#include "kernels/fp8/cast.cuh"

#include <algorithm>

namespace assay {

namespace {

constexpr std::int64_t kMostBlocks = 1056; // eight an SM of an H200

template <bool kWords, class T> void launch_amax(const Fp8Cast& cast, cudaStream_t stream) {
  fp8::Amax amax{cast.x, cast.rows, cast.columns, cast.stride, cast.amax};
  if (cast.stride == cast.columns) amax.rows = 1, amax.columns = cast.rows * cast.columns;
  const std::int64_t words = amax.rows * ((amax.columns + fp8::kWord - 1) / fp8::kWord),
                     turn = std::int64_t{fp8::kThreads} * fp8::kReads;
  const auto blocks = std::clamp<std::int64_t>((words + turn - 1) / turn, 1, kMostBlocks);
  fp8::amax_kernel<kWords, T><<<static_cast<unsigned>(blocks), fp8::kThreads, 0, stream>>>(amax);
}

template <bool kWords, class T> void launch(const Fp8Cast& cast, cudaStream_t stream) {
  if (!cast.known) launch_amax<kWords, T>(cast, stream);
  const auto tiles = [](std::int64_t size) {
    return static_cast<unsigned>((size + fp8::kTile - 1) / fp8::kTile);
  };
  const dim3 grid(tiles(cast.padded_columns), tiles(cast.padded_rows));
  if (cast.format == Fp8Format::E4M3)
    fp8::cast_kernel<kWords, T, Fp8Format::E4M3><<<grid, fp8::kThreads, 0, stream>>>(cast);
  else
    fp8::cast_kernel<kWords, T, Fp8Format::E5M2><<<grid, fp8::kThreads, 0, stream>>>(cast);
}

template <class T> void launch_source(const Fp8Cast& cast, cudaStream_t stream) {
  if (reinterpret_cast<std::uintptr_t>(cast.x) % 16 == 0 && cast.stride % fp8::kWord == 0)
    launch<true, T>(cast, stream);
  else
    launch<false, T>(cast, stream);
}

} // namespace

void launch_fp8_cast(const Fp8Cast& cast, cudaStream_t stream) {
  switch (cast.source) {
  case Fp8Source::Float:
    return launch_source<float>(cast, stream);
  case Fp8Source::Bf16:
    return launch_source<bf16>(cast, stream);
  }
}

} // namespace assay
