#include "model/nsa/nsa_ranges.h"

#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <vector>

#include "core/result.h"
#include "core/span.h"
#include "kernels/cuda_check.h"
#include "kernels/nsa/ranges.h"
#include "model/layout/parallel.h"

namespace assay {

namespace {

void check_selection(const at::Tensor& blocks,
                     std::int64_t block_size,
                     const at::Tensor& positions) {
  if (blocks.dim() != 4 || blocks.scalar_type() != at::kLong)
    internal_error("selected blocks must be int64 [B, S, G, n], got {} of {} dimensions",
                   c10::toString(blocks.scalar_type()),
                   blocks.dim());
  if (block_size < 1) internal_error("a selected block must hold a token, not {}", block_size);
  if (positions.defined() &&
      (positions.scalar_type() != at::kInt || positions.dim() != 2 ||
       positions.size(0) != blocks.size(0) || positions.size(1) != blocks.size(1) ||
       positions.device() != blocks.device()))
    internal_error("query positions must be int32 [B, S] on the device of the selected blocks");
}

at::Tensor empty_ranges(const at::Tensor& blocks) {
  return at::empty({blocks.size(0), blocks.size(1), blocks.size(2), blocks.size(3), 2},
                   blocks.options().dtype(at::kInt));
}

// The ranges of one query and group into `out` [ids.size(), 2]. Reorders `ids`.
void merge_row(std::vector<std::int64_t>& ids,
               std::int64_t block_size,
               std::int64_t position,
               std::int32_t* out) {
  std::fill(out, out + 2 * ids.size(), 0);
  std::sort(ids.begin(), ids.end());
  std::int32_t* end = nullptr; // of the run that may go on
  for (const std::int64_t id : ids) {
    if (id < 0 || id > position / block_size || position < 0) continue;
    const auto start = static_cast<std::int32_t>(id * block_size);
    if (end == nullptr || *end < start) {
      *out = start;
      end = out + 1;
      out += 2;
    }
    *end = static_cast<std::int32_t>(std::min((id + 1) * block_size, position + 1));
  }
}

void merge_rows_on_cpu(const at::Tensor& blocks,
                       std::int64_t block_size,
                       const at::Tensor& positions,
                       const at::Tensor& out) {
  const std::int64_t tokens = blocks.size(1), groups = blocks.size(2), n = blocks.size(3);
  const auto* ids = blocks.const_data_ptr<std::int64_t>();
  const auto* places = positions.defined() ? positions.const_data_ptr<std::int32_t>() : nullptr;
  auto* ranges = out.mutable_data_ptr<std::int32_t>();
  in_parallel(blocks.size(0) * tokens * groups, 64, [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::int64_t> row;
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t query = unit / groups;
      row.assign(ids + unit * n, ids + (unit + 1) * n);
      merge_row(row, block_size, places ? places[query] : query % tokens, ranges + unit * n * 2);
    }
  });
}

void launch(const at::Tensor& blocks,
            std::int64_t block_size,
            const at::Tensor& positions,
            const at::Tensor& out) {
  if (blocks.size(3) > kMaxSelectedBlocks)
    bad_input("{} selected blocks a query: the range kernel takes at most {}; choose fewer blocks "
              "or nsa_ranges = v2a",
              blocks.size(3),
              kMaxSelectedBlocks);
  const c10::cuda::CUDAGuard guard(blocks.device());
  launch_nsa_ranges({blocks.const_data_ptr<std::int64_t>(),
                     positions.defined() ? positions.const_data_ptr<std::int32_t>() : nullptr,
                     out.mutable_data_ptr<std::int32_t>(),
                     blocks.size(0),
                     blocks.size(1),
                     blocks.size(2),
                     static_cast<int>(blocks.size(3)),
                     static_cast<int>(block_size)},
                    c10::cuda::getCurrentCUDAStream().stream());
  ASSAY_CUDA(cudaGetLastError());
}

} // namespace

