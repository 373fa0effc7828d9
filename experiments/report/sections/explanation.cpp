// Where the difference of two traced steps comes from, as tables.
#include <algorithm>

#include "experiments/attribution/trace_diff.h"
#include "experiments/report/explain_wording.h"
#include "experiments/report/section.h"

namespace assay {

namespace {

std::string calls(const DiffRow& row) {
  if (row.calls_a == row.calls_b) return calls_text(row.calls_a);
  return calls_text(row.calls_a) + " -> " + calls_text(row.calls_b);
}

// A row whose own interval excludes 0 may be unclear all the same: many rows are tested together.
std::string unclear_note(const std::vector<DiffRow>& rows, const Waterfall& waterfall) {
  const bool unclear = std::any_of(rows.begin(), rows.end(), [](const DiffRow& row) {
    return row.status == DiffStatus::Unclear;
  });
  if (!unclear) return "";
  if (!waterfall.unusable.empty()) return "unclear: these traces are not usable";
  return fmt::format("unclear: not significant when {} rows are tested together (false discovery "
                     "rate {:.0f} %)",
                     rows.size(),
                     100 * kFalseDiscoveryRate);
}

Section rows_section(const char* id,
                     const char* title,
                     const std::vector<DiffRow>& rows,
                     const Waterfall& waterfall,
                     std::size_t top) {
  const TimeScale scale = scale_of(waterfall);
  const std::size_t shown = std::min(top, rows.size());
  Section section{.id = id,
                  .title = shown == rows.size()
                               ? fmt::format("{}: self time per step ({})", title, scale.unit)
                               : fmt::format("{}: self time per step ({}), {} largest differences "
                                             "of {}",
                                             title,
                                             scale.unit,
                                             shown,
                                             rows.size()),
                  .depth = Depth::Record};
  section.columns = {{"name"},
                     {"class"},
                     {"stage"},
                     {"result"},
                     {"calls", true},
                     {"baseline", true},
                     {"candidate", true},
                     {"difference", true},
                     {"95 % interval", true}};
  for (std::size_t i = 0; i < shown; ++i) {
    const DiffRow& row = rows[i];
    section.rows.push_back({{row.short_name,
                             row.kernel_class,
                             std::string(to_string(row.stage)),
                             std::string(to_string(row.status)),
                             calls(row),
                             time_text(row.a_ns, scale),
                             time_text(row.b_ns, scale),
                             difference_text(row.delta_ns, scale),
                             difference_interval_text(row.interval, scale)},
                            ""});
  }
  if (std::string note = unclear_note(rows, waterfall); !section.rows.empty() && !note.empty())
    section.notes.push_back(std::move(note));
  return section;
}

} // namespace

Section stages_section(const Explanation& explanation) {
  const Waterfall& waterfall = explanation.waterfall;
  const TimeScale scale = scale_of(waterfall);
  Section section{.id = "stages", .title = fmt::format("Stages of the step ({})", scale.unit)};
  section.columns = {{"stage"},
                     {"baseline", true},
                     {"candidate", true},
                     {"difference", true},
                     {"95 % interval", true},
                     {"share", true}};
  const auto add = [&](std::string_view name, double a, double b, const auto& interval) {
    section.rows.push_back({{std::string(name),
                             time_text(a, scale),
                             time_text(b, scale),
                             difference_text(b - a, scale),
                             difference_interval_text(interval, scale),
                             stage_share_text(waterfall, b - a)},
                            ""});
  };
  if (waterfall.pairs == 0) return section;
  for (const StageDelta& stage : waterfall.stages)
    add(to_string(stage.stage), stage.a_ns, stage.b_ns, stage.interval);
  add("step", waterfall.a_ns, waterfall.b_ns, waterfall.traced_interval);
  return section;
}

Section kernels_section(const Explanation& explanation, std::size_t top) {
  return rows_section(
      "kernels", "Kernels and copies", explanation.kernels, explanation.waterfall, top);
}

Section operators_section(const Explanation& explanation, std::size_t top) {
  return rows_section("operators", "Operators", explanation.operators, explanation.waterfall, top);
}

} // namespace assay
