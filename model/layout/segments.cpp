#include "model/layout/segments.h"

#include <c10/cuda/CUDAFunctions.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "core/result.h"
#include "model/layout/nsa_layout.h"

namespace assay {

namespace {

constexpr double kRopeBase = 10000.0; // RoFormer, arXiv 2104.09864, section 3.2.2

struct Range {
  std::int64_t begin, length;
};

std::vector<Range> ranges_of(const std::vector<std::int32_t>& cu) {
  if (cu.size() < 2 || cu.front() != 0)
    internal_error("segments need cumulative ends that begin at 0");
  std::vector<Range> ranges;
  for (std::size_t i = 1; i < cu.size(); ++i) {
    if (cu[i] <= cu[i - 1])
      internal_error("segment {} of a batch is empty or runs backwards", i - 1);
    ranges.push_back({cu[i - 1], cu[i] - cu[i - 1]});
  }
  return ranges;
}

at::Tensor to_tensor(const std::vector<std::int64_t>& values) {
  return at::tensor(values, at::TensorOptions().dtype(at::kLong));
}

void fill_chunks(ChunkLayout& layout, std::vector<Range> ranges) {
  std::stable_sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) {
    return a.length > b.length;
  });
  const std::int64_t C = layout.chunk, H = layout.heads;
  std::vector<std::int64_t> gather, scatter(static_cast<std::size_t>(layout.tokens * H));
  std::vector<std::uint8_t> dead;
  bool any_dead = false;
  for (std::int64_t first = 0; first < ranges.front().length; first += C) {
    std::int64_t in_step = 0;
    for (const Range& range : ranges) {
      if (range.length <= first) break;
      ++in_step;
      for (std::int64_t h = 0; h < H; ++h) {
        for (std::int64_t c = 0; c < C; ++c) {
          const bool alive = first + c < range.length;
          const std::int64_t row = (range.begin + first + (alive ? c : 0)) * H + h;
          if (alive)
            scatter[static_cast<std::size_t>(row)] = static_cast<std::int64_t>(gather.size());
          gather.push_back(row);
          dead.push_back(alive ? 0 : 1);
          any_dead |= !alive;
        }
      }
    }
    layout.step_chunks.push_back(in_step);
    layout.chunks += in_step;
  }
  layout.gather = to_tensor(gather);
  layout.scatter = to_tensor(scatter);
  if (any_dead)
    layout.dead = at::tensor(dead, at::TensorOptions().dtype(at::kByte))
                      .to(at::kBool)
                      .view({layout.chunks * H, C, 1});
  layout.above = at::ones({C, C}, at::TensorOptions().dtype(at::kBool)).triu(1);
}

void fill_positions(ChunkLayout& layout,
                    const std::vector<Range>& ranges,
                    const TrainConfig& config) {
  std::vector<std::int64_t> position;
  for (const Range& range : ranges)
    for (std::int64_t i = 0; i < range.length; ++i) position.push_back(i);
  const at::Tensor positions = to_tensor(position);
  std::vector<at::Tensor> taps;
  for (std::int64_t j = 1; j < config.conv_kernel; ++j)
    taps.push_back(positions.ge(j).to(at::kFloat).unsqueeze(1));
  layout.taps = taps.empty() ? at::empty({0, layout.tokens, 1}) : at::stack(taps);
  const std::int64_t pairs = config.rope_dim / 2;
  const at::Tensor index = at::arange(pairs, at::TensorOptions().dtype(at::kDouble));
  const at::Tensor frequency = at::exp(index * (-std::log(kRopeBase) / static_cast<double>(pairs)));
  const at::Tensor angle = positions.to(at::kDouble).unsqueeze(1) * frequency.unsqueeze(0);
  layout.rope_cos = angle.cos().to(at::kFloat).unsqueeze(1);
  layout.rope_sin = angle.sin().to(at::kFloat).unsqueeze(1);
}

