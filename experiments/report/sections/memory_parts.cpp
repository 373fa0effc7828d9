// What the bytes at the peak of a comparison's sides are: by phase of the step, and by module.
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/ledger/memory_parts.h"
#include "core/text.h"
#include "experiments/report/sections/list.h"

namespace assay {

namespace {

std::string words_of(const std::string& phase) {
  const auto* found = std::ranges::find(kMemoryPhases, phase, &MemoryPhase::name);
  return found == std::end(kMemoryPhases) ? printable(phase) : std::string(found->words);
}

// "backward/layers.1.norms" -> "in the backward pass of layers.1.norms"
std::string moment_words(const std::string& moment) {
  if (moment.empty()) return "before the first allocation of a step";
  const std::size_t slash = std::min(moment.find('/'), moment.size());
  const std::string phase = moment.substr(0, slash),
                    module = moment.substr(slash).empty() ? "" : moment.substr(slash + 1);
  const std::string what = phase == "forward" || phase == "backward" ? "the " + phase + " pass"
                           : phase == "update"                       ? "the update"
                                                                     : words_of(phase);
  return "in " + what + (module.empty() ? "" : " of " + printable(module));
}

// Parts of two moments are not the same allocations.
std::string moment_note(const MemoryEffect& memory) {
  if (memory.a_moment.empty() && memory.b_moment.empty()) return "";
  if (memory.a_moment == memory.b_moment)
    return fmt::format("memory is highest {}", moment_words(memory.a_moment));
  return fmt::format("memory is highest at different moments: of the baseline {}, of the candidate "
                     "{}; so a part may differ because it is gone by then, or not there yet",
                     moment_words(memory.a_moment),
                     moment_words(memory.b_moment));
}

std::string difference_text(double bytes) {
  if (bytes == 0) return "0";
  return (bytes > 0 ? "+" : "-") + human_bytes(std::abs(bytes));
}

// Bytes that no digit of the peak shows are in the JSON only.
bool is_shown(const MemoryPartEffect& part, const MemoryEffect& memory) {
  constexpr double kLeast = 1e-5; // of the peak
  return std::max(part.a_bytes, part.b_bytes) >= kLeast * std::max(memory.a_bytes, memory.b_bytes);
}

SectionRow row_of(std::vector<std::string> names, const MemoryPartEffect& part) {
  names.insert(
      names.end(),
      {human_bytes(part.a_bytes), human_bytes(part.b_bytes), difference_text(part.difference())});
  return {std::move(names)};
}

// The parts are read from the allocations, the peak from the allocator.
std::string sum_note(const MemoryEffect& memory) {
  constexpr double kShown = 0.01; // of the peak
  MemoryPartEffect sum;
  for (const MemoryPartEffect& part : memory.parts) {
    sum.a_bytes += part.a_bytes;
    sum.b_bytes += part.b_bytes;
  }
  const double off = std::max(std::abs(sum.a_bytes / memory.a_bytes - 1),
                              std::abs(sum.b_bytes / memory.b_bytes - 1));
  return off > kShown ? fmt::format("the parts differ from the allocator's peak by up to {:.1f} %",
                                    100 * off)
                      : "";
}

} // namespace

Section memory_phases_section(const MemoryEffect& memory) {
  Section section{
      .id = "memory_phases",
      .title = "Memory at the peak, by phase",
      .depth = Depth::Record,
      .columns = {{"what"}, {"baseline", true}, {"candidate", true}, {"difference", true}}};
  for (const MemoryPartEffect& part : by_phase(memory.parts))
    if (is_shown(part, memory)) section.rows.push_back(row_of({words_of(part.phase)}, part));
  if (section.rows.empty()) return section;
  for (std::string note : {moment_note(memory), sum_note(memory)})
    if (!note.empty()) section.notes.push_back(std::move(note));
  return section;
}

Section memory_modules_section(const MemoryEffect& memory, std::size_t top) {
  std::vector<MemoryPartEffect> parts = by_module(memory.parts);
  std::erase_if(parts, [&](const MemoryPartEffect& part) { return !is_shown(part, memory); });
  Section section{
      .id = "memory_modules",
      .title = top < parts.size()
                   ? fmt::format("Memory at the peak, by module over all layers, {} of {}",
                                 top,
                                 parts.size())
                   : "Memory at the peak, by module over all layers",
      .depth = Depth::Record,
      .columns = {
          {"module"}, {"what"}, {"baseline", true}, {"candidate", true}, {"difference", true}}};
  section.names = 2;
  for (std::size_t i = 0; i < std::min(top, parts.size()); ++i)
    section.rows.push_back(row_of(
        {parts[i].module.empty() ? "-" : printable(parts[i].module), words_of(parts[i].phase)},
        parts[i]));
  return section;
}

Section memory_parts_section(const ComparisonPlace& place) {
  const std::optional<MemoryEffect>& memory = place.comparison().memory;
  Section section = memory ? memory_phases_section(*memory) : Section{};
  for (SectionRow& row : section.rows) row.cell = place.cell().cell.name;
  return section;
}

std::string memory_cause_text(const MemoryEffect& memory) {
  constexpr std::size_t kMost = 2;
  constexpr double kSmallest = 0.1; // of the whole difference
  std::vector<MemoryPartEffect> parts = by_phase(memory.parts);
  std::ranges::stable_sort(parts, std::greater(), [](const MemoryPartEffect& part) {
    return std::abs(part.difference());
  });
  const double whole = std::abs(memory.b_bytes - memory.a_bytes);
  std::vector<std::string> texts;
  for (const MemoryPartEffect& part : parts)
    if (texts.size() < kMost && part.difference() != 0 &&
        std::abs(part.difference()) >= kSmallest * whole)
      texts.push_back(
          fmt::format("{} {}", words_of(part.phase), difference_text(part.difference())));
  return fmt::format("{}", fmt::join(texts, ", "));
}

} // namespace assay
