#include "model/layers/linear/grouped_linear.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cstdint>
#include <vector>

#include "model/layers/autocast.h"
#include "model/layers/linear/kept_weights.h"

namespace assay {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

bool one_kernel(const at::Tensor& x) {
  return x.is_cuda() && (x.scalar_type() == at::kBFloat16 || x.scalar_type() == at::kHalf);
}

struct Rows {
  std::int64_t begin, count;
};

std::vector<Rows> groups_of(const at::Tensor& ends) {
  const at::Tensor host = ends.to(at::kCPU);
  std::vector<Rows> groups;
  std::int64_t begin = 0;
  for (const int end : c10::ArrayRef<int>(host.const_data_ptr<int>(), host.numel())) {
    groups.push_back({begin, end - begin});
    begin = end;
  }
  return groups;
}

at::Tensor with_room(const at::Tensor& rows) {
  const std::int64_t missing = kFewRows - rows.size(0);
  return missing <= 0 ? rows : at::constant_pad_nd(rows, {0, 0, 0, missing});
}

// a_g b_g of rows a_g [n_g, K] and b [G, K, N].
at::Tensor rows_by_matrix(const at::Tensor& a, const at::Tensor& b, const at::Tensor& ends) {
  if (one_kernel(a)) return at::_grouped_mm(a, b, ends);
  at::Tensor out = at::empty({a.size(0), b.size(2)}, a.options());
  std::int64_t g = 0;
  for (const auto& [begin, count] : groups_of(ends)) {
    if (count > 0)
      out.narrow(0, begin, count)
          .copy_(at::mm(with_room(a.narrow(0, begin, count)), b[g]).narrow(0, 0, count));
    ++g;
  }
  return out;
}

// a_g^T b_g of rows a_g [n_g, M] and b_g [n_g, N]: [G, M, N].
at::Tensor rows_by_rows(const at::Tensor& a, const at::Tensor& b, const at::Tensor& ends) {
  if (one_kernel(a)) return at::_grouped_mm(a.t(), b, ends);
  at::Tensor out = at::zeros({ends.size(0), a.size(1), b.size(1)}, a.options());
  std::int64_t g = 0;
  for (const auto& [begin, count] : groups_of(ends)) {
    at::Tensor of_group = out[g++];
    if (count > 0) at::mm_out(of_group, a.narrow(0, begin, count).t(), b.narrow(0, begin, count));
  }
  return out;
}

struct GroupedLinear : torch::autograd::Function<GroupedLinear> {
  static at::Tensor forward(AutogradContext* context,
                            const at::Tensor& x,
                            const at::Tensor& weight,
                            const at::Tensor& copy,
                            const at::Tensor& ends) {
    const at::Tensor operand = x.to(copy.scalar_type()).contiguous();
    context->save_for_backward({operand, copy, ends});
    context->saved_data["x"] = static_cast<std::int64_t>(x.scalar_type());
    context->saved_data["weight"] = static_cast<std::int64_t>(weight.scalar_type());
    return rows_by_matrix(operand, copy.transpose(1, 2), ends);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &copy = saved[1], &ends = saved[2];
    const auto type_of = [&](const char* name) {
      return static_cast<at::ScalarType>(context->saved_data[name].toInt());
    };
    const at::Tensor dy = grads[0].to(copy.scalar_type()).contiguous();
    at::Tensor dx;
    if (context->needs_input_grad(0)) dx = rows_by_matrix(dy, copy, ends).to(type_of("x"));
    return {dx, rows_by_rows(dy, x, ends).to(type_of("weight")), at::Tensor(), at::Tensor()};
  }
};

} // namespace

at::Tensor grouped_linear(const at::Tensor& x,
                          const at::Tensor& weight,
                          const at::Tensor& copy,
                          const at::Tensor& ends) {
  return GroupedLinear::apply(x, weight, copy, ends);
}

at::Tensor rounded_weight(const at::Tensor& weight, at::ScalarType type) {
  const at::NoGradGuard no_grad;
  return product_weight(weight, type).detach();
}

at::Tensor first_rows_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& end) {
  const at::Tensor copy = rounded_weight(weight, product_type(x));
  return grouped_linear(x, weight.unsqueeze(0), copy.unsqueeze(0), end);
}

} // namespace assay
