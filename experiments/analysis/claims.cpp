#include "experiments/analysis/claims.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "core/files/json_difference.h"
#include "core/ledger/stored_config.h"
#include "experiments/evidence/cell_view.h"
#include "model/config/train_config.h"

namespace assay {

namespace {

using nlohmann::json;

bool in_range(const json& value, const json& range) {
  if (!value.is_number()) return false;
  const double number = value.get<double>();
  return (!range.contains("min") || number >= range["min"].get<double>()) &&
         (!range.contains("max") || number <= range["max"].get<double>());
}

bool accepts(const json& needed, const json& value) {
  if (needed.is_array())
    return std::any_of(needed.begin(), needed.end(), [&](const json& x) { return x == value; });
  if (needed.is_object()) return in_range(value, needed);
  return needed == value;
}

bool accepts_gpu(const json& needed, const std::string& gpu) {
  const json list = needed.is_array() ? needed : json::array({needed});
  return std::any_of(list.begin(), list.end(), [&](const json& name) {
    return name.is_string() && gpu.find(name.get<std::string>()) != std::string::npos;
  });
}

constexpr double kWeightBytes = 4; // fp32, whatever the layers compute in
constexpr double kEmaCopies = 3;   // weights, their average, a copy of the weights
constexpr double kNsPerSecond = 1e9;

std::optional<TrainConfig> config_of(const CellRow& cell) {
  const Result<TrainConfig> config = resolve_json(stored_config(cell.config_json));
  return config ? std::optional(*config) : std::nullopt;
}

// A condition that a cell does not meet.
struct Unmet {
  std::string reason; // "precision is fp32, the claim needs bf16"
  ClaimNeed need;
};

std::vector<std::string> values_of(const json& needed) {
  if (!needed.is_array()) return {condition_text(needed)};
  std::vector<std::string> values;
  for (const json& value : needed) values.push_back(condition_text(value));
  return values;
}

std::vector<Unmet>
unmet(const ClaimRow& claim, const std::string& config_json, const std::string& gpu) {
  if (claim.requires_json.empty()) return {};
  const json needs = json::parse(claim.requires_json, nullptr, false);
  if (!needs.is_object()) return {{"the claim's conditions cannot be read", {}}};
  const json config = stored_config(config_json);
  const bool not_run = gpu.empty() && config.value("device", "") == "cuda";
  std::vector<Unmet> result;
  const auto add = [&](const std::string& key, const json& needed, std::string reason) {
    result.push_back({std::move(reason), {key, values_of(needed)}});
  };
  for (const auto& [key, needed] : needs.items()) {
    if (key == kPaddingKey) continue;
    if (key == kBoardKey) {
      if (!not_run && !accepts_gpu(needed, gpu))
        add(key,
            needed,
            fmt::format("the claim needs a {} board, this is {}",
                        condition_text(needed),
                        gpu.empty() ? "no GPU" : gpu));
    } else if (!config.is_object() || !config.contains(key)) {
      add(key,
          needed,
          fmt::format(
              "the claim needs {} {}, the cell has no such key", key, condition_text(needed)));
    } else if (!accepts(needed, config[key])) {
      add(key,
          needed,
          fmt::format("{} is {}, the claim needs {}",
                      key,
                      condition_text(config[key]),
                      condition_text(needed)));
    }
  }
  return result;
}

// A side of a claim about keys; empty for a level.
json key_set(const std::string& side) {
  return stored_config(side); // stored as configurations are: an object, or none
}

// "lr = 0.001, precision = bf16"
std::string keys_text(const std::string& set) {
  std::string text;
  const json keys = key_set(set);
  for (const auto& [key, value] : keys.items())
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", key, condition_text(value));
  return text;
}

} // namespace

std::string condition_text(const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return value.dump();
  std::string text;
  for (const nlohmann::json& one : value)
    text += (text.empty() ? "" : " or ") + condition_text(one);
  return text;
}

const std::vector<ClaimMetricRow>& claim_metrics() {
  static const std::vector<ClaimMetricRow> rows{
      {ClaimMetric::StepTime, "step_time", "step time", false},
      {ClaimMetric::UnitTime, "unit_time", "time of the unit", false},
      {ClaimMetric::Throughput, "throughput", "throughput", true},
      {ClaimMetric::PeakMemory, "peak_memory", "peak memory", false},
      {ClaimMetric::FinalLoss, "final_loss", "final loss", false},
      {ClaimMetric::SecondsPerParameter,
       "seconds_per_parameter",
       "time of the unit, per parameter",
       false},
      {ClaimMetric::EmaMemory, "ema_memory", "memory of weights, EMA and copy", false},
      {ClaimMetric::UntrainedLoss, "untrained_loss", "of an untrained model's loss", true}};
  return rows;
}

std::optional<ClaimMetric> claim_metric(const std::string& name) {
  for (const ClaimMetricRow& row : claim_metrics())
    if (row.name == name) return row.metric;
  return std::nullopt;
}

bool is_memory(ClaimMetric metric) {
  return metric == ClaimMetric::PeakMemory || metric == ClaimMetric::EmaMemory;
}

bool is_loss(ClaimMetric metric) {
  return metric == ClaimMetric::FinalLoss || metric == ClaimMetric::UntrainedLoss;
}

bool is_time(ClaimMetric metric) {
  return !is_memory(metric) && !is_loss(metric);
}

bool is_share_of_time(ClaimMetric metric) {
  return is_time(metric) && metric != ClaimMetric::SecondsPerParameter;
}

std::optional<double>
gain_scale(ClaimMetric metric, const CellRow& cell, double a_ns, double a_bytes) {
  const bool counts = metric == ClaimMetric::SecondsPerParameter ||
                      metric == ClaimMetric::EmaMemory || metric == ClaimMetric::UntrainedLoss;
  if (!counts) return 1;
  const std::optional<TrainConfig> config = config_of(cell);
  if (!config) return std::nullopt;
  const auto parameters = static_cast<double>(model_size(*config).parameters);
  if (metric == ClaimMetric::SecondsPerParameter) return a_ns / kNsPerSecond / parameters;
  if (metric == ClaimMetric::EmaMemory) return a_bytes / (kEmaCopies * kWeightBytes * parameters);
  return 1 / std::log(static_cast<double>(config->vocab_size));
}

double gain_of(ClaimMetric metric, double theta) {
  if (metric == ClaimMetric::UntrainedLoss) return theta;
  return metric == ClaimMetric::Throughput ? std::expm1(-theta) : -std::expm1(theta);
}

Interval gain_of(ClaimMetric metric, const Interval& theta) {
  if (metric == ClaimMetric::UntrainedLoss) return theta;
  return {gain_of(metric, theta.upper), gain_of(metric, theta.lower)};
}

double theta_of(ClaimMetric metric, double gain) {
  return metric == ClaimMetric::Throughput ? -std::log1p(gain) : std::log1p(-gain);
}

double sesoi_gain(ClaimMetric metric, double sesoi) {
  return metric == ClaimMetric::Throughput ? sesoi / (1 - sesoi) : sesoi;
}

double least_claimed(const Interval& claimed, double sesoi) {
  const bool no_figure = claimed.lower == 0 && std::isinf(claimed.upper);
  return no_figure ? sesoi : claimed.lower;
}

ClaimDecision decide_claim(const Interval& claimed, const Interval& measured, double sesoi) {
  const double lo = least_claimed(claimed, sesoi);
  const auto [l, u] = measured;
  // A claim of a bounded cost (lo < 0) is kept by a small loss, so a loss is not its opposite; nor
  // is a loss too small to matter, which is no effect.
  if (u < -sesoi && lo >= 0) return {ClaimState::Opposite, false};
  if (l >= lo) return {ClaimState::Confirmed, l > claimed.upper};
  if (u < std::min(lo, sesoi)) return {ClaimState::Refuted, false};
  if (l > 0 && u < lo) return {ClaimState::Shortfall, false};
  if (l > sesoi && u >= lo) return {ClaimState::Consistent, false};
  return {ClaimState::Undecided, false};
}

bool applies(const ClaimResult& result) {
  return result.state != ClaimState::NotTested && result.state != ClaimState::ConditionsNotMet;
}

std::string
unmet_conditions(const ClaimRow& claim, const std::string& config_json, const std::string& gpu) {
  std::string text;
  for (const Unmet& condition : unmet(claim, config_json, gpu))
    text += (text.empty() ? "" : "; ") + condition.reason;
  return text;
}

std::string unmet_padding(const ClaimRow& claim, double padding_share) {
  const json needs = json::parse(claim.requires_json, nullptr, false);
  if (!needs.is_object() || !needs.contains(kPaddingKey)) return "";
  const json& range = needs[kPaddingKey];
  if (in_range(padding_share, range)) return "";
  return fmt::format("{:.3g} % of the baseline's positions are padding, the claim needs {:.3g} to "
                     "{:.3g} %",
                     100 * padding_share,
                     100 * range.value("min", 0.0),
                     100 * range.value("max", 1.0));
}

bool names_keys(const ClaimRow& claim) {
  return !key_set(claim.from).empty();
}

std::string claim_sides_text(const ClaimRow& claim) {
  if (!names_keys(claim))
    return fmt::format("{}, {} -> {}", claim.optimization, claim.from, claim.to);
  return keys_text(claim.from) + " -> " + keys_text(claim.to);
}

std::string key_mismatch(const ClaimRow& claim, const VariantRow& from, const VariantRow& to) {
  const json a = stored_config(from.config_json), b = stored_config(to.config_json);
  const json wanted_a = key_set(claim.from), wanted_b = key_set(claim.to);
  for (const std::string& key : differing_keys(a, b))
    if (!wanted_a.contains(key)) return fmt::format("{} differs too", key);
  for (const auto& [wanted, config, variant] :
       {std::tuple(&wanted_a, &a, &from), std::tuple(&wanted_b, &b, &to)})
    for (const auto& [key, value] : wanted->items())
      if (config->value(key, json()) != value)
        return fmt::format("{} is {} in '{}', the claim has {}",
                           key,
                           condition_text(config->value(key, json())),
                           variant->name,
                           condition_text(value));
  return "";
}

KeyClaimFit key_claim_fit(const LedgerData& plan, const ClaimRow& claim) {
  KeyClaimFit fit;
  const json keys = key_set(claim.from);
  for (const CellRow& cell : plan.cells) {
    if (!compares_keys(optimization_of(plan, cell))) continue;
    const VariantRow* baseline = nullptr; // it is before its levels
    for (const VariantRow& variant : plan.variants) {
      if (variant.cell != cell.id || variant.role == Role::Control) continue;
      if (variant.role == Role::Reference) baseline = &variant;
      if (variant.role == Role::Reference || baseline == nullptr) continue;
      const std::set<std::string> differ =
          differing_keys(stored_config(baseline->config_json), stored_config(variant.config_json));
      if (std::ranges::none_of(differ, [&](const auto& key) { return keys.contains(key); }))
        continue;
      const std::string why = key_mismatch(claim, *baseline, variant);
      fit.tested = fit.tested || why.empty();
      if (fit.concerned != nullptr) continue;
      fit.concerned = &cell;
      fit.miss = fmt::format("cell '{}', {}: {}", cell.name, variant.name, why);
    }
  }
  return fit;
}

std::vector<ClaimNeed>
unmet_needs(const ClaimRow& claim, const std::string& config_json, const std::string& gpu) {
  std::vector<ClaimNeed> needs;
  for (Unmet& condition : unmet(claim, config_json, gpu))
    if (!condition.need.key.empty()) needs.push_back(std::move(condition.need));
  return needs;
}

} // namespace assay
