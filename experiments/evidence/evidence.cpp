#include "experiments/evidence/evidence.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace assay {

namespace {

using Counts = std::map<std::string, double>;

struct Parity {
  std::set<std::int64_t> launches; // every parity launch of the cell, failed ones included
  bool complete = false;
};

Parity parity_of(const LedgerData& data, const CellRow& cell) {
  Parity parity;
  for (const LaunchRow& launch : data.launches) {
    if (launch.cell != cell.id || launch.kind != LaunchKind::Parity) continue;
    parity.launches.insert(launch.id);
    if (launch.state == LaunchState::Complete) parity.complete = true;
  }
  return parity;
}

// Metrics of a variant whose path starts with `prefix`, without the prefix. A name that several
// launches report keeps the last value.
Counts counts(const LedgerData& data,
              const Parity& parity,
              const VariantRow& variant,
              const std::string& prefix) {
  Counts result;
  for (const MetricRow& metric : data.metrics)
    if (metric.variant == variant.id && parity.launches.count(metric.launch) != 0 &&
        metric.path.rfind(prefix, 0) == 0)
      result[metric.path.substr(prefix.size())] = metric.value;
  return result;
}

double count_of(const Counts& values, const std::string& name) {
  const auto found = values.find(name);
  return found == values.end() ? 0 : found->second;
}

const LevelRow* level_row(const LedgerData& data, const CellRow& cell, const std::string& level) {
  for (const OptimizationRow& row : data.optimizations)
    if (row.name == cell.optimization)
      for (const LevelRow& candidate : row.levels)
        if (candidate.name == level) return &candidate;
  return nullptr;
}

std::string equivalence_of(const LedgerData& data, const CellRow& cell) {
  for (const OptimizationRow& row : data.optimizations)
    if (row.name == cell.optimization) return row.equivalence;
  return "";
}

void reject(Evidence& evidence, Validity validity, std::string reason) {
  if (evidence.validity != Validity::Ok) return; // the first reason stands
  evidence.validity = validity;
  evidence.reason = std::move(reason);
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
    const Validity validity = gate.name == "engaged"      ? Validity::NotEngaged
                              : gate.name == "applicable" ? Validity::NotApplicable
                                                          : Validity::ParityFailed;
    reject(evidence, validity, words);
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
             fmt::format("{} did not show its own {}", own.name, own_span));
    evidence.engaged += fmt::format(
        "{}{} x {:.0f} in {}", evidence.engaged.empty() ? "" : ", ", own_span, times, own.name);
  }
  if (!other_span.empty() && count_of(seen, other_span) > 0)
    reject(evidence,
           Validity::NotEngaged,
           fmt::format("{} showed {}, which belongs to the other level", own.name, other_span));
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
                  const LedgerData& data,
                  const Parity& parity,
                  const VariantRow& a,
                  const VariantRow& b) {
  const Counts ops_a = working_operators(counts(data, parity, a, "ops/"));
  const Counts ops_b = working_operators(counts(data, parity, b, "ops/"));
  const Counts copies_a = counts(data, parity, a, "copies/");
  const Counts copies_b = counts(data, parity, b, "copies/");
  evidence.same_work = !ops_a.empty() && ops_a == ops_b && copies_a == copies_b;
  if (!evidence.same_work) return;
  if (!copies_a.empty())
    evidence.same_work_proof = fmt::format("copies {0:.0f} · {0:.0f}, ", total(copies_a));
  evidence.same_work_proof +=
      fmt::format("working operators {0:.0f} · {0:.0f}, identical by name", total(ops_a));
}

bool shows_nan(const LedgerData& data,
               const VisitIndex& visits,
               const CellRow& cell,
               const VariantRow& variant) {
  for (const LaunchRow& launch : data.launches) {
    if (launch.cell != cell.id) continue;
    for (const VisitRow* visit : visits.of_launch(launch.id))
      if (visit->variant == variant.id && visit->loss && !std::isfinite(*visit->loss)) return true;
  }
  return tells_of_lost_loss(retirement(data, variant));
}

bool has_gate(const Evidence& evidence, const VariantRow& variant, const std::string& prefix) {
  return variant.role == Role::Reference || variant.role == Role::Control ||
         std::any_of(evidence.gates.begin(), evidence.gates.end(), [&](const GateRow& gate) {
           return gate.variant == variant.id && gate.passed && gate.name.rfind(prefix, 0) == 0;
         });
}

void judge_quality(Evidence& evidence,
                   const std::string& equivalence,
                   const VariantRow& a,
                   const VariantRow& b) {
  const bool bitwise = has_gate(evidence, a, "bitwise/") && has_gate(evidence, b, "bitwise/");
  const auto bitwise_or_math = [&](const VariantRow& variant) {
    return has_gate(evidence, variant, "bitwise/") || has_gate(evidence, variant, "math/");
  };
  if (equivalence != "bitwise" && equivalence != "math") {
    evidence.quality_reason =
        fmt::format("class {}: a loss experiment has to show that training is unharmed",
                    equivalence.empty() ? "unknown" : equivalence);
  } else if (evidence.validity != Validity::Ok) {
    evidence.quality_reason = "parity is not shown";
  } else if (bitwise) {
    evidence.quality = Quality::Bitwise;
    evidence.quality_reason = "bitwise gates passed";
  } else if (bitwise_or_math(a) && bitwise_or_math(b)) {
    evidence.quality = Quality::Equivalent;
    evidence.quality_reason = "equal within the bound of the math gates, not bit for bit";
  } else {
    evidence.quality_reason = fmt::format("no {} gate ran", equivalence);
  }
}

