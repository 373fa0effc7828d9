// Main effects and interactions of the cells that have a design.
#include <algorithm>

#include "core/statistics/design.h"
#include "core/text.h"
#include "experiments/analysis/wording.h"
#include "experiments/report/sections/list.h"

namespace assay {

namespace {

Tone tone_of(ContrastState state) {
  switch (state) {
  case ContrastState::Faster:
    return Tone::Mixed; // of several trainings, none of which a gate proves
  case ContrastState::Slower:
    return Tone::Bad;
  default:
    return Tone::Neutral;
  }
}

SectionRow row_of(const CellReport& cell, const Contrast& contrast) {
  return {{cell.cell.name,
           contrast.row.name,
           contrast_kind_text(contrast.row),
           table_effect_text(contrast.effect),
           contrast.effect ? interval_text(contrast.effect->theta.judged) : "-",
           mde_text(contrast.effect),
           contrast_word(contrast.state)},
          cell.cell.name,
          tone_of(contrast.state)};
}

bool any_of_kind(const Report& report, ContrastKind kind) {
  return std::ranges::any_of(report.cells, [&](const CellReport& cell) {
    return std::ranges::any_of(cell.contrasts, [&](const Contrast& contrast) {
      return contrast.row.kind == to_string(kind);
    });
  });
}

// The interval beside it says why the others are undecided. Contrasts of one cause share a note.
void add_reasons(Section& section, const CellReport& cell) {
  std::vector<std::pair<std::string, std::vector<std::string>>> by_reason;
  for (const Contrast& contrast : cell.contrasts) {
    if (contrast.reason.empty() || contrast.reason.code == ReasonCode::IntervalHoldsZero) continue;
    auto known = std::ranges::find(
        by_reason, contrast.reason.text, [](const auto& entry) { return entry.first; });
    if (known == by_reason.end())
      known = by_reason.insert(by_reason.end(), {contrast.reason.text, {}});
    known->second.push_back(contrast.row.name);
  }
  for (const auto& [reason, names] : by_reason)
    section.notes.push_back(
        fmt::format("{} ({}): {}", cell.cell.name, fmt::join(names, ", "), reason));
}

} // namespace

Section contrasts_section(const Report& report) {
  Section section{.id = "contrasts", .title = "Main effects and interactions", .names = 3};
  section.columns = {{"cell"},
                     {"steps"},
                     {"kind"},
                     {"effect", true},
                     {interval_level_text(report) + " interval", true},
                     {"MDE", true},
                     {"result", false, true}};
  for (const CellReport& cell : report.cells)
    for (const Contrast& contrast : cell.contrasts) section.rows.push_back(row_of(cell, contrast));
  if (any_of_kind(report, ContrastKind::Interaction))
    section.notes.push_back(fmt::format(
        "Interaction: change of the time of all these steps together against the product of their "
        "single effects, estimated step by step (medians do not chain, so rows of the table may "
        "multiply to a little more or less). Add up: the interval is within +-{}. Interact: it is "
        "on one side of 0.",
        share_text(report.spec.sesoi)));
  if (any_of_kind(report, ContrastKind::MainEffect))
    section.notes.push_back(
        "Main effect: change of the time by a step, averaged over the other steps on and off.");
  for (const CellReport& cell : report.cells) add_reasons(section, cell);
  return section;
}

} // namespace assay
