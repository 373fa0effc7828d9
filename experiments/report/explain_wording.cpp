#include "experiments/report/explain_wording.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "experiments/analysis/wording.h"

namespace assay {

namespace {

constexpr std::size_t kStagesInSentence = 3;
constexpr double kSmallestShareNamed = 0.10; // of the sum of absolute differences

// Digits behind the point so that a thousandth of the step shows.
int decimals_of(const TimeScale& scale) {
  return scale.ns == 1 ? 0 : 3;
}

// A check without an upper limit has the largest number there is.
std::string limit_text(const AuditRow& row) {
  constexpr double kNoLimit = 1e300;
  return std::abs(row.limit) < kNoLimit ? fmt::format(" (limit {:.6g})", row.limit) : "";
}

std::vector<StageDelta> largest(const Waterfall& waterfall) {
  std::vector<StageDelta> stages = waterfall.stages;
  std::stable_sort(stages.begin(), stages.end(), [](const StageDelta& x, const StageDelta& y) {
    return std::abs(x.delta_ns) > std::abs(y.delta_ns);
  });
  double sum = 0;
  for (const StageDelta& stage : stages) sum += std::abs(stage.delta_ns);
  std::erase_if(stages, [&](const StageDelta& stage) {
    return std::abs(stage.delta_ns) < kSmallestShareNamed * sum || stage.delta_ns == 0;
  });
  if (stages.size() > kStagesInSentence) stages.resize(kStagesInSentence);
  return stages;
}

// That differences which are all noise add up to noise says nothing; that they do not, does.
bool says_closure(const Waterfall& waterfall) {
  return !waterfall.closed || std::any_of(waterfall.stages.begin(),
                                          waterfall.stages.end(),
                                          [](const StageDelta& stage) { return stage.clear; });
}

} // namespace

TimeScale scale_of(const Waterfall& waterfall) {
  constexpr std::array<TimeScale, 4> kScales{{{"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"ns", 1}}};
  const double size = std::max({waterfall.a_ns, waterfall.b_ns, waterfall.timed_a_ns});
  for (const TimeScale& scale : kScales)
    if (size >= scale.ns) return scale;
  return kScales.back();
}

std::string time_text(double ns, const TimeScale& scale) {
  return fmt::format("{:.{}f}", ns / scale.ns, decimals_of(scale));
}

std::string difference_text(double ns, const TimeScale& scale) {
  const double power = std::pow(10, decimals_of(scale));
  const double value = std::round(ns / scale.ns * power) / power;
  return fmt::format("{:+.{}f}", value == 0 ? 0.0 : value, decimals_of(scale));
}

std::string difference_interval_text(const std::optional<Interval>& ns, const TimeScale& scale) {
  if (!ns) return "-";
  return fmt::format(
      "[{}, {}]", difference_text(ns->lower, scale), difference_text(ns->upper, scale));
}

std::string stage_share_text(const Waterfall& waterfall, double delta_ns) {
  if (!waterfall.traced_interval || waterfall.traced_interval->contains(0)) return "-";
  const double percent = std::round(100 * delta_ns / waterfall.traced_delta_ns());
  return fmt::format("{:.0f} %", percent == 0 ? 0.0 : percent); // never "-0 %"
}

std::string where_text(const Explanation& explanation) {
  const Waterfall& waterfall = explanation.waterfall;
  if (!waterfall.unusable.empty()) return "where: traces not usable: " + waterfall.unusable;
  const TimeScale scale = scale_of(waterfall);
  std::string text;
  for (const StageDelta& stage : largest(waterfall)) {
    text += fmt::format("{}{} {} {}",
                        text.empty() ? "" : ", ",
                        to_string(stage.stage),
                        difference_text(stage.delta_ns, scale),
                        scale.unit);
    const std::string share = stage_share_text(waterfall, stage.delta_ns);
    const char* doubt = stage.clear ? "" : "not significant";
    if (share != "-")
      text += fmt::format(" ({}{}{})", share, stage.clear ? "" : ", ", doubt);
    else if (!stage.clear)
      text += fmt::format(" ({})", doubt);
  }
  if (text.empty()) text = "no stage differs";
  if (waterfall.timed_a_ns <= 0 || !says_closure(waterfall)) return "where: " + text;
  if (waterfall.closed)
    return fmt::format("where: {}; the parts add up to the timed difference", text);
  const std::string off = share_text(std::abs(waterfall.residual_share));
  if (waterfall.traced_interval && waterfall.traced_interval->contains(waterfall.timed_delta_ns))
    return fmt::format(
        "where: too few traced steps to trust this breakdown: its parts miss the "
        "timed difference by {} of the baseline's time, within the noise of {} pairs; more "
        "[trace] rounds narrow it: {}",
        off,
        waterfall.pairs,
        text);
  return fmt::format("where: do not trust this breakdown: its parts do not add up to the timed "
                     "difference (off by {} of the baseline's time): {}",
                     off,
                     text);
}

std::string traced_pairs_text(const Explanation& explanation) {
  return fmt::format("{} pair{} of traced steps, timed on the {}",
                     explanation.waterfall.pairs,
                     explanation.waterfall.pairs == 1 ? "" : "s",
                     explanation.traced_as == "device" ? "device" : "host");
}

std::string closure_figures_text(const Waterfall& waterfall) {
  if (waterfall.timed_a_ns <= 0) return "not compared with a timed difference: there is none yet";
  if (waterfall.pairs == 0) return "not compared with the timed difference: no traced pairs";
  const TimeScale scale = scale_of(waterfall);
  return fmt::format("timed {} {}, traced {} {}; off by {} {} = {} of the baseline's step (allowed "
                     "{})",
                     difference_text(waterfall.timed_delta_ns, scale),
                     scale.unit,
                     difference_text(waterfall.traced_delta_ns(), scale),
                     scale.unit,
                     difference_text(waterfall.residual_ns, scale),
                     scale.unit,
                     change_text(waterfall.residual_share),
                     share_text(waterfall.allowed_share));
}

std::string closure_text(const Waterfall& waterfall) {
  std::string figures = closure_figures_text(waterfall);
  if (waterfall.timed_a_ns <= 0 || waterfall.pairs == 0 || !says_closure(waterfall)) return figures;
  return fmt::format("the parts {} to the timed difference: {}",
                     waterfall.closed ? "add up" : "do not add up",
                     figures);
}

std::string audit_text(const Waterfall& waterfall) {
  std::string text = "audit passed";
  if (!waterfall.a.passed || !waterfall.b.passed) {
    text = "audit failed:";
    for (const auto& [side, health] :
         {std::pair("baseline", &waterfall.a), std::pair("candidate", &waterfall.b)})
      for (const AuditRow& row : health->failed)
        text += fmt::format(" {} {} {:.6g}{}", side, row.check, row.value, limit_text(row));
  }
  if (waterfall.a.traced_over_timed <= 0 || waterfall.b.traced_over_timed <= 0) return text;
  return text + fmt::format("; a traced step takes x{:.3f} (baseline) and x{:.3f} (candidate) of a "
                            "timed one",
                            waterfall.a.traced_over_timed,
                            waterfall.b.traced_over_timed);
}

std::string calls_text(double calls) {
  return fmt::format("{:.{}f}", calls, std::abs(calls - std::round(calls)) < 1e-9 ? 0 : 2);
}

std::vector<std::string> no_breakdown_notes(const Report& report,
                                            const std::vector<ComparisonIndex>& which) {
  std::vector<std::pair<std::string, std::vector<std::string>>> by_reason;
  for (const auto& [cell, index] : which) {
    const CellReport& of = report.cells[cell];
    const std::string& why = of.comparisons[index].no_explanation;
    if (why.empty()) continue;
    auto found = std::find_if(
        by_reason.begin(), by_reason.end(), [&](const auto& known) { return known.first == why; });
    if (found == by_reason.end()) found = by_reason.insert(by_reason.end(), {why, {}});
    std::vector<std::string>& cells = found->second;
    if (std::find(cells.begin(), cells.end(), of.cell.name) == cells.end())
      cells.push_back(of.cell.name);
  }
  std::vector<std::string> notes;
  for (const auto& [why, cells] : by_reason)
    notes.push_back(fmt::format("no breakdown of {}: {}", fmt::join(cells, ", "), why));
  return notes;
}

std::optional<std::size_t> main_comparison(const Report& report, std::size_t cell) {
  const std::vector<Comparison>& comparisons = report.cells[cell].comparisons;
  std::optional<std::size_t> last;
  for (std::size_t i = 0; i < comparisons.size(); ++i) {
    if (comparisons[i].against_reference && !claims_of(report, cell, i).empty()) return i;
    if (comparisons[i].against_reference || !last) last = i;
  }
  return last;
}

} // namespace assay
