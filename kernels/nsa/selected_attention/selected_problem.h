// What the kernels of selected attention take
// (kernels/nsa/selected_attention/selected_attention.h).
#pragma once

#include <cstdint>

namespace assay {

enum class ElementType { Fp32, Fp16, Bf16 };

constexpr int kMaxGroupHeads = 16;
constexpr int kQueriesPerItem = 128; // of one key block, that a thread block takes at a time

struct SelectedProblem {
  const void* q;              // [T, H, d]
  const void* k;              // [T, G, d]
  const void* v;              // [T, G, d]
  const std::int64_t* blocks; // [T, G, n], counted from the document's start; < 0: unused,
                              // may repeat; or null, and then
  const std::int32_t* ranges; // [T, G, n, 2] as ranges_* gives them (model/nsa/nsa_ranges.h)
  const std::int32_t* document_start; // [T]: the first token of each token's document
  ElementType type;                   // of q, k, v and out
  int tokens, heads, groups, width, selected, block_size;
  float scale; // > 0
};

// out [T, H, d] in `type`, 0 where nothing is selected; lse fp32 [T, H]: natural log-sum-exp of the
// scaled scores, -inf where nothing is selected.
struct SelectedOutput {
  void* out;
  float* lse;
};

struct SelectedGradients {
  const void* out;      // [T, H, d], of the forward
  const void* grad_out; // [T, H, d]
  const float* lse;     // [T, H]
  float* delta;         // [T, H], written: sum over d of grad_out * out
  void* grad_q;         // [T, H, d], written
  float* grad_k;        // [T, G, d], added to with atomics: not bitwise from run to run
  float* grad_v;        // [T, G, d], likewise
};

// The queries that selected each key block. A block has the place g T + (its first token) among the
// G T places of the index:
struct SelectedIndex {
  const std::int32_t* query_end; // [G T]: cumulative number of queries, up to and with this place
  const std::int32_t* item_end;  // [G T]: cumulative number of items of <= kQueriesPerItem queries
  const std::int32_t* queries;   // tokens, place by place
};

} // namespace assay
