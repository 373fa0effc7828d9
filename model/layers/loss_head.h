// Mean cross entropy of the head's logits, in nats a target; targets of -100 are ignored. fp32,
// 0-dim (fp64 for fp64).
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

namespace assay {

// What a backward pass will bring as the loss's gradient: weight * scale, above 0.
struct LossGradient {
  double weight = 1; // of a micro-batch
  at::Tensor scale;  // of the loss scaler: fp32, 0-dim, on the loss's device; undefined: 1
};

// Of logits [T, V] and targets int64 [T].
at::Tensor logits_loss(const at::Tensor& logits, const at::Tensor& targets);

// The same of x [T, D] and head [V, D], by chunks of tokens whose logits take at most `chunk_mib`.
// Gradients are computed in the forward pass where grad mode wants them (else losses alone), so
// that no tensor of T * V elements exists; the backward pass hands them out, once.
//
// The gradients of the logits are multiplied by `gradient` before they are rounded: fp16 would lose
// them otherwise. If the backward pass brings another one, that is an error (on a GPU a device-side
// assertion, so that nothing waits).
//
// Products run in autocast's type, sums of `head`'s gradient over chunks in fp32. On a GPU in bf16
// one kernel makes a chunk's losses and gradients; V need not be a multiple of 8 (rows are padded),
// D a multiple of 4. Elsewhere the same function in tensor operations.
//
// `head` may have other uses in the same graph (a tied embedding): its gradient is then one of
// several that autograd adds.
at::Tensor chunked_loss(const at::Tensor& x,
                        const at::Tensor& head,
                        const at::Tensor& targets,
                        std::int64_t chunk_mib,
                        const LossGradient& gradient = {});

} // namespace assay
