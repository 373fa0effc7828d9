// Activation checkpointing (arXiv 1604.06174): a part of the forward pass that runs once more in
// the backward pass, instead of keeping what that needs.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <memory>
#include <utility>

namespace assay {

// The residual stream and what is added to it next, [T, d_model]; `branch` may be undefined.
using Stream = std::pair<at::Tensor, at::Tensor>;
using StreamBody = std::function<Stream(const at::Tensor& x, const at::Tensor& branch)>;

// body(x, branch), of which only x and branch are kept for the backward pass. That runs the body
// again, in the types and with the kept weights (kept_weights.h) of now, and counts
// "recompute/layers". The body gives the same result every time, and new tensors; it outlives
// the backward pass. Gradients of parameters that it reads are added to their grad(): take them
// from a backward(), not from torch::autograd::grad().
Stream recomputed(const std::shared_ptr<const StreamBody>& body, const Stream& in);

} // namespace assay
