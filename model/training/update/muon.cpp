#include "model/training/update/muon.h"

#include <algorithm>
#include <cmath>

#include "core/span.h"
#include "model/training/update/skipped_update.h"

namespace assay {

namespace {

constexpr int kSteps = 5;
constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315; // of the source
constexpr double kEps = 1e-7;

std::int64_t rows_of(const at::Tensor& weight) {
  return weight.size(-2);
}
std::int64_t columns_of(const at::Tensor& weight) {
  return weight.size(-1);
}

} // namespace

at::Tensor newton_schulz(const at::Tensor& matrices, at::ScalarType type) {
  const bool tall = rows_of(matrices) > columns_of(matrices);
  const at::Tensor size = at::linalg_vector_norm(matrices, 2, {-2, -1}, true) + kEps;
  at::Tensor x = (matrices / size).to(type);
  if (tall) x = x.transpose(-2, -1);
  x = x.reshape({-1, rows_of(x), columns_of(x)});
  for (int step = 0; step < kSteps; ++step) {
    const at::Tensor a = at::bmm(x, x.transpose(1, 2));
    x = at::baddbmm(x, at::baddbmm(a, a, a, kB, kC), x, kA);
  }
  if (tall) x = x.transpose(1, 2);
  return x.reshape(matrices.sizes());
}

Muon::Muon(const std::vector<Parameter>& parameters, const TrainConfig& config)
    : momentum_(config.muon_momentum), decay_(config.weight_decay),
      lr_factor_(config.muon_lr / config.lr),
      type_(config.precision == Precision::Fp32 ? at::kFloat : at::kBFloat16),
      batched_(config.muon_form == MuonForm::Batched) {
  for (const Parameter& parameter : parameters) {
    if (!is_matrix_of_layer(parameter)) continue;
    const std::int64_t rows = rows_of(parameter.tensor), columns = columns_of(parameter.tensor);
    auto group = std::ranges::find_if(groups_, [&](const Group& one) {
      return batched_ && one.rows == rows && one.columns == columns;
    });
    if (group == groups_.end()) group = groups_.insert(group, {{}, {}, rows, columns});
    group->weights.push_back(parameter.tensor);
    group->momentum.push_back(at::zeros_like(parameter.tensor));
    state_.emplace_back("optimizer.momentum." + parameter.name, group->momentum.back());
  }
}

void Muon::step(const at::Tensor& lr, const at::Tensor& found_inf) const {
  const at::NoGradGuard no_grad;
  const Span span(batched_ ? "muon/batched" : "muon/per_matrix");
  const at::Tensor rate = lr * lr_factor_;
  for (const Group& group : groups_) update(group, rate, found_inf);
}

// Of matrices [count, rows, columns].
at::Tensor Muon::orthogonal(const at::Tensor& matrices) const {
  if (batched_) return newton_schulz(matrices, type_);
  std::vector<at::Tensor> each;
  for (const at::Tensor& matrix : matrices.unbind()) each.push_back(newton_schulz(matrix, type_));
  return at::stack(each);
}

// Nesterov's momenta of all weights, one after the other.
at::Tensor Muon::looked_ahead(const Group& group) const {
  std::vector<at::Tensor> gradients, ahead;
  for (const at::Tensor& weight : group.weights) gradients.push_back(weight.grad());
  at::_foreach_lerp_(group.momentum, gradients, 1 - momentum_);
  for (const at::Tensor& one : at::_foreach_lerp(gradients, group.momentum, momentum_))
    ahead.push_back(one.reshape({-1, group.rows, group.columns}));
  return at::cat(ahead);
}

void Muon::update(const Group& group, const at::Tensor& rate, const at::Tensor& found_inf) const {
  const SkippedUpdate weights(group.weights, found_inf), momentum(group.momentum, found_inf);
  const double ratio = static_cast<double>(group.rows) / static_cast<double>(group.columns);
  const at::Tensor updates = orthogonal(looked_ahead(group))
                                 .to(group.weights.front().scalar_type())
                                 .mul_(rate * -std::sqrt(std::max(1.0, ratio)));
  if (decay_ > 0) at::_foreach_mul_(group.weights, 1 - rate * decay_);
  std::int64_t first = 0;
  for (std::size_t i = 0; i < group.weights.size(); ++i) {
    const std::int64_t count = group.weights[i].numel() / (group.rows * group.columns);
    group.weights[i].add_(updates.narrow(0, first, count).view_as(group.weights[i]));
    first += count;
  }
  weights.put_back();
  momentum.put_back();
}

} // namespace assay
