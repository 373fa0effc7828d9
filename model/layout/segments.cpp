#include "model/layout/segments.h"

#include <c10/cuda/CUDAFunctions.h>

#include <algorithm>
#include <utility>

#include "core/result.h"
#include "core/span.h"
#include "model/config/family_config.h"
#include "model/layout/chunk_layout.h"
#include "model/layout/nsa_layout.h"
#include "model/layout/positions.h"
#include "model/layout/upload.h"

namespace assay {

namespace {

const char* counter_of(BatchCopy copy) {
  switch (copy) {
  case BatchCopy::Pageable:
    return "data/copy_pageable";
  case BatchCopy::Pinned:
    return "data/copy_pinned";
  case BatchCopy::OwnStream:
    return "data/copy_own_stream";
  }
  return "";
}

void prepare_segments(Segments& segments,
                      const Layouts& layouts,
                      const TrainConfig& config,
                      at::Device device) {
  Segments made = segments_of(std::move(segments.cu_host), device, config.batch_copy);
  made.carry = std::move(segments.carry);
  made.first_position = segments.first_position;
  segments = std::move(made);
  if (layouts.chunks)
    segments.chunks = std::make_shared<const ChunkLayout>(make_chunk_layout(segments, config));
  if (layouts.rotary)
    segments.rotary = std::make_shared<const Rotary>(make_rotary(segments, config.rope_dim));
  if (layouts.positions) {
    const std::int64_t end = segments.first_position + segments.max_len;
    if (config.positions > 0 && end > config.positions)
      internal_error(
          "a segment ends at token {}, the table of positions has {} rows", end, config.positions);
    segments.positions = segment_positions(segments);
  }
  if (layouts.causal_mask) segments.causal_mask = make_causal_mask(segments.cu_host, device);
  if (layouts.blocks)
    segments.sparse = std::make_shared<const NsaLayout>(
        make_nsa_layout(segments,
                        *layouts.blocks,
                        device.is_cuda() ? kNsaQueryChunkCuda : kNsaQueryChunk,
                        config.batch_copy));
}

void check_ends(const std::vector<std::int32_t>& cu, std::int64_t tokens) {
  if (cu.size() < 2 || cu.front() != 0 || cu.back() != tokens)
    internal_error("segments need cumulative ends from 0 to the batch's last token");
  for (std::size_t i = 1; i < cu.size(); ++i)
    if (cu[i] <= cu[i - 1])
      internal_error("segment {} of a batch is empty or runs backwards", i - 1);
}

} // namespace

Segments segments_of(std::vector<std::int32_t> cu_host, at::Device device, BatchCopy copy) {
  Segments segments;
  segments.cu = upload(at::tensor(cu_host, at::TensorOptions().dtype(at::kInt)), device, copy);
  for (std::size_t i = 1; i < cu_host.size(); ++i)
    segments.max_len = std::max<std::int64_t>(segments.max_len, cu_host[i] - cu_host[i - 1]);
  segments.cu_host = std::move(cu_host);
  return segments;
}

at::Device torch_device(Device device) {
  if (device == Device::Cpu) return {at::kCPU};
  const bool any = c10::cuda::device_count() > 0; // without one the first use reports what is wrong
  return {at::kCUDA, any ? c10::cuda::current_device() : c10::DeviceIndex{0}};
}

void prepare(Batch& batch, const TrainConfig& config) {
  const at::Device device = torch_device(config.device);
  if (batch.rows.cu_host.empty()) {
    for (std::int64_t row = 0; row <= batch.tokens.size(0); ++row)
      batch.rows.cu_host.push_back(static_cast<std::int32_t>(row * batch.tokens.size(1)));
  }
  batch.tokens = upload(batch.tokens, device, config.batch_copy);
  batch.targets = upload(batch.targets, device, config.batch_copy);
  if (device.is_cuda()) count(counter_of(config.batch_copy));
  const Layouts layouts = layouts_of(config);
  for (Segments* segments : {&batch.documents, &batch.rows}) {
    check_ends(segments->cu_host, batch.tokens.numel());
    prepare_segments(*segments, layouts, config, device);
  }
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