// A dense mask exists only where the segments are the rows of a rectangle; longer rows than this
// get it per call.
void fill_mask(ChunkLayout& layout, const std::vector<Range>& ranges) {
  const std::int64_t length = ranges.front().length;
  if (std::any_of(ranges.begin(), ranges.end(), [&](const Range& r) { return r.length != length; }))
    return;
  layout.causal_mask =
      at::full({length, length}, -std::numeric_limits<float>::infinity(), at::kFloat).triu_(1);
}

void prepare_segments(Segments& segments, const TrainConfig& config, at::Device device) {
  segments = segments_of(std::move(segments.cu_host), device);
  segments.chunks =
      std::make_shared<const ChunkLayout>(make_chunk_layout(segments.cu_host, config, device));
  if (config.family == "nsa" && config.nsa_attention == NsaAttention::Nsa)
    segments.sparse = std::make_shared<const NsaLayout>(make_nsa_layout(
        segments, nsa_shape(config), device.is_cuda() ? kNsaQueryChunkCuda : kNsaQueryChunk));
}

} // namespace

Segments segments_of(std::vector<std::int32_t> cu_host, at::Device device) {
  Segments segments;
  segments.cu = at::tensor(cu_host, at::TensorOptions().dtype(at::kInt)).to(device);
  for (std::size_t i = 1; i < cu_host.size(); ++i)
    segments.max_len = std::max<std::int64_t>(segments.max_len, cu_host[i] - cu_host[i - 1]);
  segments.cu_host = std::move(cu_host);
  return segments;
}

at::Device torch_device(Device device) {
  if (device == Device::Cpu) return {at::kCPU};
  const bool any = c10::cuda::device_count() > 0; // without one the first use says what is wrong
  return {at::kCUDA, any ? c10::cuda::current_device() : c10::DeviceIndex{0}};
}

ChunkLayout make_chunk_layout(const std::vector<std::int32_t>& cu,
                              const TrainConfig& config,
                              at::Device device) {
  const std::vector<Range> ranges = ranges_of(cu);
  ChunkLayout layout;
  layout.tokens = cu.back();
  layout.heads = config.heads;
  layout.chunk = config.chunk_size;
  fill_chunks(layout, ranges);
  fill_positions(layout, ranges, config);
  fill_mask(layout, ranges);
  for (at::Tensor* tensor : {&layout.gather,
                             &layout.scatter,
                             &layout.dead,
                             &layout.above,
                             &layout.taps,
                             &layout.rope_cos,
                             &layout.rope_sin,
                             &layout.causal_mask})
    if (tensor->defined()) *tensor = tensor->to(device);
  return layout;
}

void prepare(Batch& batch, const TrainConfig& config) {
  const at::Device device = torch_device(config.device);
  if (batch.documents.cu_host.empty() || batch.documents.cu_host.back() != batch.tokens.numel())
    internal_error("a batch's documents must end at its last token");
  if (batch.rows.cu_host.empty()) {
    for (std::int64_t row = 0; row <= batch.tokens.size(0); ++row)
      batch.rows.cu_host.push_back(static_cast<std::int32_t>(row * batch.tokens.size(1)));
  }
  batch.tokens = batch.tokens.to(device);
  batch.targets = batch.targets.to(device);
  prepare_segments(batch.rows, config, device);
  prepare_segments(batch.documents, config, device);
}

Batch make_batch(at::Tensor tokens, at::Tensor targets, std::vector<std::int32_t> cu_documents) {
  Batch batch;
  const std::int64_t rows = tokens.size(0), length = tokens.size(1);
  for (std::int64_t row = 0; row <= rows; ++row) {
    batch.rows.cu_host.push_back(static_cast<std::int32_t>(row * length));
    cu_documents.push_back(batch.rows.cu_host.back());
  }
  std::sort(cu_documents.begin(), cu_documents.end());
  cu_documents.erase(std::unique(cu_documents.begin(), cu_documents.end()), cu_documents.end());
  batch.documents.cu_host = std::move(cu_documents);
  batch.tokens = std::move(tokens);
  batch.targets = std::move(targets);
  batch.bytes = rows * length;
  return batch;
}

} // namespace assay
