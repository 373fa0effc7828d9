#include "experiments/analysis/wording.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "core/ledger/memory_parts.h"
#include "core/text.h"

namespace assay {

std::string launch_count_text(std::size_t launches) {
  return fmt::format("{} launch{}", launches, launches == 1 ? "" : "es");
}

std::string launch_text(const LaunchRow& launch) {
  std::string text = fmt::format("{} {}", to_string(launch.kind), launch.index);
  if (launch.attempt > 0) text += fmt::format(", attempt {}", launch.attempt + 1);
  return text;
}

std::string cores_text(const Identity& identity, bool threads_vary) {
  const std::string threads =
      threads_vary
          ? "compute threads by variant"
          : fmt::format("{} compute thread{}", identity.threads, identity.threads == 1 ? "" : "s");
  return fmt::format("{} core{}, {}", identity.cores, identity.cores == 1 ? "" : "s", threads);
}

namespace {

constexpr double kNsPerSecond = 1e9;
constexpr double kAsMultiple = 1; // gains of throughput that are printed as multiples: x2 and more

// Never "-0.00".
double rounded(double percent, int places) {
  const double scale = std::pow(10, places);
  const double value = std::round(percent * scale) / scale;
  return value == 0 ? 0 : value;
}

std::string signed_percent(double share, int places) {
  return fmt::format("{:+.{}f}", rounded(100 * share, places), places);
}

constexpr double kMostShown = 1000; // times more: two launches that disagree bound nothing above

// A bound below 0 keeps its sign where it rounds to 0: "[-0.0, +10.5] %" contains 0.
std::string bracket(const Interval& shares) {
  const int places =
      std::min(decimals_of_three(100 * shares.lower), decimals_of_three(100 * shares.upper));
  const auto bound = [&](double share) {
    if (share > kMostShown) return fmt::format(">+{:.0f}", 100 * kMostShown);
    const std::string text = signed_percent(share, places);
    return share < 0 && text.front() == '+' ? "-" + text.substr(1) : text;
  };
  return fmt::format("[{}, {}] %", bound(shares.lower), bound(shares.upper));
}

// An interval over launches needs two of them.
std::string no_interval(const Estimate& log) {
  if (log.by_launch.empty()) return " (no interval)";
  return fmt::format(" ({}, no interval)", launch_count_text(log.by_launch.size()));
}

Interval change(const Interval& log) {
  return {std::expm1(log.lower), std::expm1(log.upper)};
}

} // namespace

std::string share_text(double share) {
  const int places = decimals_of_three(100 * share);
  const bool whole = std::abs(100 * share - std::round(100 * share)) < 1e-9;
  return fmt::format("{:.{}f} %", rounded(100 * share, places), whole ? 0 : places);
}

std::string change_text(double share) {
  if (!std::isfinite(share)) return "-";
  if (share == 0) return "0 %"; // exactly: bytes and counts, not times
  return signed_percent(share, decimals_of_three(100 * share)) + " %";
}

std::string effect_text(const Estimate& log) {
  return change_text(std::expm1(log.value));
}

std::string interval_text(const std::optional<Interval>& log) {
  return log ? bracket(change(*log)) : "-";
}

std::string judged_text(const Estimate& log) {
  return effect_text(log) + (log.judged ? " " + interval_text(log.judged) : no_interval(log));
}

std::string at_95_text(const Estimate& log) {
  return effect_text(log) +
         (log.at_95 ? ", 95 % interval " + interval_text(log.at_95) : no_interval(log));
}

std::string table_effect_text(const std::optional<Effect>& effect) {
  return effect && effect->theta.judged ? effect_text(effect->theta) : "-";
}

std::string unit_text(const CellRow& cell) {
  std::string words = cell.unit;
  std::replace(words.begin(), words.end(), '_', ' ');
  return words;
}

std::string shares_text(const Interval& shares) {
  return bracket(shares);
}

std::string gain_range_text(double lo, double hi) {
  const auto number = [](double share) {
    std::string text = fmt::format("{:+.4g}", rounded(100 * share, 4));
    return text == "+0" ? std::string("0") : text;
  };
  if (lo == hi) return number(lo) + " %";
  if (std::isinf(hi)) return number(lo) + " % or more";
  return fmt::format("{} to {} %", number(lo), number(hi));
}

std::string gain_text(ClaimMetric metric, double gain) {
  return metric == ClaimMetric::SecondsPerParameter ? fmt::format("{:.3g} ns", gain * kNsPerSecond)
                                                    : change_text(gain);
}

std::string gains_text(ClaimMetric metric, const Interval& gains) {
  if (metric != ClaimMetric::SecondsPerParameter) return shares_text(gains);
  return fmt::format("[{:.3g}, {:.3g}] ns", gains.lower * kNsPerSecond, gains.upper * kNsPerSecond);
}

std::string claimed_range_text(ClaimMetric metric, const Interval& claimed) {
  if (metric != ClaimMetric::SecondsPerParameter)
    return gain_range_text(claimed.lower, claimed.upper);
  const double lo = claimed.lower * kNsPerSecond, hi = claimed.upper * kNsPerSecond;
  return lo == hi ? fmt::format("{:.4g} ns", lo) : fmt::format("{:.4g} to {:.4g} ns", lo, hi);
}

std::string unit_time_text(const Effect& effect) {
  struct Scale {
    const char* unit;
    double ns;
  };
  constexpr std::array<Scale, 4> kScales{{{"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"ns", 1}}};
  std::size_t i = 0;
  while (i + 1 < kScales.size() && effect.a_ns < kScales[i].ns) ++i;
  return fmt::format("{:#.4g} -> {:#.4g} {}",
                     effect.a_ns / kScales[i].ns,
                     effect.b_ns / kScales[i].ns,
                     kScales[i].unit);
}

namespace {

std::string share_of_memory_text(const MemoryEffect& memory) {
  const double share = std::expm1(memory.log_ratio.value);
  return change_text(rounded(100 * share, decimals_of_three(100 * share)) == 0 ? 0 : share);
}

} // namespace

std::string memory_change_text(const std::optional<MemoryEffect>& memory) {
  return memory && !memory->drowned() ? share_of_memory_text(*memory) : "-";
}

std::string memory_text(const std::optional<MemoryEffect>& memory) {
  if (!memory) return "-";
  std::string value = share_of_memory_text(*memory);
  if (memory->exact) return value;
  if (memory->log_ratio.judged) return value + " " + interval_text(memory->log_ratio.judged);
  return memory->drowned() ? value + " (the baseline and its control differ by more)" : value;
}

std::string mde_text(const std::optional<Effect>& effect) {
  return effect && effect->mde ? share_text(std::expm1(*effect->mde)) : "-";
}

std::string verdict_word(const Verdict& verdict) {
  const bool meaningful =
      verdict.validity != Validity::ParityFailed && verdict.validity != Validity::NotEngaged;
  if (meaningful && verdict.quality == Quality::Harmed) return "HARMED";
  return std::string(verdict.validity == Validity::Ok ? to_string(verdict.speed)
                                                      : to_string(verdict.validity));
}

namespace {

// "weights,ema" -> "weights, EMA"
std::string phases_text(const std::string& phases) {
  std::string text;
  for (const MemoryPhase& phase : kMemoryPhases)
    if (has_phase(phases, phase.name))
      text += fmt::format("{}{}", text.empty() ? "" : ", ", phase.words);
  return text;
}

} // namespace

std::string claimed_text(const ClaimRow& claim) {
  if (claim.metric == kSetting) return "a recommended setting, no gain claimed";
  const auto metric = claim_metric(claim.metric);
  std::string quantity = claim.metric; // as for one that this build does not measure
  std::replace(quantity.begin(), quantity.end(), '_', ' ');
  bool less = true;
  for (const ClaimMetricRow& row : claim_metrics())
    if (row.name == claim.metric) quantity = row.words, less = !row.more;
  if (!claim.of.empty()) quantity += " in " + phases_text(claim.of);
  if (claim.lo < 0 && claim.hi <= 0 && less) // a bounded cost
    return fmt::format("at most {:.3g} % more {}", -100 * claim.lo, quantity);
  const std::string what = (less ? "less " : "") + quantity;
  if (claim.lo == 0 && std::isinf(claim.hi))
    return fmt::format(
        "{}{} (no figure given)", metric == ClaimMetric::Throughput ? "more " : "", what);
  std::string range = metric ? claimed_range_text(*metric, {claim.lo, claim.hi})
                             : gain_range_text(claim.lo, claim.hi);
  if (metric == ClaimMetric::Throughput && claim.lo >= kAsMultiple)
    range = std::isinf(claim.hi)   ? fmt::format("x{:.4g} or more", 1 + claim.lo)
            : claim.lo == claim.hi ? fmt::format("x{:.4g}", 1 + claim.lo)
                                   : fmt::format("x{:.4g} to x{:.4g}", 1 + claim.lo, 1 + claim.hi);
  else if (metric != ClaimMetric::Throughput && claim.lo >= 0)
    std::erase(range, '+'); // "60 % less"
  return fmt::format("{} {}", range, what);
}

std::string gain_text(const ClaimResult& result) {
  if (!result.gain) return "-";
  const auto metric = claim_metric(result.claim.metric);
  const double gain = *result.gain;
  std::optional<Interval> interval = result.gain_judged;
  if (interval && interval->upper <= interval->lower) interval.reset();
  std::string text;
  if (metric == ClaimMetric::SecondsPerParameter)
    return fmt::format("{} less{}",
                       gain_text(*metric, gain),
                       interval ? " " + gains_text(*metric, *interval) : "");
  if (metric == ClaimMetric::UntrainedLoss)
    return fmt::format(
        "{}{} of ln(vocabulary)", share_text(gain), interval ? " " + shares_text(*interval) : "");
  if (!metric || *metric == ClaimMetric::Throughput) {
    text = gain >= kAsMultiple ? fmt::format("x{:.3g}", 1 + gain) : change_text(gain);
    if (interval && gain >= kAsMultiple)
      text += fmt::format(" [{:.3g}, {:.3g}]", 1 + interval->lower, 1 + interval->upper);
    else if (interval)
      text += " " + bracket(*interval);
  } else { // a gain is less of it
    text = change_text(std::abs(gain)) + (gain < 0 ? " more" : " less");
    std::erase(text, '+');
    if (interval)
      text += " " + bracket(gain < 0 ? Interval{-interval->upper, -interval->lower} : *interval);
  }
  return text + (result.end_to_end ? " end to end" : "");
}

std::string measured_text(const ClaimResult& result) {
  return result.gain ? "measured " + gain_text(result) : "not measured";
}

std::string claimed_stages_text(const ClaimRow& claim) {
  std::string text;
  for (const char c : claim.stages) text += c == ',' ? ", " : std::string(1, c);
  return text;
}

std::string claim_state_text(const ClaimResult& result) {
  std::string text(to_string(result.state));
  const bool decided = result.state != ClaimState::NotTested &&
                       result.state != ClaimState::ConditionsNotMet &&
                       result.state != ClaimState::Undecided;
  if (!decided) return text;
  if (result.exceeds && result.provisional) return text + " (exceeds, provisional)";
  if (result.exceeds) return text + " (exceeds)";
  return result.provisional ? text + " (provisional)" : text;
}

std::string interval_level_text(const Report& report) {
  const bool by_look = std::ranges::any_of(
      report.cells, [](const CellReport& cell) { return !cell.cell.looks.empty(); });
  return by_look ? "judged" : fmt::format("{:.4g} %", 100 * (1 - report.judged_alpha));
}

namespace {

// ", 4 usable" by the launches that count in each comparison; "" where all do.
std::string usable_text(const std::set<std::size_t>& used, int launches) {
  if (used.empty()) return "";
  if (*used.rbegin() == 0) return ", none usable";
  if (used.size() > 1)
    return fmt::format(", {} usable (depends on the comparison)", fmt::join(used, " or "));
  return std::cmp_equal(*used.begin(), launches) ? "" : fmt::format(", {} usable", *used.begin());
}

std::string launches_text(const CellReport& cell, const std::vector<const Comparison*>& compared) {
  std::string text =
      cell.launches_with_copies == cell.counted_launches
          ? fmt::format("{} of {} launches", cell.counted_launches, cell.planned_launches)
          : fmt::format(
                "{} launches of {} planned", cell.launches_with_copies, cell.planned_launches);
  std::set<std::size_t> used;
  for (const Comparison* comparison : compared)
    if (!comparison->pairs.launches.empty())
      used.insert(comparison->effect ? comparison->effect->launches.size() : 0);
  text += usable_text(used, cell.launches_with_copies);
  if (cell.superseded_launches > 0)
    text += fmt::format(", {} measured again", cell.superseded_launches);
  if (cell.launches_set_aside > 0)
    text += fmt::format(", {} set aside (repetition disturbed)", cell.launches_set_aside);
  return text;
}

} // namespace

std::string launches_text(const CellReport& cell) {
  std::vector<const Comparison*> compared;
  for (const Comparison& comparison : cell.comparisons) compared.push_back(&comparison);
  return launches_text(cell, compared);
}

std::string control_launches_text(const CellReport& cell) {
  if (!cell.control) return launches_text(cell, {});
  return launches_text(cell, {&cell.control->comparison});
}

std::string disturbed_text(int disturbed, int launches) {
  return fmt::format("other work disturbed {} of {} launches", disturbed, launches);
}

std::string control_text(const CellReport& cell) {
  if (!cell.control) return "no A/A control in this cell";
  if (!cell.control->comparison.effect && !cell.control->comparison.pairs.launches.empty())
    return "A/A control: no usable pairs (machine busy)";
  if (!cell.control->comparison.effect) return "A/A control not measured yet";
  const Estimate& theta = cell.control->comparison.effect->theta;
  return fmt::format("A/A control {}{}", at_95_text(theta), cell.control->alarm ? ", ALARM" : "");
}

std::string comparison_text(const Comparison& comparison) {
  return comparison.a + " -> " + comparison.b;
}

std::string unit_line(const CellReport& cell, const Comparison& comparison) {
  if (!comparison.effect) return "";
  return fmt::format("{} per {} (medians of its pairs{})",
                     unit_time_text(*comparison.effect),
                     unit_text(cell.cell),
                     cell.cell.apart   ? "; each side in a process of its own, one after the other"
                     : cell.cell.turns ? "; each side in a process of its own"
                                       : "");
}

std::string all_pairs_line(const Comparison& comparison) {
  if (comparison.pairs.all_excluded() == 0 || !comparison.effect_all) return "";
  return fmt::format("with all {} pairs ({} disturbed): {}",
                     comparison.pairs.all_pairs(),
                     comparison.pairs.all_excluded(),
                     judged_text(comparison.effect_all->theta));
}

double scaling_efficiency(const Comparison& comparison, double log_ratio) {
  return std::exp(-log_ratio) / comparison.times_ranks;
}

std::string scaling_line(const Comparison& comparison) {
  if (comparison.times_ranks == 0 || !comparison.effect) return "";
  const Estimate& theta = comparison.effect->theta;
  const auto share = [&](double log_ratio) { return scaling_efficiency(comparison, log_ratio); };
  return fmt::format("efficiency of {:.3g} times the ranks: {}{} of perfect scaling",
                     comparison.times_ranks,
                     share_text(share(theta.value)),
                     theta.judged ? fmt::format(" [{:.1f}, {:.1f}] %",
                                                100 * share(theta.judged->upper),
                                                100 * share(theta.judged->lower))
                                  : no_interval(theta));
}

std::string data_wait_line(const Comparison& comparison) {
  if (!comparison.data_wait) return "";
  const auto wait = [](double ns) {
    return ns > 0 ? human_seconds(ns * 1e-9) + " per step" : std::string("never");
  };
  return fmt::format("waits for the loader: {} -> {} (blocked, mean, warm-up included)",
                     wait(comparison.data_wait->a_ns),
                     wait(comparison.data_wait->b_ns));
}

std::string tokens_twice_line(const Comparison& comparison) {
  if (!comparison.data_wait) return "";
  const DataWait& value = *comparison.data_wait;
  if (value.a_twice == 0 && value.b_twice == 0) return "";
  return fmt::format("tokens handed out twice by the loader: {:.3g} -> {:.3g} per step",
                     value.a_twice,
                     value.b_twice);
}

std::string end_to_end_line(const CellReport& cell, const Comparison& comparison) {
  if (!comparison.end_to_end) return "";
  const EndToEnd& value = *comparison.end_to_end;
  return fmt::format("end to end {} of training time: one {} per {:.0f} step{} of {}",
                     judged_text(value.log_ratio),
                     unit_text(cell.cell),
                     value.every,
                     value.every == 1 ? "" : "s",
                     human_seconds(value.step_ns * 1e-9));
}

bool needs_details(const Verdict& verdict) {
  const bool claim_decided = verdict.claim != ClaimState::Undecided &&
                             verdict.claim != ClaimState::NotTested &&
                             verdict.claim != ClaimState::ConditionsNotMet;
  return verdict.validity != Validity::Ok || verdict.speed != Speed::Inconclusive ||
         verdict.quality == Quality::Harmed || claim_decided;
}

bool shows_details(const Comparison& comparison) {
  return needs_details(comparison.verdict) ||
         (comparison.loss && comparison.verdict.quality == Quality::Equivalent);
}

bool is_unmeasured(const Comparison& comparison) {
  return comparison.verdict.validity == Validity::Incomplete && comparison.pairs.launches.empty();
}

bool is_unmeasured(const Report& report, const ClaimResult& result) {
  return result.state == ClaimState::Undecided && !result.gain && result.cell &&
         is_unmeasured(report.cells[*result.cell].comparisons[*result.comparison]);
}

std::string loss_note(const Comparison& comparison) {
  if (!comparison.loss) return "";
  const auto& reasons = comparison.verdict.reasons;
  const bool in_reasons = std::any_of(reasons.begin(), reasons.end(), [&](const Reason& reason) {
    return reason.code == ReasonCode::LossTest;
  });
  return in_reasons ? "" : loss_text(*comparison.loss);
}

std::string repeated_line(const CellReport& cell) {
  std::vector<std::string> parts;
  if (const int count = cell.superseded_launches; count > 0)
    parts.push_back(
        fmt::format("{} timed launch{} measured again; {} other attempt{} not enter the verdict",
                    count,
                    count == 1 ? " was" : "es were",
                    cell.replaced_attempts,
                    cell.replaced_attempts == 1 ? " does" : "s do"));
  if (cell.redone_by_name)
    parts.push_back("the cell was named for it: if its result was known, the new one is biased");
  if (const int count = cell.launches_set_aside; count > 0)
    parts.push_back(fmt::format("{} repetition{} disturbed and set aside; the earlier launch{}",
                                count,
                                count == 1 ? " was" : "s were",
                                count == 1 ? " enters the verdict" : "es enter the verdict"));
  return fmt::format("{}", fmt::join(parts, "; "));
}

} // namespace assay