at::Tensor
ranges_looped(const at::Tensor& blocks, std::int64_t block_size, const at::Tensor& positions) {
  const Span span("nsa_ranges/v1");
  check_selection(blocks, block_size, positions);
  const at::Tensor places = positions.defined() ? positions.cpu().contiguous() : positions;
  const at::Tensor out = empty_ranges(blocks).cpu();
  auto* ranges = out.mutable_data_ptr<std::int32_t>();
  std::vector<std::int64_t> row(static_cast<std::size_t>(blocks.size(3)));
  for (std::int64_t b = 0; b < blocks.size(0); ++b)
    for (std::int64_t s = 0; s < blocks.size(1); ++s)
      for (std::int64_t g = 0; g < blocks.size(2); ++g) {
        const at::Tensor chosen = blocks.select(0, b).select(0, s).select(0, g);
        for (std::size_t i = 0; i < row.size(); ++i)
          row[i] = chosen.select(0, static_cast<std::int64_t>(i)).item<std::int64_t>();
        const std::int64_t position =
            places.defined() ? places.const_data_ptr<std::int32_t>()[b * blocks.size(1) + s] : s;
        merge_row(row, block_size, position, ranges);
        ranges += 2 * row.size();
      }
  return out.to(blocks.device());
}

at::Tensor
ranges_tensor(const at::Tensor& blocks, std::int64_t block_size, const at::Tensor& positions) {
  const Span span("nsa_ranges/v2a");
  check_selection(blocks, block_size, positions);
  const std::int64_t n = blocks.size(3);
  if (n == 0) return empty_ranges(blocks);
  constexpr std::int64_t kBeyond = std::int64_t{1} << 31; // after every block of an int32 position
  const at::Tensor limit =
      (positions.defined() ? positions.to(at::kLong)
                           : at::arange(blocks.size(1), blocks.options()).unsqueeze(0))
          .add(1)
          .unsqueeze(-1)
          .unsqueeze(-1); // [B or 1, S, 1, 1]
  // masked_fill, because at::where copies a scalar to the device and waits for it.
  const at::Tensor hidden = blocks.lt(0).logical_or_((blocks * block_size).ge(limit));
  const at::Tensor id = std::get<0>(blocks.masked_fill(hidden, kBeyond).sort(-1));
  const at::Tensor unused = id.ge(kBeyond);
  const at::Tensor before = at::constant_pad_nd(id.narrow(-1, 0, n - 1), {1, 0}, -2);
  const at::Tensor begins = (id - before).gt(1).logical_and_(unused.logical_not());
  // What is unused goes to slot n, which is cut off.
  const at::Tensor slot = (begins.cumsum(-1) - 1).masked_fill_(unused, n);
  const auto into_slots = [&](const at::Tensor& values) {
    at::Tensor slots = at::zeros({id.size(0), id.size(1), id.size(2), n + 1}, id.options());
    return slots.scatter_reduce_(-1, slot, values, "amax").narrow(-1, 0, n);
  };
  const at::Tensor start = into_slots((id * block_size).masked_fill_(begins.logical_not(), 0));
  const at::Tensor end = into_slots(at::minimum((id + 1) * block_size, limit));
  return at::stack({start, end}, -1).to(at::kInt);
}

at::Tensor
ranges_kernel(const at::Tensor& blocks, std::int64_t block_size, const at::Tensor& positions) {
  const Span span("nsa_ranges/v2b");
  check_selection(blocks, block_size, positions);
  const at::Tensor ids = blocks.contiguous();
  const at::Tensor places = positions.defined() ? positions.contiguous() : positions;
  at::Tensor out = empty_ranges(ids);
  if (blocks.is_cuda())
    launch(ids, block_size, places, out);
  else
    merge_rows_on_cpu(ids, block_size, places, out);
  return out;
}

} // namespace assay
