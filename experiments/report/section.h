// Section: one table or list of a report. Terminal, Markdown, HTML, JSON and the viewer render any
// section, so that a new one is built in one file and listed in another (sections/list.h).
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "experiments/analysis/report.h"

namespace assay {

// Who gets to see a section without asking: terminal (Main), Markdown and page (Detail too).
// Records are folded on the page and printed with --verbose only. JSON and the viewer hold all of
// them.
enum class Depth { Main, Detail, Record };

struct SectionColumn {
  std::string title;
  bool number = false; // right-aligned, never broken over lines
  bool toned = false;  // shown in the row's tone, and bold
};

struct SectionRow {
  std::vector<std::string> texts; // one a column; ASCII but for names, "->" is an arrow
  std::string cell = {};          // of the experiment that it is about; "": of the whole run
  Tone tone = Tone::Neutral;
};

struct Section {
  std::string id = {};    // constant: "roofline"
  std::string title = {}; // "Roofline"
  Depth depth = Depth::Main;
  std::vector<SectionColumn> columns = {}; // none: a list, one text a row. Titles "": label, text
  std::vector<SectionRow> rows = {};
  std::vector<std::string> notes = {};
  std::size_t names = 1; // leading columns that name a row; where space is short they get a line

  bool empty() const { return rows.empty() && notes.empty(); }
  bool has_titles() const;
  bool has_items() const; // every row is one, unlike lines beside labels
};

// The sections of a report that have content, in reading order. The first is the table of verdicts.
std::vector<Section> report_sections(const Report& report);
// What describes the run as a whole: when, where, by which build and command.
Section run_section(const Report& report);
// Of a judged claim, wherever it is printed.
Tone tone_of(ClaimState state);
// "locked at 1980 MHz", "floating (1410 to 1980 MHz)"; "" where no board gave its clocks.
std::string clocks_text(const std::optional<Clocks>& clocks);
// What stands out, with its cause: at most three problems, worst first, then at most three decided
// comparisons by their effect on training time, the largest effect of the table among them. Three
// come before the table of verdicts, a decided one among them where there is one; the others after.
// Page and viewer show both; terminal and Markdown give each comparison its details instead.
Section findings_section(const Report& report);
Section further_findings_section(const Report& report);
// The sections of one comparison: what its verdict rests on, the measurements, the parity gates …
std::vector<Section>
comparison_sections(const Report& report, std::size_t cell, std::size_t comparison);
// What the comparisons of a cell share: the roofline of each of its variants, once.
std::vector<Section> cell_sections(const Report& report, std::size_t cell);
// The rows about one cell, without the column that names it.
Section rows_of_cell(Section section, const std::string& cell);
// Columns that are "-" or "unknown" in every row become a part of one note.
void fold_unknown_columns(Section& section);
// The throughput and roofline of a comparison's two sides; empty where neither is known.
Section comparison_roofline(const CellReport& cell, const Comparison& comparison);

// Where the difference of a comparison's traced steps comes from: stage by stage, and the `top`
// largest rows of kernels and operators.
Section stages_section(const Explanation& explanation);
Section kernels_section(const Explanation& explanation, std::size_t top);
Section operators_section(const Explanation& explanation, std::size_t top);

// What the bytes at the peak are, by phase of the step and by module (the `top` largest rows);
// empty where the ledger does not say.
Section memory_phases_section(const MemoryEffect& memory);
Section memory_modules_section(const MemoryEffect& memory, std::size_t top);
// "saved for backward -1.20 GiB, gradients +64.0 MiB": the largest causes of the difference, or "".
std::string memory_cause_text(const MemoryEffect& memory);

std::string_view to_string(Depth value); // "main", "detail", "record"
nlohmann::ordered_json to_json(const Section& section);

} // namespace assay