// Whether B's losses of timed launches differ from A's although the control's never differ from the
// reference's: then it is not rounding in another order that parts them.
bool timed_losses_part(const LedgerData& data,
                       const VisitIndex& visits,
                       const CellRow& cell,
                       const VariantRow& a,
                       const VariantRow& b) {
  const auto references = variants_of(data, cell.id, Role::Reference);
  const auto controls = variants_of(data, cell.id, Role::Control);
  if (references.empty() || controls.empty()) return false;
  const std::int64_t reference = references.front()->id, control = controls.front()->id;
  bool part = false;
  for (const LaunchRow& launch : data.launches) {
    if (launch.cell != cell.id || !is_counted(launch)) continue;
    std::map<int, std::map<std::int64_t, double>> losses; // by round and variant
    for (const VisitRow* visit : visits.of_launch(launch.id))
      if (visit->loss) losses[visit->round][visit->variant] = *visit->loss;
    for (auto& [round, by_variant] : losses) {
      if (!by_variant.contains(control) || !by_variant.contains(reference)) return false;
      if (by_variant[control] != by_variant[reference]) return false;
      part |= by_variant.contains(a.id) && by_variant.contains(b.id) &&
              by_variant[a.id] != by_variant[b.id];
    }
  }
  return part;
}

} // namespace

bool tells_of_lost_loss(const std::string& retirement) {
  const auto says = [&](const char* words) { return retirement.find(words) != std::string::npos; };
  return says(" is nan") || says(" is -nan") || says(" is inf") || says(" is -inf");
}

std::string retirement(const LedgerData& data, const VariantRow& variant) {
  for (const EventRow& event : data.events) {
    if (event.kind != "retired") continue;
    const bool in_cell =
        std::any_of(data.launches.begin(), data.launches.end(), [&](const LaunchRow& launch) {
          return launch.id == event.launch && launch.cell == variant.cell;
        });
    // The worker quotes the variant's name; a name at the start is the engine's form.
    const bool names_it = event.detail.find("'" + variant.name + "'") != std::string::npos ||
                          event.detail.rfind(variant.name + ":", 0) == 0 ||
                          event.detail.rfind(variant.name + " ", 0) == 0;
    if (in_cell && names_it) return event.detail;
  }
  return "";
}

Evidence gather_evidence(const LedgerData& data,
                         const VisitIndex& visits,
                         const CellRow& cell,
                         const VariantRow& a,
                         const VariantRow& b) {
  Evidence evidence;
  const Parity parity = parity_of(data, cell);
  for (const GateRow& gate : data.gates)
    if (parity.launches.count(gate.launch) != 0 &&
        (gate.variant == 0 || gate.variant == a.id || gate.variant == b.id))
      evidence.gates.push_back(gate);
  judge_gates(evidence, a, b);
  if (!parity.complete) reject(evidence, Validity::Incomplete, "no parity launch is complete");
  for (const VariantRow* variant : {&a, &b})
    if (!gates_ran(evidence, *variant))
      reject(
          evidence, Validity::Incomplete, fmt::format("no parity gate of {} ran", variant->name));
  const LevelRow* level_a = level_row(data, cell, a.level);
  const LevelRow* level_b = level_row(data, cell, b.level);
  if (parity.complete && level_a && level_b) {
    judge_engaged(evidence, counts(data, parity, a, "engaged/"), a, level_a->span, level_b->span);
    judge_engaged(evidence, counts(data, parity, b, "engaged/"), b, level_b->span, level_a->span);
  }
  compare_work(evidence, data, parity, a, b);
  evidence.retired = retirement(data, b);
  if (evidence.retired.empty()) evidence.retired = retirement(data, a);
  judge_quality(evidence, equivalence_of(data, cell), a, b);
  if (equivalence_of(data, cell) == "bitwise" && evidence.quality != Quality::Unknown &&
      timed_losses_part(data, visits, cell, a, b)) {
    evidence.quality = Quality::Unknown;
    evidence.quality_reason = "the gates passed, but timed losses part where the control's are "
                              "those of its reference to the bit";
  }
  if (shows_nan(data, visits, cell, b) && !shows_nan(data, visits, cell, a)) {
    evidence.quality = Quality::Harmed;
    evidence.quality_reason = fmt::format("the loss became NaN or infinite in {} only", b.name);
    if (const std::string why = retirement(data, b); tells_of_lost_loss(why))
      evidence.quality_reason += " (" + why + ")";
  }
  return evidence;
}

} // namespace assay
