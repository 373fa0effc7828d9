// Peak memory, rank times and the A/A control of every cell.
#include <algorithm>

#include "core/text.h"
#include "experiments/analysis/wording.h"
#include "experiments/report/sections/list.h"

namespace assay {

namespace {

void add_ranks(Section& section,
               const std::string& cell,
               const std::string& variant,
               const RankTimes& times) {
  const bool known = std::any_of(section.rows.begin(), section.rows.end(), [&](const auto& row) {
    return row.cell == cell && row.texts[1] == variant;
  });
  for (std::size_t rank = 0; !known && rank < times.size(); ++rank) {
    const std::optional<TracedWait>& traced = times[rank].traced;
    section.rows.push_back(
        {{cell,
          variant,
          std::to_string(rank),
          human_seconds(times[rank].step_ns * 1e-9),
          traced ? human_seconds(traced->step_ns * 1e-9) : "-",
          traced ? human_seconds(traced->exposed_ns * 1e-9) : "-",
          traced && traced->step_ns > 0 ? share_text(traced->exposed_ns / traced->step_ns) : "-"},
         cell});
  }
}

} // namespace

Section memory_section(const Report& report) {
  Section section{.id = "memory", .title = "Peak memory", .depth = Depth::Detail, .names = 2};
  section.columns = {{"cell"},
                     {"baseline -> candidate"},
                     {"baseline", true},
                     {"candidate", true},
                     {"change", true},
                     {"launches", true}};
  for (const CellReport& cell : report.cells)
    for (const Comparison& comparison : cell.comparisons)
      if (comparison.memory)
        section.rows.push_back({{cell.cell.name,
                                 comparison_text(comparison),
                                 human_bytes(comparison.memory->a_bytes),
                                 human_bytes(comparison.memory->b_bytes),
                                 memory_text(comparison.memory),
                                 std::to_string(comparison.memory->launches)},
                                cell.cell.name});
  return section;
}

Section ranks_section(const Report& report) {
  Section section{.id = "ranks", .title = "Rank times", .names = 2};
  section.columns = {{"cell"},
                     {"variant"},
                     {"rank", true},
                     {"timed step", true},
                     {"traced step", true},
                     {"exposed communication", true},
                     {"share of the traced step", true}};
  for (const CellReport& cell : report.cells)
    for (const Comparison& comparison : cell.comparisons) {
      add_ranks(section, cell.cell.name, comparison.a, comparison.a_ranks);
      add_ranks(section, cell.cell.name, comparison.b, comparison.b_ranks);
    }
  if (!section.rows.empty()) fold_unknown_columns(section);
  return section;
}

Section control_section(const Report& report) {
  Section section{.id = "control", .title = "A/A control", .depth = Depth::Detail};
  section.columns = {{"cell"},
                     {"difference", true},
                     {"95 % interval", true},
                     {"launches"},
                     {"result", false, true}};
  for (const CellReport& cell : report.cells) {
    const bool measured = cell.control && cell.control->comparison.effect;
    const bool alarm = measured && cell.control->alarm;
    const Estimate* theta = measured ? &cell.control->comparison.effect->theta : nullptr;
    section.rows.push_back({{cell.cell.name,
                             measured ? table_effect_text(cell.control->comparison.effect) : "-",
                             theta ? interval_text(theta->at_95) : "-",
                             control_launches_text(cell),
                             measured ? (alarm ? "ALARM" : "no alarm") : control_text(cell)},
                            cell.cell.name,
                            alarm ? Tone::Bad : Tone::Neutral});
  }
  return section;
}

} // namespace assay
