// Attention of every query over the key blocks that it selected (NSA's selected branch, arXiv
// 2502.11089, section 3.3.2), forward and backward, for packed documents.
//
// T tokens, G key-value groups, H = G h query heads with h <= 16, width d of 64 or 128, n <= 32
// selected blocks of l' = 16, 32, 64 or 128 tokens. A warp does one query and group: its h heads
// are the rows of one 16-row matrix product, so each key is read once a group. Everything is
// contiguous and on the device; launches are asynchronous, the caller checks cudaGetLastError().
#pragma once

#include <cuda_runtime_api.h>

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

void launch_selected_forward(const SelectedProblem& problem,
                             const SelectedOutput& output,
                             cudaStream_t stream);

struct SelectedGradients {
  const void* out;      // [T, H, d], of the forward
  const void* grad_out; // [T, H, d]
  const float* lse;     // [T, H]
  float* delta;         // [T, H], written: sum over d of grad_out * out
  void* grad_q;         // [T, H, d], written
  float* grad_k;        // [T, G, d], added to with atomics: not bitwise from run to run
  float* grad_v;        // [T, G, d], likewise
};

// fp32: all three gradients in one pass.
void launch_selected_backward_fp32(const SelectedProblem& problem,
                                   const SelectedGradients& gradients,
                                   cudaStream_t stream);

// fp16 and bf16. First grad_q and delta; then, for every key block, over the queries that selected
// it. A key block has the place g T + (its first token) among the G T places of the index:
struct SelectedIndex {
  const std::int32_t* query_end; // [G T]: cumulative number of queries, up to and with this place
  const std::int32_t* item_end;  // [G T]: cumulative number of items of <= kQueriesPerItem queries
  const std::int32_t* queries;   // tokens, place by place
};

void launch_selected_query_gradient(const SelectedProblem& problem,
                                    const SelectedGradients& gradients,
                                    cudaStream_t stream);
// Adds to counts [G T] (zero before) the queries that selected each place.
void launch_selected_count(const SelectedProblem& problem,
                           std::int32_t* counts,
                           cudaStream_t stream);
// Writes the queries of each place, in no fixed order; `cursor` [G T] has each place's begin and
// is moved to its end.
void launch_selected_fill(const SelectedProblem& problem,
                          std::int32_t* cursor,
                          std::int32_t* queries,
                          cudaStream_t stream);
void launch_selected_key_gradient(const SelectedProblem& problem,
                                  const SelectedGradients& gradients,
                                  const SelectedIndex& index,
                                  cudaStream_t stream);

} // namespace assay
