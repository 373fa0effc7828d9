// The table of all comparisons, and what each verdict rests on in words.
#include <algorithm>
#include <cmath>

#include "core/text.h"
#include "experiments/analysis/wording.h"
#include "experiments/report/explain_wording.h"
#include "experiments/report/sections/list.h"

namespace assay {

namespace {

bool any_excluded(const Report& report) {
  for (const CellReport& cell : report.cells)
    for (const Comparison& comparison : cell.comparisons)
      if (comparison.pairs.all_excluded() > 0) return true;
  return false;
}

std::string all_pairs(const Comparison& comparison) {
  if (comparison.pairs.all_excluded() == 0 || !comparison.effect_all) return "";
  return effect_text(comparison.effect_all->theta);
}

SectionRow row_of(const CellReport& cell, const Comparison& comparison, bool excluded) {
  const std::optional<Effect>& effect = comparison.effect;
  SectionRow row{{cell.cell.name,
                  comparison_text(comparison),
                  effect ? effect_text(effect->theta) : "-",
                  effect ? interval_text(effect->theta.judged) : "-"},
                 cell.cell.name,
                 headline(comparison.verdict).tone};
  if (excluded) row.texts.push_back(all_pairs(comparison));
  row.texts.push_back(comparison.memory ? effect_text(comparison.memory->log_ratio) : "-");
  row.texts.push_back(verdict_word(comparison.verdict));
  return row;
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
  return fmt::format("A/A control (baseline against itself): {}; largest difference {} {} in {}.",
                     alarms.empty()
                         ? fmt::format("no alarm in {} cell{}", measured, measured == 1 ? "" : "s")
                         : fmt::format("ALARM in {}", fmt::join(alarms, ", ")),
                     effect_text(theta),
                     interval_text(theta.at_95),
                     largest->cell.name);
}

// Attempts that `assay run --redo` replaced, by cell.
std::string repeated_note(const Report& report) {
  std::vector<std::string> cells;
  for (const CellReport& cell : report.cells)
    if (cell.superseded_launches > 0)
      cells.push_back(fmt::format("{} in {}", cell.superseded_launches, cell.cell.name));
  if (cells.empty()) return "";
  return fmt::format("Launches measured again (`assay run --redo`): {}; only the last attempt of a "
                     "launch enters the verdict.",
                     fmt::join(cells, ", "));
}

constexpr std::size_t kFindings = 3;

struct Finding {
  const CellReport* cell;
  const Comparison* comparison;
};

// What explains a verdict best: the stages that differ, else its first reason.
std::string main_reason(const Comparison& comparison) {
  if (comparison.explanation && comparison.explanation->waterfall.unusable.empty())
    return where_text(*comparison.explanation);
  return comparison.verdict.reasons.empty() ? "" : comparison.verdict.reasons.front().text;
}

} // namespace

Section findings_section(const Report& report) {
  std::vector<Finding> found;
  for (const CellReport& cell : report.cells)
    for (const Comparison& comparison : cell.comparisons)
      if (comparison.effect && needs_details(comparison.verdict) &&
          comparison.verdict.validity == Validity::Ok)
        found.push_back({&cell, &comparison});
  std::stable_sort(found.begin(), found.end(), [](const Finding& x, const Finding& y) {
    return std::abs(x.comparison->effect->theta.value) >
           std::abs(y.comparison->effect->theta.value);
  });
  if (found.size() > kFindings) found.resize(kFindings);
  Section section{.id = "findings", .title = "Main findings"};
  for (const auto& [cell, comparison] : found) {
    const std::string reason = main_reason(*comparison);
    section.rows.push_back({{fmt::format("{}: {}: {} {}{}{}",
                                         cell->cell.name,
                                         comparison_text(*comparison),
                                         verdict_word(comparison->verdict),
                                         effect_text(comparison->effect->theta),
                                         reason.empty() ? "" : "; ",
                                         reason)},
                            cell->cell.name});
  }
  return section;
}

Section verdicts_section(const Report& report) {
  const bool excluded = any_excluded(report);
  Section section{.id = "verdicts", .title = "Verdicts", .names = 2};
  section.columns = {{"cell"},
                     {"baseline -> candidate"},
                     {"effect", true},
                     {interval_level_text(report) + " interval", true}};
  if (excluded) section.columns.push_back({"all pairs", true});
  section.columns.push_back({"memory", true});
  section.columns.push_back({"verdict", false, true});
  for (const CellReport& cell : report.cells)
    for (const Comparison& comparison : cell.comparisons)
      section.rows.push_back(row_of(cell, comparison, excluded));
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
  if (excluded)
    section.notes.push_back(
        "All pairs: the effect when pairs that other work disturbed are included.");
  if (std::string note = repeated_note(report); !note.empty())
    section.notes.push_back(std::move(note));
  if (std::string note = control_note(report); !note.empty())
    section.notes.push_back(std::move(note));
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
  add(unit_line(place.cell(), comparison));
  add(all_pairs_line(comparison));
  add(end_to_end_line(place.cell(), comparison));
  add(loss_note(comparison));
  if (comparison.explanation) add(where_text(*comparison.explanation));
  add(ranks_text(comparison));
  return section;
}

} // namespace assay
