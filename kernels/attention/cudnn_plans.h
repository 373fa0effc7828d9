// Causal attention by cuDNN, whose values may be narrower than its keys: rows of one length, or
// packed documents. One plan of forward and backward serves every batch of a shape. A call takes
// device pointers and a stream, allocates nothing and waits for nothing, so that a CUDA graph can
// capture it. Only cudnn_plans.cpp includes cuDNN's front end, which compiles for a minute.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/attention/table.h"

namespace assay::cudnn_plans {

// What a plan is built for. Rows: `documents` rows of `longest` tokens. Packed: at most `documents`
// documents of at most `longest` tokens, and no batch of more than `tokens`; each call brings their
// table. Time grows with the room for documents alone. All tensors and their gradients are
// contiguous [tokens, heads, width], their pointers multiples of 16 bytes. Joined: q, k and v are
// the parts of one contiguous [tokens, 3, heads, width], and so are their gradients.
struct Shape {
  std::int64_t documents = 0, longest = 0, tokens = 0;
  std::int64_t heads = 0, width_qk = 0, width_v = 0; // widths: multiples of 8, at most 128
  bool packed = true;
  bool joined = false;                      // width_qk = width_v
  bool fp16 = false;                        // else bf16
  double scale = 1;                         // of the scores
  bool operator<(const Shape& other) const; // some order
};

// `memory` may be null where only `bytes` is wanted.
Table table_of(const Shape& shape, void* memory);

// Fills a table on the stream from cu: int32 [given + 1] on the device, the first token of each
// document and then the end of the last. given <= documents; the rest become empty. cu may repeat
// its end too.
void launch_table(const Table& table,
                  const std::int32_t* cu,
                  std::int64_t given,
                  cudaStream_t stream);

// Device pointers of a call; d_out to dv: backward alone. stats: fp32 logarithms of the sums of
// exponentials, [tokens, heads] packed, [documents, heads, longest] in rows; the forward pass
// writes them, the backward pass reads them. workspace: workspace_bytes of the pass.
struct Pointers {
  const void *q, *k, *v;
  void *out, *stats;
  const void* d_out;
  void *dq, *dk, *dv;
  void *table, *workspace; // table: packed alone
};

class Plan;

// The plan of a shape on the current device: null if nobody built it yet.
const Plan* find_plan(const Shape& shape);
// Builds it, where it is not there; kept until the process ends. 2 s for the first plan on a
// machine (cuDNN compiles two kernels, which the driver keeps on disk), then about .1 s. Failure:
// cuDNN's own words.
const Plan& plan_of(const Shape& shape);

std::int64_t forward_workspace_bytes(const Plan& plan);
std::int64_t backward_workspace_bytes(const Plan& plan);
// From any thread. Throw Failure.
void run_forward(const Plan& plan, const Pointers& pointers, cudaStream_t stream);
void run_backward(const Plan& plan, const Pointers& pointers, cudaStream_t stream);

} // namespace assay::cudnn_plans
