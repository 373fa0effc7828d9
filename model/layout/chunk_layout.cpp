#include "model/layout/chunk_layout.h"

#include <algorithm>

#include "core/result.h"
#include "model/layout/positions.h"

namespace assay {

namespace {

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

// Longest first.
std::vector<Range> sorted(std::vector<Range> ranges) {
  std::stable_sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) {
    return a.length > b.length;
  });
  return ranges;
}

// The chunks, segment after segment.
void fill_spans(ChunkLayout& layout, const std::vector<Range>& ranges) {
  std::vector<std::int32_t> spans, first{0};
  for (const Range& range : ranges) {
    for (std::int64_t at = 0; at < range.length; at += layout.chunk) {
      spans.push_back(static_cast<std::int32_t>(range.begin + at));
      spans.push_back(static_cast<std::int32_t>(std::min(layout.chunk, range.length - at)));
    }
    first.push_back(static_cast<std::int32_t>(spans.size() / 2));
  }
  layout.spans = at::tensor(spans, at::TensorOptions().dtype(at::kInt)).view({-1, 2});
  layout.segment_chunks = at::tensor(first, at::TensorOptions().dtype(at::kInt));
}

void fill_chunks(ChunkLayout& layout, const std::vector<Range>& ranges) {
  const std::int64_t chunk = layout.chunk, heads = layout.heads;
  std::vector<std::int64_t> gather, scatter(static_cast<std::size_t>(layout.tokens * heads));
  std::vector<std::uint8_t> dead;
  bool any_dead = false;
  for (std::int64_t first = 0; first < ranges.front().length; first += chunk) {
    std::int64_t in_step = 0;
    for (const Range& range : ranges) {
      if (range.length <= first) break;
      ++in_step;
      for (std::int64_t h = 0; h < heads; ++h) {
        for (std::int64_t c = 0; c < chunk; ++c) {
          const bool alive = first + c < range.length;
          const std::int64_t row = (range.begin + first + (alive ? c : 0)) * heads + h;
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
                      .view({layout.chunks * heads, chunk, 1});
  layout.above = at::ones({chunk, chunk}, at::TensorOptions().dtype(at::kBool)).triu(1);
}

at::Tensor make_taps(const at::Tensor& position, std::int64_t kernel) {
  std::vector<at::Tensor> taps;
  for (std::int64_t j = 1; j < kernel; ++j)
    taps.push_back(position.ge(j).to(at::kFloat).unsqueeze(1));
  return taps.empty() ? at::empty({0, position.size(0), 1}) : at::stack(taps);
}

} // namespace

ChunkLayout make_chunk_layout(const std::vector<std::int32_t>& cu,
                              const TrainConfig& config,
                              at::Device device) {
  ChunkLayout layout;
  layout.tokens = cu.back();
  layout.heads = config.heads;
  layout.chunk = config.chunk_size;
  const std::vector<Range> ranges = sorted(ranges_of(cu));
  fill_chunks(layout, ranges);
  fill_spans(layout, ranges);
  layout.position = segment_positions(cu).to(at::kInt);
  layout.taps = make_taps(layout.position, config.conv_kernel);
  for (at::Tensor* tensor : {&layout.gather,
                             &layout.scatter,
                             &layout.dead,
                             &layout.spans,
                             &layout.segment_chunks,
                             &layout.above,
                             &layout.position,
                             &layout.taps})
    if (tensor->defined()) *tensor = tensor->to(device);
  return layout;
}

} // namespace assay
