#include "model/layers/recompute.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>

#include "core/span.h"
#include "model/layers/autocast.h"
#include "model/layers/autograd_holder.h"
#include "model/layers/linear/kept_weights.h"

namespace assay {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// What the backward pass, which may run on another thread, needs of this one.
struct Part {
  std::shared_ptr<const StreamBody> body;
  at::ScalarType type; // of autocast; fp32 without it
  KeptWeights* kept;
};

at::Tensor as_leaf(const at::Tensor& x) {
  return x.defined() ? x.detach().requires_grad_() : x;
}

struct Recompute : torch::autograd::Function<Recompute> {
  static variable_list forward(AutogradContext* context,
                               const at::Tensor& x,
                               const std::optional<at::Tensor>& branch,
                               const std::shared_ptr<const Part>& part) {
    context->saved_data["part"] = hold(part);
    const at::Tensor next = branch.value_or(at::Tensor());
    context->save_for_backward({x, next});
    const Stream out = (*part->body)(x, next);
    return {out.first, out.second};
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const Part& part = held<Part>(context->saved_data["part"]);
    const variable_list saved = context->get_saved_variables();
    const at::Tensor x = as_leaf(saved[0]), branch = as_leaf(saved[1]);
    Stream out;
    {
      const at::AutoGradMode with_graph(true);
      const AutocastGuard autocast(x.device().type(), part.type);
      const KeptGuard kept(part.kept);
      const Span span("recompute/again");
      count("recompute/layers");
      out = (*part.body)(x, branch);
    }
    torch::autograd::backward({out.first, out.second}, grads);
    return {x.grad(), branch.defined() ? branch.grad() : at::Tensor(), at::Tensor()};
  }
};

} // namespace

Stream recomputed(const std::shared_ptr<const StreamBody>& body, const Stream& in) {
  const at::DeviceType device = in.first.device().type();
  const at::ScalarType type = at::autocast::is_autocast_enabled(device)
                                  ? at::autocast::get_autocast_dtype(device)
                                  : at::kFloat;
  const auto part = std::make_shared<const Part>(Part{body, type, kept_weights_of_thread()});
  const variable_list out = Recompute::apply(
      in.first, in.second.defined() ? std::optional(in.second) : std::nullopt, part);
  return {out[0], out[1]};
}

} // namespace assay
