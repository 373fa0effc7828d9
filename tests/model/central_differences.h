// Gradients against central differences, in fp64.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "model/families/family.h"

namespace assay::testing_model {

// Gradients of a function of parameters against central differences, three entries of each.
inline void expect_gradients(const std::vector<Parameter>& parameters,
                             const std::function<at::Tensor()>& sum) {
  for (const Parameter& p : parameters) p.tensor.mutable_grad() = at::Tensor();
  sum().backward();
  constexpr double kStep = 1e-5;
  for (const Parameter& p : parameters) {
    const at::NoGradGuard no_grad;
    const at::Tensor values = p.tensor.view(-1), gradient = p.tensor.grad().view(-1);
    for (std::int64_t at : {std::int64_t{0}, values.numel() / 2, values.numel() - 1}) {
      const double value = values[at].item<double>();
      values[at] = value + kStep;
      const double above = sum().item<double>();
      values[at] = value - kStep;
      const double below = sum().item<double>();
      values[at] = value;
      EXPECT_NEAR(gradient[at].item<double>(), (above - below) / (2 * kStep), 1e-6) << p.name;
    }
  }
}

inline std::vector<Parameter> in_doubles(std::vector<Parameter> parameters, double factor) {
  const at::NoGradGuard no_grad;
  for (Parameter& p : parameters) p.tensor.set_data(p.tensor.to(at::kDouble) * factor);
  return parameters;
}

} // namespace assay::testing_model
