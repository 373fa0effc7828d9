#include "model/training/diagnosis.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <utility>

#include "core/result.h"
#include "model/layers/probe.h"
#include "model/layout/carry.h"
#include "model/layout/segments.h"
#include "model/training/generate.h"

namespace assay {

namespace {

constexpr double kCollapsed = 1e-6;
constexpr std::string_view kLayer = "layers.";

// In the order in which modules were seen first.
template <class T> class InOrder {
public:
  T& operator[](const std::string& name) {
    const auto found = std::ranges::find(rows_, name, &std::pair<std::string, T>::first);
    return found != rows_.end() ? found->second : rows_.emplace_back(name, T()).second;
  }
  const std::vector<std::pair<std::string, T>>& rows() const { return rows_; }

private:
  std::vector<std::pair<std::string, T>> rows_;
};

struct Mean {
  double sum = 0;
  int count = 0;
  void add(double value) { sum += value, ++count; }
  double value() const { return sum / count; }
};

double variance_of(const at::Tensor& x) {
  return x.to(at::kDouble).var(/*unbiased=*/false).item<double>();
}

class Listener : public Probe {
public:
  void layer(std::size_t index) override { layer_ = "layers." + std::to_string(index); }

  void activation(const std::string& module, const at::Tensor& x) override {
    const double variance = variance_of(x);
    if (module == "stream") {
      stream_ = variance;
      return;
    }
    Spread& spread = spreads[layer_ + "." + module];
    spread.variance.add(variance);
    spread.of_stream.add(stream_ > 0 ? variance / stream_ : 0);
  }

  void state(const std::string& module, const at::Tensor& state) override {
    State& row = states[layer_ + "." + module];
    row.entropy.add(state_entropy(state));
    row.channels = state.size(-2);
  }

  struct Spread {
    Mean variance, of_stream;
  };
  struct State {
    Mean entropy;
    std::int64_t channels = 0;
  };
  InOrder<Spread> spreads;
  InOrder<State> states;

private:
  std::string layer_;
  double stream_ = 0;
};

// The first document of the batch, alone, whose layers write their states.
Batch first_document(const Batch& batch, const TrainConfig& config) {
  const std::int64_t end = batch.documents.cu_host.at(1);
  const auto part = [&](const at::Tensor& all) {
    return all.flatten().slice(0, 0, end).view({1, -1}).to(at::kCPU);
  };
  Batch alone = make_batch(part(batch.tokens), part(batch.targets), {});
  alone.documents.carry = std::make_shared<Carry>();
  prepare(alone, config);
  return alone;
}

std::vector<ComponentGradient> gradients_of(Trainer& trainer, const std::vector<Batch>& batches) {
  std::vector<at::Tensor> sums;
  for (const Batch& batch : batches) {
    const std::vector<at::Tensor> gradients = trainer.gradients(batch);
    for (std::size_t i = 0; i < gradients.size(); ++i)
      if (sums.size() <= i)
        sums.push_back(gradients[i].clone());
      else
        sums[i] += gradients[i];
  }
  InOrder<double> squares; // by "layers.3/rwkv"
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const std::string& name = trainer.parameters()[i].name;
    const std::string component = component_of(name);
    if (component.empty()) continue;
    const double norm = sums[i].to(at::kDouble).norm().item<double>();
    squares[name.substr(0, name.find('.', kLayer.size())) + "/" + component] += norm * norm;
  }
  std::vector<ComponentGradient> rows;
  for (const auto& [name, square] : squares.rows()) {
    const std::size_t slash = name.find('/');
    rows.push_back({name.substr(0, slash),
                    name.substr(slash + 1),
                    std::sqrt(square) / static_cast<double>(batches.size())});
  }
  return rows;
}

} // namespace

std::string component_of(const std::string& parameter) {
  if (!parameter.starts_with(kLayer)) return "";
  const std::string rest = parameter.substr(parameter.find('.', kLayer.size()) + 1);
  if (const std::size_t dot = rest.find('.'); dot != std::string::npos) return rest.substr(0, dot);
  if (rest.starts_with("ffn_in") || rest.starts_with("ffn_out")) return "feed_forward";
  return rest.find("norm") != std::string::npos ? "norms" : "mixer";
}

double state_entropy(const at::Tensor& state) {
  const at::Tensor squares = state.to(at::kDouble).square().sum(-1).flatten(0, -2); // [H, K]
  const at::Tensor share = squares / squares.sum(-1, true).clamp_min(1e-300);
  return -at::xlogy(share, share).sum(-1).mean().item<double>();
}

Diagnosis diagnose(Trainer& trainer, const std::vector<Batch>& batches) {
  if (batches.empty()) internal_error("a diagnosis needs a batch");
  Diagnosis diagnosis;
  diagnosis.gradients = gradients_of(trainer, batches);
  const TrainConfig& config = trainer.config();
  Listener listener;
  {
    const ProbeGuard listening(listener);
    for (const Batch& batch : batches) (void)trainer.logits(batch, config.attention);
  }
  for (const auto& [module, spread] : listener.spreads.rows())
    diagnosis.spreads.push_back({module,
                                 spread.variance.value(),
                                 spread.of_stream.value(),
                                 spread.of_stream.value() < kCollapsed});
  if (context_limit(config) == 0) return diagnosis;
  Listener of_states;
  {
    const ProbeGuard listening(of_states);
    for (const Batch& batch : batches) (void)trainer.logits(first_document(batch, config));
  }
  for (const auto& [module, state] : of_states.states.rows())
    diagnosis.states.push_back(
        {module, state.entropy.value(), std::log(static_cast<double>(state.channels))});
  return diagnosis;
}

} // namespace assay
