#include "experiments/analysis/report_lines.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "experiments/analysis/wording.h"

namespace assay {

namespace {

// "a", "a and b", "a, b and c"
std::string list_text(const std::vector<std::string>& parts) {
  if (parts.size() < 2) return parts.empty() ? "" : parts.front();
  const std::vector<std::string> first(parts.begin(), parts.end() - 1);
  return fmt::format("{} and {}", fmt::join(first, ", "), parts.back());
}

// "update_pass (per_parameter)": the cell, and which of its variants, unless it is all of them.
std::string cell_and_variants(const CellReport& cell, const std::string& unknown) {
  std::vector<std::string> names;
  for (const VariantSpeed& speed : cell.speed)
    if (speed.unknown == unknown) names.push_back(speed.variant);
  if (names.size() == cell.speed.size()) return cell.cell.name;
  return fmt::format("{} ({})", cell.cell.name, fmt::join(names, ", "));
}

// What an alarm is about.
struct AlarmPlace {
  std::string cell;                     // "": all of them
  std::vector<std::string> comparisons; // none: the cell
};

AlarmPlace place_of(const Report& report, const Alarm& alarm) {
  for (const CellReport& cell : report.cells)
    if (cell.cell.id == alarm.cell)
      return {cell.cell.name,
              alarm.comparison.empty() ? std::vector<std::string>()
                                       : std::vector{alarm.comparison}};
  return {};
}

// "ema: a -> b" of one comparison, else "ema (a -> b, a -> c) and norms".
std::string places_text(const std::vector<AlarmPlace>& places) {
  if (places.size() == 1 && places.front().comparisons.size() == 1)
    return places.front().cell + ": " + places.front().comparisons.front();
  std::vector<std::string> texts;
  for (const auto& [cell, comparisons] : places)
    texts.push_back(
        comparisons.empty() ? cell : fmt::format("{} ({})", cell, fmt::join(comparisons, ", ")));
  return list_text(texts);
}

} // namespace

std::vector<std::string> speed_notes(const Report& report) {
  struct Unknown {
    std::string what, why;
    std::vector<std::string> cells;
  };
  std::vector<Unknown> all;
  const auto add = [&](const char* what, const std::string& why, const std::string& cell) {
    if (why.empty()) return;
    auto found = std::find_if(all.begin(), all.end(), [&](const Unknown& known) {
      return known.what == what && known.why == why;
    });
    if (found == all.end()) found = all.insert(all.end(), {what, why, {}});
    if (found->cells.empty() || found->cells.back() != cell) found->cells.push_back(cell);
  };
  for (const CellReport& cell : report.cells) {
    add("Throughput and roofline", cell.no_speed, cell.cell.name);
    for (const VariantSpeed& speed : cell.speed)
      add(speed.peaks ? "Bottleneck" : "MFU and bottleneck",
          speed.unknown,
          cell_and_variants(cell, speed.unknown));
  }
  std::vector<std::string> notes;
  for (const auto& [what, why, cells] : all)
    notes.push_back(fmt::format("{} unknown in {}: {}", what, fmt::join(cells, ", "), why));
  for (const CellReport& cell : report.cells)
    for (const VariantSpeed& speed : cell.speed)
      if (speed.padding_share > 0)
        notes.push_back(
            fmt::format("Padding is {} of the positions of {}, {}; it counts as no token",
                        share_text(speed.padding_share),
                        cell.cell.name,
                        speed.variant));
  return notes;
}

std::string alarm_text(const Report& report, const Alarm& alarm) {
  const AlarmPlace place = place_of(report, alarm);
  return place.cell.empty() ? alarm.text : places_text({place}) + ": " + alarm.text;
}

std::vector<std::string> missing_lines(const Report& report) {
  std::vector<std::pair<std::vector<std::string>, std::vector<std::string>>> owed; // what, by whom
  for (const CellReport& cell : report.cells) {
    if (cell.missing.empty()) continue;
    auto found = std::find_if(
        owed.begin(), owed.end(), [&](const auto& known) { return known.first == cell.missing; });
    if (found == owed.end()) found = owed.insert(owed.end(), {cell.missing, {}});
    found->second.push_back(cell.cell.name);
  }
  std::vector<std::string> lines;
  for (const auto& [what, cells] : owed)
    lines.push_back(fmt::format("{}{}: {}",
                                list_text(cells),
                                cells.size() == 1 ? "" : fmt::format(" ({} cells)", cells.size()),
                                fmt::join(what, ", ")));
  return lines;
}

std::vector<std::string> alarm_lines(const Report& report) {
  struct Line {
    std::string text;
    std::vector<AlarmPlace> places;
  };
  std::vector<Line> lines;
  for (const Alarm& alarm : report.alarms) {
    AlarmPlace place = place_of(report, alarm);
    auto found = std::ranges::find(lines, alarm.text, &Line::text);
    if (found == lines.end()) found = lines.insert(lines.end(), {alarm.text, {}});
    if (place.cell.empty()) continue;
    if (!found->places.empty() && found->places.back().cell == place.cell)
      found->places.back().comparisons.insert(found->places.back().comparisons.end(),
                                              place.comparisons.begin(),
                                              place.comparisons.end());
    else
      found->places.push_back(std::move(place));
  }
  std::vector<std::string> texts;
  for (const auto& [text, places] : lines)
    texts.push_back(places.empty() ? text : places_text(places) + ": " + text);
  return texts;
}

std::string summary_text(const Report& report) {
  std::map<std::string, int> counts;
  int total = 0;
  for (const CellReport& cell : report.cells)
    for (const Comparison& comparison : cell.comparisons) {
      ++counts[verdict_word(comparison.verdict)];
      ++total;
    }
  std::string text = fmt::format("{} comparison{}", total, total == 1 ? "" : "s");
  const char* separator = ": ";
  for (const char* word : {"FASTER",
                           "SLOWER",
                           "NO_EFFECT",
                           "INCONCLUSIVE",
                           "HARMED",
                           "PARITY_FAILED",
                           "NOT_ENGAGED",
                           "INVALID",
                           "CONTENDED",
                           "INCOMPLETE"})
    if (const auto found = counts.find(word); found != counts.end()) {
      text += fmt::format("{}{} {}", separator, found->second, word);
      separator = ", ";
    }
  return text;
}

std::vector<std::string> note_lines(const std::vector<NoteRow>& notes) {
  std::vector<std::pair<std::string, std::vector<std::string>>> shared; // text, names of cells
  for (const NoteRow& note : notes) {
    auto found = std::ranges::find(shared, note.text, [](const auto& one) { return one.first; });
    if (found == shared.end()) found = shared.insert(shared.end(), {note.text, {}});
    if (!note.cell.empty()) found->second.push_back(note.cell);
  }
  std::vector<std::string> lines;
  for (const auto& [text, cells] : shared)
    lines.push_back(cells.empty() ? text
                                  : fmt::format("cell{} '{}': {}",
                                                cells.size() == 1 ? "" : "s",
                                                fmt::join(cells, "', '"),
                                                text));
  return lines;
}

} // namespace assay
