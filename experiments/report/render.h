// Renderers of a Report (docs/report-schema.md). None computes a figure; tables
// and lists are sections (section.h).
#pragma once

#include <array>
#include <string>

#include "experiments/analysis/report.h"

namespace assay {

struct TableStyle {
  int width = 100;     // columns; lines wrap at words
  bool unicode = true; // false: ASCII only
  bool color = false;  // ANSI colours beside the words, never instead of them
};

struct TableView {
  std::string cell;              // only this cell, in full; "": every cell
  bool verbose = false;          // every comparison in full, records too
  std::string directory = "DIR"; // as printed commands name it
};

// The table of all comparisons, then what is decided or wrong.
std::string render_table(const Report& report, const TableStyle& style, const TableView& view = {});
std::string render_markdown(const Report& report); // GitHub-flavoured
std::string render_json(const Report& report);     // schema_version kReportSchema
std::string render_html(const Report& report);     // one self-contained page, no scripts
// Comparisons whose difference the traces break down.
int explained_comparisons(const Report& report);
// Tidy, one row per visit of every launch, RFC 4180.
std::string render_csv(const Report& report, const LedgerData& data);

// What `assay report` writes.
struct ReportFile {
  const char* name;
  std::string (*render)(const Report&, const LedgerData&);
};
inline constexpr std::array<ReportFile, 4> kReportFiles{{
    {"report.html", [](const Report& report, const LedgerData&) { return render_html(report); }},
    {"report.md", [](const Report& report, const LedgerData&) { return render_markdown(report); }},
    {"report.json", [](const Report& report, const LedgerData&) { return render_json(report); }},
    {"report.csv", render_csv},
}};

} // namespace assay
