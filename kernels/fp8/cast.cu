#include "kernels/fp8/cast.h"

#include "kernels/fp8/cast.cuh"
#include "kernels/fp8/history.cuh"
#include "kernels/fp8/norms.cuh"
#include "kernels/fp8/swiglu.cuh"

#include <algorithm>

namespace assay {

static_assert(kFp8Tile == fp8::kTile);

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

dim3 tiles_of(std::int64_t rows, std::int64_t columns) {
  const auto tiles = [](std::int64_t size) {
    return static_cast<unsigned>((size + fp8::kTile - 1) / fp8::kTile);
  };
  return dim3(tiles(columns), tiles(rows));
}

template <bool kWords, bool kDelayed, class T>
void launch_format(const Fp8Cast& cast, cudaStream_t stream) {
  const dim3 grid = tiles_of(cast.padded_rows, cast.padded_columns);
  if (cast.format == Fp8Format::E4M3)
    fp8::cast_kernel<kWords, kDelayed, T, Fp8Format::E4M3>
        <<<grid, fp8::kThreads, 0, stream>>>(cast);
  else
    fp8::cast_kernel<kWords, kDelayed, T, Fp8Format::E5M2>
        <<<grid, fp8::kThreads, 0, stream>>>(cast);
}

template <bool kWords, class T> void launch(const Fp8Cast& cast, cudaStream_t stream) {
  if (cast.delayed != nullptr) return launch_format<kWords, true, T>(cast, stream);
  if (!cast.known) launch_amax<kWords, T>(cast, stream);
  launch_format<kWords, false, T>(cast, stream);
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

void launch_fp8_casts(const Fp8Cast* casts,
                      const Fp8Tile* tiles,
                      unsigned tile_count,
                      cudaStream_t stream) {
  fp8::amax_many_kernel<<<tile_count, fp8::kThreads, 0, stream>>>(casts, tiles);
  fp8::cast_many_kernel<<<tile_count, fp8::kThreads, 0, stream>>>(casts, tiles);
}

void launch_fp8_swiglu(const Fp8SwiGlu& p, cudaStream_t stream) {
  const dim3 grid = tiles_of(p.to.padded_rows, p.hidden);
  if (p.dy == nullptr)
    fp8::swiglu_cast<<<grid, fp8::kThreads, 0, stream>>>(p);
  else
    fp8::swiglu_backward_cast<<<grid, fp8::kThreads, 0, stream>>>(p);
}

template <class Stream>
void launch_fp8_add_norm(const rowwise::AddNorm<Stream>& p,
                         const Fp8Written& to,
                         cudaStream_t stream) {
  const auto blocks =
      static_cast<unsigned>((to.padded_rows + fp8::kBlockRows - 1) / fp8::kBlockRows);
  simt::with_words(p.width, [&](auto words, auto whole) {
    fp8::add_norm_cast<Stream, decltype(words)::value, decltype(whole)::value>
        <<<blocks, fp8::kThreads, 0, stream>>>(p, to);
  });
}
template void launch_fp8_add_norm(const rowwise::AddNorm<float>&, const Fp8Written&, cudaStream_t);
template void launch_fp8_add_norm(const rowwise::AddNorm<bf16>&, const Fp8Written&, cudaStream_t);

void launch_fp8_gated_norm(const rowwise::GatedNorm& p, const Fp8Written& to, cudaStream_t stream) {
  const dim3 grid = tiles_of(to.padded_rows, static_cast<std::int64_t>(p.heads) * p.head);
  if (p.head == 32) fp8::gated_norm_cast<32><<<grid, fp8::kThreads, 0, stream>>>(p, to);
  if (p.head == 64) fp8::gated_norm_cast<64><<<grid, fp8::kThreads, 0, stream>>>(p, to);
  if (p.head == 128) fp8::gated_norm_cast<128><<<grid, fp8::kThreads, 0, stream>>>(p, to);
}

void launch_fp8_roll(const Fp8History& p, cudaStream_t stream) {
  fp8::roll_history<<<static_cast<unsigned>(p.count), fp8::kThreads, 0, stream>>>(p);
}

} // namespace assay
