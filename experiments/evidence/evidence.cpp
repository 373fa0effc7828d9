#include "experiments/evidence/evidence.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "core/ledger/stored_config.h"

namespace assay {

namespace {

using Counts = std::map<std::string, double>;

// Metrics of a variant in the cell's parity launches, failed ones included, whose path starts with
// `prefix`, without the prefix. A name that several launches report keeps the last value.
Counts counts(const CellView& cell, const VariantRow& variant, const std::string& prefix) {
  Counts result;
  for (const LaunchRow* launch : cell.of_kind(LaunchKind::Parity))
    for (const MetricRow* metric : cell.metrics(launch->id))
      if (metric->variant == variant.id && metric->path.starts_with(prefix))
        result[metric->path.substr(prefix.size())] = metric->value;
  return result;
}

double count_of(const Counts& values, const std::string& name) {
  const auto found = values.find(name);
  return found == values.end() ? 0 : found->second;
}

void reject(Evidence& evidence, Validity validity, ReasonCode code, std::string text) {
  if (evidence.validity != Validity::Ok) return; // the first reason counts
  evidence.validity = validity;
  evidence.reason = {code, std::move(text)};
}

void judge_gates(Evidence& evidence, const VariantRow& a, const VariantRow& b) {
  for (const GateRow& gate : evidence.gates) {
    if (gate.passed) continue;
    const std::string whose = gate.variant == a.id   ? a.name
                              : gate.variant == b.id ? b.name
                                                     : "launch";
    std::string words = fmt::format(
        "gate {} of {}: {:.6g}, allowed {:.6g}", gate.name, whose, gate.value, gate.bound);
    if (!gate.detail.empty()) words += " (" + gate.detail + ")";
    if (gate.name == "engaged")
      reject(evidence, Validity::NotEngaged, ReasonCode::NotEngaged, words);
    else
      reject(evidence, Validity::ParityFailed, ReasonCode::GateFailed, words);
  }
}

// A level that is not the reference was compared with it by at least one gate.
bool gates_ran(const Evidence& evidence, const VariantRow& variant) {
  return variant.role == Role::Reference || variant.role == Role::Control ||
         std::any_of(evidence.gates.begin(), evidence.gates.end(), [&](const GateRow& gate) {
           return gate.variant == variant.id;
         });
}

// `own` shows its span, and not that of `other`.
void judge_engaged(Evidence& evidence,
                   const Counts& seen,
                   const VariantRow& own,
                   const std::string& own_span,
                   const std::string& other_span) {
  if (own_span == other_span) return;
  if (!own_span.empty()) {
    const double times = count_of(seen, own_span);
    if (times <= 0)
      reject(evidence,
             Validity::NotEngaged,
             ReasonCode::NotEngaged,
             fmt::format("{} did not show its own {}", own.name, own_span));
    evidence.engaged += fmt::format(
        "{}{} x {:.0f} in {}", evidence.engaged.empty() ? "" : ", ", own_span, times, own.name);
  }
  if (!other_span.empty() && count_of(seen, other_span) > 0)
    reject(evidence,
           Validity::NotEngaged,
           ReasonCode::NotEngaged,
           fmt::format("{} showed {}, which belongs to the other level", own.name, other_span));
}

// Counters "kernel/<name>" of the parity launches.
void note_kernels(Evidence& evidence, const Counts& seen, const VariantRow& variant) {
  for (const auto& [name, times] : seen)
    if (times > 0)
      evidence.ran += fmt::format(
          "{}{} x {:.0f} in {}", evidence.ran.empty() ? "" : ", ", name, times, variant.name);
}

// A step that no graph replayed, in a visit that counts, was not the level's.
void judge_graphs(Evidence& evidence, const CellView& cell, const VariantRow& own) {
  for (const LaunchRow* launch : cell.counted)
    for (const MetricRow* metric : cell.metrics(launch->id)) {
      if (metric->variant != own.id || metric->path != kLastEagerRoundMetric) continue;
      for (const VisitRow* visit : cell.visits(launch->id, own.id))
        if (!visit->warmup && visit->round <= metric->value)
          return reject(
              evidence,
              Validity::NotEngaged,
              ReasonCode::NotEngaged,
              fmt::format("level '{}' ran steps without its CUDA graph up to round {:.0f} of "
                          "timed launch {}",
                          own.name,
                          metric->value - cell.first_counted_round(launch->id) + 1,
                          launch->index));
    }
}

// aten::to only dispatches: where it converts, aten::_to_copy and aten::copy_ do the work and are
// counted themselves.
Counts working_operators(Counts operators) {
  operators.erase("aten::to");
  return operators;
}

double total(const Counts& values) {
  double sum = 0;
  for (const auto& [name, value] : values) sum += value;
  return sum;
}

void compare_work(Evidence& evidence,
                  const CellView& cell,
                  const VariantRow& a,
                  const VariantRow& b) {
  const Counts ops_a = working_operators(counts(cell, a, "ops/"));
  const Counts ops_b = working_operators(counts(cell, b, "ops/"));
  const Counts copies_a = counts(cell, a, "copies/");
  const Counts copies_b = counts(cell, b, "copies/");
  evidence.same_work = !ops_a.empty() && ops_a == ops_b && copies_a == copies_b;
  if (!evidence.same_work) return;
  evidence.same_work_proof = fmt::format("both sides ran the same {:.0f} operators", total(ops_a));
  if (copies_a.empty()) return; // not recorded
  const double copies = total(copies_a);
  evidence.same_work_proof +=
      copies > 0 ? fmt::format(" and made the same {:.0f} copies", copies) : " and made no copies";
}

const RetiredVariant* lost_loss(const CellView& cell, const VariantRow& variant) {
  const RetiredVariant* retired = cell.retired(variant);
  return retired && retired->cause == RetirementCause::Loss ? retired : nullptr;
}

bool shows_nan(const CellView& cell, const VariantRow& variant) {
  for (const LaunchRow* launch : cell.launches)
    for (const VisitRow* visit : cell.visits(launch->id, variant.id))
      if (visit->loss && !std::isfinite(*visit->loss)) return true;
  return lost_loss(cell, variant) != nullptr;
}

bool has_gate(const Evidence& evidence, const VariantRow& variant, const std::string& prefix) {
  return variant.role == Role::Reference || variant.role == Role::Control ||
         std::any_of(evidence.gates.begin(), evidence.gates.end(), [&](const GateRow& gate) {
           return gate.variant == variant.id && gate.passed && gate.name.rfind(prefix, 0) == 0;
         });
}

// Some bitwise gates are about a part alone, as that a skipped update changes nothing: whether a
// level computes the same bits the others show too.
bool measured_a_difference(const Evidence& evidence, const VariantRow& variant) {
  return std::ranges::any_of(evidence.gates, [&](const GateRow& gate) {
    return gate.variant == variant.id && gate.name.starts_with("math/") && gate.value != 0;
  });
}

// Why the gates say nothing about the quality.
const char* quality_without_parity(Validity validity) {
  switch (validity) {
  case Validity::ParityFailed:
    return "quality unknown: its gate did not pass";
  case Validity::NotEngaged:
    return "quality unknown: the gates did not run the level's own code";
  default:
    return "quality unknown: no gate has run";
  }
}

// Random tokens: what is learned of them says nothing about the text.
bool one_trains_on_other_data(const VariantRow& a, const VariantRow& b) {
  const auto source = [](const VariantRow& variant) {
    return stored_config(variant.config_json).value("data_source", "real");
  };
  return source(a) != source(b);
}

// Of unit "token" a plan may leave them out, with a note.
std::string why_no_loss_launch(const CellRow& cell, const VariantRow& a, const VariantRow& b) {
  if (one_trains_on_other_data(a, b)) return "one side trains on random tokens";
  return by_token(cell) ? "the plan has no loss launches; [quality] asks for them, or a note of "
                          "`assay plan` gives the reason"
                        : "the plan has no loss launches; [quality] asks for them";
}

void judge_quality(Evidence& evidence,
                   const CellView& cell,
                   const VariantRow& a,
                   const VariantRow& b) {
  const std::string equivalence = cell.equivalence();
  const auto is_bitwise = [&](const VariantRow& variant) {
    return has_gate(evidence, variant, "bitwise/") && !measured_a_difference(evidence, variant);
  };
  const auto bitwise_or_math = [&](const VariantRow& variant) {
    return has_gate(evidence, variant, "bitwise/") || has_gate(evidence, variant, "math/");
  };
  if (equivalence != "bitwise" && equivalence != "math") {
    evidence.quality_reason = {ReasonCode::NeedsLossTest,
                               fmt::format("class {}: effect on the loss not tested ({})",
                                           equivalence.empty() ? "unknown" : equivalence,
                                           why_no_loss_launch(*cell.cell, a, b))};
  } else if (evidence.validity != Validity::Ok) {
    evidence.quality_reason = {ReasonCode::ParityNotShown,
                               quality_without_parity(evidence.validity)};
  } else if (is_bitwise(a) && is_bitwise(b)) {
    evidence.quality = Quality::Bitwise;
    evidence.quality_reason = {ReasonCode::GatesPassed, "bitwise gates passed"};
  } else if (bitwise_or_math(a) && bitwise_or_math(b)) {
    evidence.quality = Quality::Equivalent;
    evidence.quality_reason = {ReasonCode::GatesPassed,
                               "equal within the bound of the math gates, not bit for bit"};
  } else {
    evidence.quality_reason = {ReasonCode::NoGate, fmt::format("no {} gate ran", equivalence)};
  }
}

// Whether the candidate's losses of timed launches differ from the baseline's although the
// control's never differ from the reference's: then it is not rounding in another order.
bool timed_losses_part(const CellView& cell, const VariantRow& a, const VariantRow& b) {
  if (!cell.baseline || !cell.control) return false;
  const auto losses = [&](const LaunchRow& launch, const VariantRow& variant) {
    std::map<int, double> by_round;
    for (const VisitRow* visit : cell.visits(launch.id, variant.id))
      if (visit->loss) by_round[visit->round] = *visit->loss;
    return by_round;
  };
  bool part = false;
  for (const LaunchRow* launch : cell.counted) {
    if (losses(*launch, *cell.baseline) != losses(*launch, *cell.control)) return false;
    const auto of_b = losses(*launch, b);
    for (const auto& [round, loss] : losses(*launch, a))
      if (const auto found = of_b.find(round); found != of_b.end()) part |= found->second != loss;
  }
  return part;
}

void judge_harm(Evidence& evidence,
                const CellView& cell,
                const VariantRow& a,
                const VariantRow& b) {
  if (!shows_nan(cell, b) || shows_nan(cell, a)) return;
  evidence.quality = Quality::Harmed;
  const RetiredVariant* retired = lost_loss(cell, b);
  const std::string what =
      retired ? retired->text : fmt::format("the loss of {} became NaN or infinite", b.name);
  evidence.quality_reason = {ReasonCode::LossLost, what + "; the baseline's stayed finite"};
}

std::string retired_text(const CellView& cell, const VariantRow& variant) {
  const RetiredVariant* retired = cell.retired(variant);
  return retired ? variant.name + ": " + retired->text : "";
}

} // namespace

Evidence gather_evidence(const CellView& cell, const VariantRow& a, const VariantRow& b) {
  Evidence evidence;
  for (const GateRow* gate : cell.gates)
    if (gate->variant == 0 || gate->variant == a.id || gate->variant == b.id)
      evidence.gates.push_back(*gate);
  judge_gates(evidence, a, b);
  const bool complete = !cell.complete(LaunchKind::Parity).empty();
  if (!complete)
    reject(
        evidence, Validity::Incomplete, ReasonCode::NoParityLaunch, "no parity launch is complete");
  for (const VariantRow* variant : {&a, &b})
    if (!gates_ran(evidence, *variant))
      reject(evidence,
             Validity::Incomplete,
             ReasonCode::NoParityGate,
             fmt::format("no parity gate of {} ran", variant->name));
  const LevelRow* level_a = cell.level(a.level);
  const LevelRow* level_b = cell.level(b.level);
  if (complete && level_a && level_b) {
    judge_engaged(evidence, counts(cell, a, "engaged/"), a, level_a->span, level_b->span);
    judge_engaged(evidence, counts(cell, b, "engaged/"), b, level_b->span, level_a->span);
  }
  for (const VariantRow* variant : {&a, &b})
    note_kernels(evidence, counts(cell, *variant, "kernel/"), *variant);
  for (const VariantRow* variant : {&a, &b}) judge_graphs(evidence, cell, *variant);
  compare_work(evidence, cell, a, b);
  evidence.retired = retired_text(cell, b);
  if (evidence.retired.empty()) evidence.retired = retired_text(cell, a);
  const std::string equivalence = cell.equivalence();
  judge_quality(evidence, cell, a, b);
  if (equivalence == "bitwise" && evidence.quality != Quality::Unknown &&
      timed_losses_part(cell, a, b)) {
    evidence.quality = Quality::Unknown;
    evidence.quality_reason = {
        ReasonCode::TimedLossesDiffer,
        "the gates passed, but the losses of timed visits differ between the two sides, "
        "although the control matches its baseline bit for bit"};
  }
  judge_harm(evidence, cell, a, b);
  return evidence;
}

} // namespace assay
