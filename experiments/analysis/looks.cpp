#include "experiments/analysis/looks.h"

#include <algorithm>

#include "core/text.h"

namespace assay {

namespace {

bool is_narrow(const std::optional<Interval>& interval, double width) {
  return interval && interval->upper - interval->lower <= width;
}

// More launches change neither what a gate rejected nor what ended a variant.
bool is_final(const Comparison& comparison) {
  const Validity validity = comparison.verdict.validity;
  return validity == Validity::ParityFailed || validity == Validity::NotEngaged ||
         !comparison.evidence.retired.empty();
}

bool is_open(const Comparison& comparison, double sesoi) {
  if (is_final(comparison)) return false;
  if (comparison.verdict.validity != Validity::Ok) return true;
  return comparison.verdict.speed == Speed::Inconclusive &&
         !is_narrow(comparison.effect->theta.judged, sesoi);
}

bool is_open(const Contrast& contrast, double sesoi) {
  return contrast.state == ContrastState::Undecided && contrast.effect &&
         !is_narrow(contrast.effect->theta.judged, sesoi);
}

bool is_open(const ClaimResult& claim, const Comparison& comparison, double sesoi) {
  return claim.state == ClaimState::Undecided &&
         claim.reason.code == ReasonCode::IntervalUndecided && comparison.effect &&
         !is_narrow(comparison.effect->theta.judged, sesoi);
}

} // namespace

bool is_decided(const LedgerData& data, std::int64_t id) {
  const Report report = judge_results(data);
  for (std::size_t i = 0; i < report.cells.size(); ++i) {
    const CellReport& cell = report.cells[i];
    if (cell.cell.id != id) continue;
    const double sesoi = report.spec.sesoi;
    const auto open = [&](const auto& one) { return is_open(one, sesoi); };
    if (std::ranges::any_of(cell.comparisons, open) || std::ranges::any_of(cell.contrasts, open))
      return false;
    for (std::size_t j = 0; j < cell.comparisons.size(); ++j)
      for (const ClaimResult* claim : claims_of(report, i, j))
        if (is_open(*claim, cell.comparisons[j], sesoi)) return false;
  }
  return true;
}

std::string looks_text(const CellReport& cell) {
  const std::vector<int>& looks = cell.cell.looks;
  if (looks.empty()) return "";
  const std::string level = fmt::format("interval {:.4g} %", 100 * (1 - cell.judged_alpha));
  if (cell.looks.decided)
    return fmt::format("decided at look {} of {}, after {} launches ({})",
                       cell.looks.taken,
                       looks.size(),
                       looks[cell.looks.taken - 1],
                       level);
  if (cell.looks.taken == looks.size())
    return fmt::format("undecided at the last look, after {} launches ({})", looks.back(), level);
  return fmt::format("not at its end: looks after {} launches ({})", fmt::join(looks, ", "), level);
}

} // namespace assay
