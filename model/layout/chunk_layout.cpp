#include "model/layout/chunk_layout.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/result.h"
#include "model/config/family_config.h"
#include "model/layout/positions.h"
#include "model/layout/upload.h"

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

// Longest first.
std::vector<Range> sorted(std::vector<Range> ranges) {
  std::stable_sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) {
    return a.length > b.length;
  });
  return ranges;
}

// First token and tokens of the chunk of `range` that begins `at` tokens in it.
Range chunk_of(const Range& range, std::int64_t at, std::int64_t chunk) {
  return {range.begin + at, std::min(chunk, range.length - at)};
}

at::Tensor to_tensor(const std::vector<Range>& spans) { // int32 [N, 2]
  std::vector<std::int32_t> values;
  for (const Range& span : spans) {
    values.push_back(static_cast<std::int32_t>(span.begin));
    values.push_back(static_cast<std::int32_t>(span.length));
  }
  return at::tensor(values, at::TensorOptions().dtype(at::kInt)).view({-1, 2});
}

at::Tensor to_tensor(const std::vector<std::int32_t>& values) {
  return at::tensor(values, at::TensorOptions().dtype(at::kInt));
}

// The chunks, segment after segment, and step after step.
struct Chunks {
  std::vector<Range> spans, stepwise;
  std::vector<std::int32_t> first{0}; // [segments+1] into `spans`
  std::vector<std::int32_t> slot;     // of `spans`: its place in `stepwise`
  std::vector<std::int64_t> step_chunks;
  bool any_dead = false;
};

Chunks chunks_of(const std::vector<std::int32_t>& cu, std::int64_t chunk) {
  Chunks all;
  const std::vector<Range> ranges = ranges_of(cu), longest_first = sorted(ranges);
  for (const Range& range : ranges) {
    for (std::int64_t at = 0; at < range.length; at += chunk)
      all.spans.push_back(chunk_of(range, at, chunk));
    all.first.push_back(static_cast<std::int32_t>(all.spans.size()));
  }
  for (std::int64_t at = 0; at < longest_first.front().length; at += chunk) {
    const std::size_t before = all.stepwise.size();
    for (const Range& range : longest_first) {
      if (range.length <= at) break;
      all.stepwise.push_back(chunk_of(range, at, chunk));
      all.any_dead |= all.stepwise.back().length < chunk;
    }
    all.step_chunks.push_back(static_cast<std::int64_t>(all.stepwise.size() - before));
  }
  std::map<std::int64_t, std::int32_t> slot_at; // by first token, as `spans` are ordered
  for (const Range& span : all.stepwise)
    slot_at.emplace(span.begin, static_cast<std::int32_t>(slot_at.size()));
  for (const auto& [begin, slot] : slot_at) all.slot.push_back(slot);
  return all;
}

// What the operator forms read, computed on the device: the tables are long and the chunks few.
void fill_slots(ChunkLayout& layout,
                const at::Tensor& stepwise,
                const at::Tensor& slot,
                bool any_dead) {
  const at::TensorOptions index = stepwise.options().dtype(at::kLong);
  const std::int64_t chunk = layout.chunk, heads = layout.heads;
  const at::Tensor head = at::arange(heads, index), place = at::arange(chunk, index).unsqueeze(0);
  const at::Tensor begin = stepwise.select(1, 0).to(at::kLong).unsqueeze(1),
                   alive = place.lt(stepwise.select(1, 1).unsqueeze(1)); // [N, C]
  const at::Tensor token = begin + place * alive;
  layout.gather = (token.unsqueeze(1) * heads + head.view({1, heads, 1})).flatten();
  if (any_dead)
    layout.dead = alive.logical_not()
                      .unsqueeze(1)
                      .expand({-1, heads, -1})
                      .reshape({layout.chunks * heads, chunk, 1});
  const at::Tensor all = at::arange(layout.tokens, stepwise.options()),
                   first = layout.spans.select(1, 0).contiguous();
  const at::Tensor span = at::searchsorted(first, all, /*out_int32=*/true, /*right=*/true) - 1;
  const at::Tensor row = slot.index_select(0, span).to(at::kLong).unsqueeze(1) * heads + head;
  layout.scatter = (row * chunk + (all - first.index_select(0, span)).unsqueeze(1)).flatten();
}

at::Tensor make_taps(const at::Tensor& position, std::int64_t kernel) {
  std::vector<at::Tensor> taps;
  for (std::int64_t j = 1; j < kernel; ++j)
    taps.push_back(position.ge(j).to(at::kFloat).unsqueeze(1));
  const at::TensorOptions options = position.options().dtype(at::kFloat);
  return taps.empty() ? at::empty({0, position.size(0), 1}, options) : at::stack(taps);
}

} // namespace

ChunkLayout make_chunk_layout(const Segments& segments, const TrainConfig& config) {
  const at::Device device = segments.cu.device();
  const auto on_device = [&](const auto& values) {
    return upload(to_tensor(values), device, config.batch_copy);
  };
  ChunkLayout layout;
  layout.tokens = segments.cu_host.back();
  layout.heads = config.heads;
  layout.chunk = config.chunk_size;
  Chunks chunks = chunks_of(segments.cu_host, layout.chunk);
  layout.chunks = static_cast<std::int64_t>(chunks.spans.size());
  layout.step_chunks = std::move(chunks.step_chunks);
  layout.spans = on_device(chunks.spans);
  layout.segment_chunks = on_device(chunks.first);
  fill_slots(layout, on_device(chunks.stepwise), on_device(chunks.slot), chunks.any_dead);
  layout.above =
      at::ones({layout.chunk, layout.chunk}, segments.cu.options().dtype(at::kBool)).triu(1);
  layout.position = segment_positions(segments).to(at::kInt);
  layout.taps = make_taps(layout.position, config.conv_kernel);
  layout.always_taps = !layouts_of(config).delta_rule;
  return layout;
}

} // namespace assay
