#include "model/families/routing/gathered.h"

#include <torch/csrc/autograd/custom_function.h>

namespace assay {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Gathered : torch::autograd::Function<Gathered> {
  static at::Tensor forward(AutogradContext* context,
                            const at::Tensor& x,
                            const at::Tensor& index,
                            const at::Tensor& place,
                            std::int64_t copies) {
    context->save_for_backward({place});
    context->saved_data["copies"] = copies;
    return x.index_select(0, copies == 1 ? index : index.div(copies, "floor"));
  }
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const std::int64_t copies = context->saved_data["copies"].toInt();
    const at::Tensor back = grads[0].index_select(0, context->get_saved_variables()[0]);
    return {copies == 1 ? back : back.view({-1, copies, back.size(1)}).sum(1),
            at::Tensor(),
            at::Tensor(),
            at::Tensor()};
  }
};

} // namespace

at::Tensor gathered(const at::Tensor& x,
                    const at::Tensor& index,
                    const at::Tensor& place,
                    std::int64_t copies) {
  return Gathered::apply(x, index, place, copies);
}

at::Tensor inverse_of(const at::Tensor& order) {
  return at::empty_like(order).scatter_(0, order, at::arange(order.size(0), order.options()));
}

} // namespace assay
