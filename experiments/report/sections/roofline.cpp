// How fast each variant trains, and how fast the device could run the same arithmetic.
#include <algorithm>
#include <functional>

#include "core/text.h"
#include "experiments/analysis/wording.h"
#include "experiments/report/sections/list.h"

namespace assay {

namespace {

using Words = std::function<std::string(const VariantSpeed&)>; // "": not known

// The speed of a variant, else of the train step beside the cell's unit.
const VariantSpeed* speed_of(const CellReport& cell, const std::string& variant) {
  for (const VariantSpeed& speed : cell.speed)
    if (speed.variant == variant || speed.variant.empty()) return &speed;
  return nullptr;
}

// A row without a figure on either side is left out.
void add_row(Section& section,
             const char* label,
             const VariantSpeed* a,
             const VariantSpeed* b,
             const Words& words) {
  const auto text = [&](const VariantSpeed* speed) {
    const std::string known = speed == nullptr ? "" : words(*speed);
    return known.empty() ? std::string("-") : known;
  };
  SectionRow row{{label, text(a), text(b)}, ""};
  if (row.texts[1] != "-" || row.texts[2] != "-") section.rows.push_back(std::move(row));
}

// A column that is unknown in every row takes no room but a part of one line.
void fold_unknown_columns(Section& section) {
  std::vector<std::string> folded;
  for (std::size_t i = section.columns.size(); i-- > section.names;) {
    const bool unknown = std::all_of(section.rows.begin(),
                                     section.rows.end(),
                                     [&](const auto& row) { return row.texts[i] == kUnknownText; });
    if (!unknown) continue;
    folded.insert(folded.begin(), section.columns[i].title);
    const auto at = static_cast<std::ptrdiff_t>(i);
    section.columns.erase(section.columns.begin() + at);
    for (SectionRow& row : section.rows) row.texts.erase(row.texts.begin() + at);
  }
  if (!folded.empty())
    section.notes.push_back(fmt::format("Unknown everywhere: {}.", fmt::join(folded, ", ")));
}

std::string seconds_or_nothing(const std::optional<double>& seconds) {
  return seconds ? human_seconds(*seconds) : "";
}

} // namespace

Section roofline_section(const Report& report) {
  Section section{
      .id = "roofline", .title = "Throughput and roofline", .depth = Depth::Detail, .names = 2};
  section.columns = {{"cell"},
                     {"variant"},
                     {"throughput", true},
                     {"MFU", true},
                     {"step", true},
                     {"at measured peaks", true},
                     {"kernel launches", true},
                     {"bottleneck"}};
  for (const CellReport& cell : report.cells)
    for (const VariantSpeed& speed : cell.speed) {
      section.rows.push_back({{cell.cell.name,
                               speed.variant.empty() ? "(the train step)" : speed.variant,
                               token_rate_text(speed.tokens_per_second),
                               utilization_text(speed),
                               human_seconds(speed.step_seconds),
                               roofline_text(speed),
                               kernel_launches_text(speed),
                               bottleneck_text(speed)},
                              cell.cell.name});
      if (speed.bound) section.depth = Depth::Main;
    }
  if (section.rows.empty()) return section;
  fold_unknown_columns(section);
  for (std::string& note : speed_notes(report)) section.notes.push_back(std::move(note));
  return section;
}

Section comparison_roofline(const CellReport& cell, const Comparison& comparison) {
  Section section{.id = "roofline", .title = "Throughput and roofline", .depth = Depth::Detail};
  section.columns = {{""}, {comparison.a, true}, {comparison.b, true}};
  const VariantSpeed* a = speed_of(cell, comparison.a);
  const VariantSpeed* b = speed_of(cell, comparison.b);
  if (a == nullptr && b == nullptr) return section;
  const auto add = [&](const char* label, const Words& words) {
    add_row(section, label, a, b, words);
  };
  add("throughput", [](const auto& speed) { return token_rate_text(speed.tokens_per_second); });
  add("MFU", utilization_text);
  if (comparison.memory)
    section.rows.push_back({{"peak memory",
                             human_bytes(comparison.memory->a_bytes),
                             human_bytes(comparison.memory->b_bytes)},
                            ""});
  add("step, measured", [](const auto& speed) { return human_seconds(speed.step_seconds); });
  add("device busy", [](const auto& speed) { return seconds_or_nothing(speed.busy_seconds); });
  add("step at measured peaks", roofline_text);
  add("of it bound by compute", [](const auto& speed) {
    return speed.roofline ? human_seconds(speed.roofline->compute_seconds) : "";
  });
  add("of it bound by memory traffic", [](const auto& speed) {
    return speed.roofline ? human_seconds(speed.roofline->bytes_seconds) : "";
  });
  add("kernel launches per step", kernel_launches_text);
  add("bottleneck", bottleneck_text);
  if (a == b)
    section.notes.push_back("Of the train step beside this cell's unit, the same on both sides; "
                            "peak memory is each variant's own.");
  for (const VariantSpeed* speed : {a, b})
    if (speed != nullptr && !speed->unknown.empty() &&
        std::find(section.notes.begin(), section.notes.end(), speed->unknown) ==
            section.notes.end())
      section.notes.push_back(speed->unknown);
  return section;
}

Section roofline_pair_section(const ComparisonPlace& place) {
  Section section = comparison_roofline(place.cell(), place.comparison());
  section.depth = Depth::Record; // the report's own table has all variants
  for (SectionRow& row : section.rows) row.cell = place.cell().cell.name;
  return section;
}

} // namespace assay
