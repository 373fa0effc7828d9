// How fast each variant trains, and how fast the device could run the same arithmetic.
#include <algorithm>
#include <functional>

#include "core/text.h"
#include "experiments/analysis/report_lines.h"
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

// A column: a variant, or the train step that all variants of a cell share.
struct Side {
  std::string title;
  const VariantSpeed* speed = nullptr;
  std::optional<double> peak_bytes;
};

// A row without a figure on any side is left out.
void add_row(Section& section, const char* label, std::vector<std::string> texts) {
  if (std::all_of(texts.begin(), texts.end(), [](const auto& text) { return text.empty(); }))
    return;
  SectionRow row{{label}, ""};
  for (std::string& text : texts) row.texts.push_back(text.empty() ? "-" : std::move(text));
  section.rows.push_back(std::move(row));
}

std::string seconds_or_nothing(const std::optional<double>& seconds) {
  return seconds ? human_seconds(*seconds) : "";
}

// Each reason once, with the sides that it is about, unless it is all of them.
void add_reasons(Section& section, const std::vector<Side>& sides) {
  std::vector<std::string> told;
  for (const Side& side : sides) {
    if (side.speed == nullptr || side.speed->unknown.empty()) continue;
    const std::string& why = side.speed->unknown;
    if (std::find(told.begin(), told.end(), why) != told.end()) continue;
    told.push_back(why);
    std::vector<std::string> titles;
    for (const Side& other : sides)
      if (other.speed != nullptr && other.speed->unknown == why) titles.push_back(other.title);
    section.notes.push_back(
        titles.size() == sides.size() ? why : fmt::format("{}: {}", fmt::join(titles, ", "), why));
  }
}

// Each side once, in a column of its own; each reason why a figure is unknown once.
Section sides_section(const std::vector<Side>& sides) {
  Section section{.id = "roofline", .title = "Throughput and roofline", .depth = Depth::Detail};
  section.columns = {{""}};
  for (const Side& side : sides) section.columns.push_back({side.title, true});
  if (std::all_of(sides.begin(), sides.end(), [](const Side& side) { return !side.speed; }))
    return section;
  const auto add = [&](const char* label, const Words& words) {
    std::vector<std::string> texts;
    for (const Side& side : sides) texts.push_back(side.speed ? words(*side.speed) : "");
    add_row(section, label, std::move(texts));
  };
  add("throughput", [](const auto& speed) { return token_rate_text(speed.tokens_per_second); });
  add("MFU", utilization_text);
  std::vector<std::string> bytes;
  for (const Side& side : sides)
    bytes.push_back(side.peak_bytes ? human_bytes(*side.peak_bytes) : "");
  add_row(section, "peak memory", std::move(bytes));
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
  add_reasons(section, sides);
  return section;
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
  for (const CellReport& cell : report.cells) {
    if (!cell.no_speed.empty()) section.depth = Depth::Main;
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
      if (speed.roofline) section.depth = Depth::Main;
    }
  }
  if (!section.rows.empty()) fold_unknown_columns(section);
  for (std::string& note : speed_notes(report)) section.notes.push_back(std::move(note));
  return section;
}

Section comparison_roofline(const CellReport& cell, const Comparison& comparison) {
  std::vector<Side> sides{{comparison.a, speed_of(cell, comparison.a), {}},
                          {comparison.b, speed_of(cell, comparison.b), {}}};
  if (comparison.memory) {
    sides[0].peak_bytes = comparison.memory->a_bytes;
    sides[1].peak_bytes = comparison.memory->b_bytes;
  }
  Section section = sides_section(sides);
  if (!section.empty() && sides[0].speed == sides[1].speed)
    section.notes.insert(section.notes.begin(),
                         "Of the train step beside this cell's unit, the same on both sides; peak "
                         "memory is each variant's own.");
  return section;
}

Section cell_roofline_section(const Report& report, std::size_t cell) {
  const CellReport& of = report.cells[cell];
  const bool shared = !of.speed.empty() && of.speed.front().variant.empty();
  std::vector<Side> sides;
  if (shared) sides.push_back({"the train step", &of.speed.front(), {}});
  const auto add = [&](const std::string& variant, const std::optional<double>& bytes) {
    const auto known = std::find_if(
        sides.begin(), sides.end(), [&](const Side& side) { return side.title == variant; });
    if (known == sides.end())
      sides.push_back({variant, speed_of(of, variant), bytes});
    else if (!known->peak_bytes)
      known->peak_bytes = bytes;
  };
  for (const Comparison& comparison : of.comparisons) {
    if (shared) break;
    const auto& memory = comparison.memory;
    add(comparison.a, memory ? std::optional(memory->a_bytes) : std::nullopt);
    add(comparison.b, memory ? std::optional(memory->b_bytes) : std::nullopt);
  }
  Section section = sides_section(sides);
  section.title = of.cell.name + ": throughput and roofline";
  section.depth = Depth::Record; // the report's own table has all variants
  for (SectionRow& row : section.rows) row.cell = of.cell.name;
  return section;
}

} // namespace assay
