// The table of all comparisons, and what each verdict rests on in words.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <span>
#include <utility>

#include "core/text.h"
#include "experiments/analysis/looks.h"
#include "experiments/analysis/partial_launches.h"
#include "experiments/analysis/winner.h"
#include "experiments/analysis/wording.h"
#include "experiments/report/explain_wording.h"
#include "experiments/report/sections/lines.h"
#include "experiments/report/sections/list.h"

namespace assay {

namespace {

bool is_shown(const std::optional<Effect>& effect) {
  return effect && effect->theta.judged;
}

// Where pairs are excluded, or the column beside it shows no effect although there are pairs.
bool needs_all_pairs(const Report& report) {
  for (const CellReport& cell : report.cells)
    for (const Comparison& comparison : cell.comparisons)
      if (comparison.pairs.all_excluded() > 0 ||
          (comparison.effect_all && !is_shown(comparison.effect)))
        return true;
  return false;
}

// "-13.4 %", "-13.4 % (1 launch)", or "-" without a single pair.
std::string all_pairs(const Comparison& comparison) {
  const std::optional<Effect>& all = comparison.effect_all;
  if (!all) return "-";
  const std::string text = effect_text(all->theta);
  return is_shown(all) ? text
                       : fmt::format("{} ({})", text, launch_count_text(all->launches.size()));
}

SectionRow row_of(const CellReport& cell, const Comparison& comparison, bool with_all) {
  const std::optional<Effect>& effect = comparison.effect;
  SectionRow row{{cell.cell.name,
                  comparison_text(comparison),
                  table_effect_text(effect),
                  effect ? interval_text(effect->theta.judged) : "-"},
                 cell.cell.name,
                 headline(comparison.verdict).tone};
  if (with_all) row.texts.push_back(all_pairs(comparison));
  row.texts.push_back(memory_change_text(comparison.memory));
  row.texts.push_back(verdict_word(comparison.verdict));
  return row;
}

// What the difference lacks, where its 95 % interval excludes 0.
std::string no_alarm_text(const Report& report, const CellReport& cell) {
  const Estimate& theta = cell.control->comparison.effect->theta;
  if (!cell.control->no_alarm || !theta.p || *theta.p >= kShownAlpha) return "";
  const std::string start =
      fmt::format(" It excludes 0 with p = {:.2g}; an alarm needs ", *theta.p);
  switch (*cell.control->no_alarm) {
  case NoAlarm::FewLaunches:
    return fmt::format("{}{} launches.", start, kProvisionalLaunches);
  case NoAlarm::Chance:
    return fmt::format("{}p below {}.", start, kControlAlarmP);
  case NoAlarm::SmallEffect:
    return fmt::format(
        "{}more than the smallest effect of interest, {}.", start, share_text(report.spec.sesoi));
  }
  internal_error("unknown reason for no alarm");
}

// Of cells whose energy launch gave no figure.
std::string energy_note(const Report& report) {
  std::vector<std::string> cells;
  std::string why;
  for (const CellReport& cell : report.cells) {
    if (cell.no_energy.empty()) continue;
    cells.push_back(cell.cell.name);
    why = cell.no_energy;
  }
  return cells.empty() ? "" : fmt::format("Energy of {}: {}.", fmt::join(cells, ", "), why);
}

// "A/A control (baseline against itself): no alarm in 5 cells, largest difference -0.72 % in x".
std::string control_note(const Report& report) {
  std::vector<std::string> alarms;
  const CellReport* largest = nullptr;
  std::size_t measured = 0;
  const auto size = [](const CellReport* cell) {
    return std::abs(cell->control->comparison.effect->theta.value);
  };
  for (const CellReport& cell : report.cells) {
    if (!cell.control || !cell.control->comparison.effect) continue;
    ++measured;
    if (cell.control->alarm) alarms.push_back(cell.cell.name);
    if (largest == nullptr || size(&cell) > size(largest)) largest = &cell;
  }
  if (largest == nullptr) return "";
  const Estimate& theta = largest->control->comparison.effect->theta;
  return fmt::format("A/A control (baseline against itself): {}; largest difference {} in {}.{}",
                     alarms.empty()
                         ? fmt::format("no alarm in {} cell{}", measured, measured == 1 ? "" : "s")
                         : fmt::format("ALARM in {}", fmt::join(alarms, ", ")),
                     at_95_text(theta),
                     largest->cell.name,
                     alarms.empty() ? no_alarm_text(report, *largest) : "");
}

// "2 in ema, 1 in guard": a number of launches by cell, where there are any.
std::string by_cell(const Report& report, int CellReport::*count) {
  std::vector<std::string> cells;
  for (const CellReport& cell : report.cells)
    if (cell.*count > 0) cells.push_back(fmt::format("{} in {}", cell.*count, cell.cell.name));
  return fmt::format("{}", fmt::join(cells, ", "));
}

// Attempts that `assay run --redo` replaced, by cell.
std::string repeated_note(const Report& report) {
  const std::string cells = by_cell(report, &CellReport::superseded_launches);
  if (cells.empty()) return "";
  return fmt::format("Launches measured again (`assay run --redo`): {}; the replaced attempts "
                     "enter no verdict.",
                     cells);
}

// Attempts of `assay run --redo` that replaced nothing, by cell.
std::string set_aside_note(const Report& report) {
  const std::string cells = by_cell(report, &CellReport::launches_set_aside);
  if (cells.empty()) return "";
  return fmt::format(
      "Repetitions set aside, because other work disturbed them beyond the limit and "
      "more than the earlier launch: {}; the earlier launch enters the verdict.",
      cells);
}

// "varlen (a -> b, a -> c), norms (a -> b)": the comparisons with such a verdict, or "".
template <class Predicate>
std::string comparisons_by_cell(const Report& report, const Predicate& holds) {
  std::vector<std::string> cells;
  for (const CellReport& cell : report.cells) {
    std::vector<std::string> levels;
    for (const Comparison& comparison : cell.comparisons)
      if (comparison.verdict.validity == Validity::Ok && holds(comparison.verdict))
        levels.push_back(comparison_text(comparison));
    if (!levels.empty())
      cells.push_back(fmt::format("{} ({})", cell.cell.name, fmt::join(levels, ", ")));
  }
  return fmt::format("{}", fmt::join(cells, ", "));
}

// FASTER of which nothing shows that training is unharmed.
std::string quality_note(const Report& report) {
  const std::string cells = comparisons_by_cell(report, [](const Verdict& verdict) {
    return verdict.speed == Speed::Faster && verdict.quality == Quality::Unknown;
  });
  return cells.empty() ? "" : "FASTER, but quality unproven: " + cells + ".";
}

// The interval is clear, and still no verdict.
std::string few_launches_note(const Report& report) {
  const std::string cells = comparisons_by_cell(report, [](const Verdict& verdict) {
    return verdict.speed == Speed::Inconclusive &&
           std::any_of(verdict.reasons.begin(), verdict.reasons.end(), [](const Reason& reason) {
             return reason.code == ReasonCode::Provisional;
           });
  });
  return cells.empty() ? ""
                       : fmt::format("INCONCLUSIVE for lack of launches, since FASTER and SLOWER "
                                     "need {}: {}.",
                                     kFullLaunches,
                                     cells);
}

// Cells whose results decide how many launches they run.
std::string looks_note(const Report& report) {
  std::vector<std::string> texts;
  for (const CellReport& cell : report.cells)
    if (std::string text = looks_text(cell); !text.empty())
      texts.push_back(fmt::format("{} {}", cell.cell.name, text));
  return texts.empty() ? ""
                       : fmt::format("Launches as the results asked for, alpha spent over the "
                                     "looks: {}.",
                                     fmt::join(texts, "; "));
}

constexpr std::size_t kFindings = 3; // of each kind, and above the table

struct Finding {
  const CellReport* cell;
  const Comparison* comparison;
};

// Worst first; 0: the measurement is in order and training is not known to be harmed.
int problem_rank(const Verdict& verdict) {
  if (verdict.quality == Quality::Harmed) return 5;
  switch (verdict.validity) {
  case Validity::ParityFailed:
    return 4;
  case Validity::Invalid:
    return 3;
  case Validity::NotEngaged:
    return 2;
  case Validity::Contended:
    return 1;
  default:
    return 0;
  }
}

bool is_decided(const Comparison& comparison) {
  return comparison.verdict.validity == Validity::Ok && comparison.effect &&
         needs_details(comparison.verdict);
}

bool is_problem(const Comparison& comparison) {
  return problem_rank(comparison.verdict) > 0 || !is_decided(comparison);
}

// Why the verdict is what it is: the stages that differ, else the first reason that is a cause, not
// a doubt about the precision.
std::string main_reason(const Comparison& comparison) {
  const bool problem = is_problem(comparison);
  // Where the parts do not add up, the breakdown stays with the details of the comparison.
  if (!problem && comparison.explanation && comparison.explanation->waterfall.unusable.empty() &&
      comparison.explanation->waterfall.closed)
    return where_text(*comparison.explanation);
  for (const Reason& reason : comparison.verdict.reasons)
    if (reason.code != ReasonCode::NotSteady && reason.code != ReasonCode::Provisional)
      return reason.text;
  return "";
}

// Without the reason.
std::string finding_text(const Finding& finding) {
  const Comparison& comparison = *finding.comparison;
  std::string text = fmt::format("{}: {}: {}",
                                 finding.cell->cell.name,
                                 comparison_text(comparison),
                                 verdict_word(comparison.verdict));
  if (!is_problem(comparison)) {
    if (comparison.verdict.quality == Quality::Unknown) text += ", quality unproven,";
    text += " " + effect_text(comparison.effect->theta);
    if (comparison.end_to_end)
      text += fmt::format(" of the {}, {} of training time",
                          unit_text(finding.cell->cell),
                          effect_text(comparison.end_to_end->log_ratio));
  }
  return text;
}

double effect_on_unit(const Comparison& comparison) {
  const std::optional<Effect>& effect =
      comparison.effect ? comparison.effect : comparison.effect_all;
  return effect ? std::abs(effect->theta.value) : 0;
}

// Worst first; of equal ones the largest effect first.
std::vector<Finding> worst_problems(std::vector<Finding> found) {
  std::stable_sort(found.begin(), found.end(), [](const Finding& x, const Finding& y) {
    const auto rank = [](const Finding& finding) {
      return std::pair(problem_rank(finding.comparison->verdict),
                       effect_on_unit(*finding.comparison));
    };
    return rank(x) > rank(y);
  });
  if (found.size() > kFindings) found.resize(kFindings);
  return found;
}

// By their effect on training. The largest effect on a unit's own time, the one that stands out in
// the table, is always among them.
std::vector<Finding> largest_effects(std::vector<Finding> found) {
  std::stable_sort(found.begin(), found.end(), [](const Finding& x, const Finding& y) {
    return std::abs(effect_on_training(*x.comparison)) >
           std::abs(effect_on_training(*y.comparison));
  });
  if (found.size() <= kFindings) return found;
  const auto largest =
      std::max_element(found.begin(), found.end(), [](const Finding& x, const Finding& y) {
        return effect_on_unit(*x.comparison) < effect_on_unit(*y.comparison);
      });
  if (largest >= found.begin() + kFindings) found[kFindings - 1] = *largest;
  found.resize(kFindings);
  return found;
}

// Problems, then effects; where there is an effect, one is among the first kFindings. Where there
// is neither, what keeps the plan from its verdicts.
std::vector<Finding> findings_of(const Report& report) {
  std::vector<Finding> problems, decided, incomplete;
  for (const CellReport& cell : report.cells)
    for (const Comparison& comparison : cell.comparisons)
      if (problem_rank(comparison.verdict) > 0)
        problems.push_back({&cell, &comparison});
      else if (is_decided(comparison))
        decided.push_back({&cell, &comparison});
      else if (comparison.verdict.validity == Validity::Incomplete && !is_untouched(comparison))
        incomplete.push_back({&cell, &comparison});
  if (problems.empty() && decided.empty()) return incomplete;
  std::vector<Finding> findings = worst_problems(std::move(problems));
  const bool only_problems_first = findings.size() == kFindings;
  std::ranges::move(largest_effects(std::move(decided)), std::back_inserter(findings));
  if (only_problems_first && findings.size() > kFindings)
    std::swap(findings[kFindings - 1], findings[kFindings]);
  return findings;
}

// A reason that several have is said of the first.
Section list_of(Section section, std::span<const Finding> findings) {
  std::set<std::string> said;
  for (const Finding& finding : findings) {
    std::string text = finding_text(finding);
    if (const std::string reason = main_reason(*finding.comparison); !reason.empty())
      text += "; " + (said.insert(reason).second ? reason : "as above");
    section.rows.push_back({{std::move(text)}, finding.cell->cell.name});
  }
  return section;
}

} // namespace

Section findings_section(const Report& report) {
  const std::vector<Finding> all = findings_of(report);
  return list_of({.id = "findings", .title = "Main findings"},
                 std::span(all).first(std::min(all.size(), kFindings)));
}

Section further_findings_section(const Report& report) {
  const std::vector<Finding> all = findings_of(report);
  return list_of({.id = "further_findings", .title = "Further findings"},
                 std::span(all).subspan(std::min(all.size(), kFindings)));
}

Section verdicts_section(const Report& report) {
  const bool with_all = needs_all_pairs(report);
  Section section{.id = "verdicts", .title = "Verdicts", .names = 2};
  section.columns = {{"cell"},
                     {"baseline -> candidate"},
                     {"effect", true},
                     {interval_level_text(report) + " interval", true}};
  if (with_all) section.columns.push_back({"all pairs", true});
  section.columns.push_back({"memory", true});
  section.columns.push_back({"verdict", false, true});
  for (const CellReport& cell : report.cells)
    for (const Comparison& comparison : cell.comparisons)
      section.rows.push_back(row_of(cell, comparison, with_all));
  if (section.rows.empty()) {
    section.notes.push_back("The plan has no comparison.");
    return section;
  }
  section.notes.push_back(
      "Effect: change of the wall time per unit. The verdict reads the interval beside it" +
      (report.judgements > 1 ? fmt::format(" (alpha = {:.4g}, shared by {} verdicts).",
                                           report.spec.alpha,
                                           report.judgements)
                             : "."));
  if (with_all)
    section.notes.push_back("All pairs: the effect of every pair, those that other work disturbed "
                            "included; no verdict reads it.");
  for (const auto& build : {looks_note,
                            winner_text,
                            quality_note,
                            few_launches_note,
                            repeated_note,
                            set_aside_note,
                            energy_note,
                            control_note})
    if (std::string note = build(report); !note.empty()) section.notes.push_back(std::move(note));
  return section;
}

Section reasons_section(const ComparisonPlace& place) {
  const Comparison& comparison = place.comparison();
  Section section{.id = "reasons", .title = "Why"};
  const auto add = [&](const std::string& text) {
    if (!text.empty()) section.rows.push_back({{text}, place.cell().cell.name});
  };
  for (const Reason& reason : comparison.verdict.reasons) add(reason.text);
  add(repeated_line(place.cell()));
  add(partial_line(place.cell()));
  add(unit_line(place.cell(), comparison));
  add(all_pairs_line(comparison));
  add(end_to_end_line(place.cell(), comparison));
  add(scaling_line(comparison));
  add(data_wait_line(comparison));
  add(tokens_twice_line(comparison));
  add(loss_note(comparison));
  if (comparison.energy) add("energy: " + energy_line(place.cell(), comparison));
  for (const auto& [label, text] : to_loss_lines(comparison))
    add(fmt::format("{}: {}", label, text));
  if (comparison.explanation) add(where_text(*comparison.explanation));
  add(ranks_text(comparison));
  add(collectives_text(comparison));
  return section;
}

} // namespace assay
