#include "model/config/step_graph.h"

#include <algorithm>
#include <array>

#include "model/config/family_config.h"
#include "model/config/mla_attention.h"
#include "model/config/optimizations/rows.h"
#include "model/config/shapes/expert_shape.h"

namespace assay {

namespace {

constexpr std::array<std::int64_t, 5> kRooms{64, 96, 128, 192, 256}; // documents

// As kernels/nsa/select.h: blocks of a row, and a warp's 96 KiB.
bool fits_selection(const TrainConfig& c) {
  const std::int64_t selection = c.seq_len / c.nsa_select_block + 1;
  return selection <= 2048 && 4 * (c.seq_len / c.nsa_stride + selection) <= 96 << 10;
}

} // namespace

std::vector<Need> step_graph_needs() {
  return {
      {{"device = cuda", "a CPU has no CUDA graphs"},
       [](const TrainConfig& c) { return c.device == Device::Cuda; }},
      {{"in family nsa nsa_attention = dense, or nsa_form = batched, nsa_overlap = product, "
        "nsa_ranges = direct or v2b, head_dim 64 or 128 and at most 16 heads in a group, and rows "
        "whose blocks fit the kernel that selects",
        "the other forms size tensors on the host"},
       [](const TrainConfig& c) {
         return !layouts_of(c).blocks ||
                (c.nsa_form == NsaForm::Batched && c.nsa_overlap == NsaOverlap::Product &&
                 (c.nsa_ranges == NsaRanges::Direct || c.nsa_ranges == NsaRanges::V2b) &&
                 (c.head_dim == 64 || c.head_dim == 128) && c.heads / c.kv_groups <= 16 &&
                 fits_selection(c));
       }},
      {{"ranks = 1", "collectives of several ranks are not captured"},
       [](const TrainConfig& c) { return c.ranks == 1; }},
      {{"in family rwmba scan_form = fused", "the other forms gather by each batch's documents"},
       [](const TrainConfig& c) {
         return !layouts_of(c).chunks || layouts_of(c).delta_rule || c.scan_form == ScanForm::Fused;
       }},
      {{"in family hydra routing other than compacted", "the host reads how many tokens are taken"},
       [](const TrainConfig& c) { return !has_layer(c, 'C') || c.routing != Routing::Compacted; }},
      {{"with experts expert_form = grouped", "the host reads which tokens an expert takes"},
       [](const TrainConfig& c) {
         return !has_experts(c) || c.expert_form == ExpertForm::Grouped;
       }},
      {{"delta_form = fused and delta_inputs = fused",
        "the operator forms gather by each batch's documents, and a triangular solve cannot be "
        "captured"},
       [](const TrainConfig& c) {
         return !layouts_of(c).delta_rule ||
                (c.delta_form == DeltaForm::Fused && c.delta_inputs == DeltaInputs::Fused);
       }},
      {{"precision = bf16 or fp8, and in layers of the delta rule chunk_size = 64, conv_kernel = 4 "
        "and head_dim 32, 64 or 128",
        "what its kernels take"},
       [](const TrainConfig& c) {
         const bool fits = c.chunk_size == 64 && c.conv_kernel == 4 &&
                           (c.head_dim == 32 || c.head_dim == 64 || c.head_dim == 128);
         return in_bf16_or_fp8(c) && (fits || !layouts_of(c).delta_rule);
       }},
      {{"attention = packed or varlen",
        "a dense mask is made of each batch, and without a mask documents are cut on the host"},
       packs_segments},
      {{"mla_attention other than math", "it cuts each batch's documents on the host"},
       [](const TrainConfig& c) { return c.mla_attention != MlaAttention::Math; }},
      {{"loss_read = never, nsa_stats = off, and with update_pass other than one_pass clip_read = "
        "device",
        "the host reads nothing in a graph"},
       [](const TrainConfig& c) {
         return c.loss_read == LossRead::Never && c.nsa_stats == NsaStats::Off &&
                (c.update_pass == UpdatePass::OnePass || c.clip_read == ClipRead::Device);
       }},
      {{"phase_batches = 0", "a graph has the shapes of one phase"},
       [](const TrainConfig& c) { return c.phase_batches == 0; }},
      {{"no planted wait", "the host chooses its length in every step"},
       [](const TrainConfig& c) {
         return c.planted_wait == PlantedWait::None && planted_share(c) <= 0;
       }},
  };
}

std::optional<std::int64_t> document_room(std::int64_t documents) {
  for (const std::int64_t room : kRooms)
    if (documents <= room) return room;
  return std::nullopt;
}

std::optional<std::int64_t> graph_room(std::int64_t documents) {
  return document_room(std::min(2 * documents, std::max(documents, kRooms.back())));
}

} // namespace assay
