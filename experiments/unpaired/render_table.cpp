#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "core/text.h"
#include "experiments/analysis/wording.h"
#include "experiments/report/text_sections.h"
#include "experiments/unpaired/render.h"

namespace assay {

namespace {

constexpr double kNsPerSecond = 1e9;

std::string unit_time(const std::vector<double>& logs) {
  return logs.empty() ? "-" : human_seconds(std::exp(mean(logs)) / kNsPerSecond);
}

std::string effect(const std::vector<double>& logs) {
  return logs.empty() ? "-" : change_text(std::expm1(mean(logs)));
}

std::string change(const RunDifference& runs) {
  return runs.difference ? change_text(std::expm1(runs.difference->value)) : "-";
}

// Words of their own, so that no line of this table reads as a verdict.
std::string state_text(Unpaired state, const std::string& how) {
  switch (state) {
  case Unpaired::Slower:
    return how + "slower (unpaired)";
  case Unpaired::Faster:
    return how + "faster (unpaired)";
  case Unpaired::NoDifferenceShown:
    return "no difference shown";
  case Unpaired::TooFewLaunches:
    return "too few launches";
  case Unpaired::NotJudged:
    return "not judged";
  }
  return "";
}

// Never green or red: that is for verdicts.
Tone tone_of(Unpaired state) {
  return state == Unpaired::Slower || state == Unpaired::Faster ? Tone::Mixed : Tone::Neutral;
}

std::string level_text(const UnpairedReport& report) {
  return fmt::format("{:.4g} %", 100 * (1 - report.judged_alpha));
}

class UnpairedTable {
public:
  UnpairedTable(const UnpairedReport& report, const TableStyle& style, const std::string& cell)
      : report_(report), only_(cell), out_(style) {}

  std::string render() {
    out_.line("Unpaired: these two results were not measured together.");
    print_section(out_, runs_section());
    print(effects_section());
    print(times_section());
    print(causes_section());
    print(not_comparable_section());
    out_.raw("");
    out_.line(kWordsLine);
    return out_.take();
  }

private:
  void print(const Section& section) {
    if (section.empty()) return;
    out_.raw("");
    out_.line(section.title);
    print_section(out_, section);
  }

  // Calls use(cell) for every cell that is shown.
  template <class Use> void for_each_cell(Use use) const {
    for (const UnpairedCell& cell : report_.cells)
      if (only_.empty() || cell.cell == only_) use(cell);
  }

  static std::string run_text(const UnpairedRun& run) {
    std::vector<std::string> builds;
    for (const std::string& build : run.builds) builds.push_back(build.substr(0, kShortBuild));
    std::string text = run.directory;
    if (!builds.empty())
      text += fmt::format(", build{} {}", builds.size() == 1 ? "" : "s", fmt::join(builds, ", "));
    if (!run.first_utc.empty()) text += fmt::format(", {} to {}", run.first_utc, run.last_utc);
    return text;
  }

  Section runs_section() const {
    Section section;
    section.columns = {{""}, {""}};
    section.rows = {{{"first", run_text(report_.first)}}, {{"second", run_text(report_.second)}}};
    return section;
  }

  static void note_reason(Section& section, const std::string& what, const RunDifference& runs) {
    if (!runs.reason.empty())
      section.notes.push_back(
          fmt::format("{}: {}: {}.", what, state_text(runs.state, ""), runs.reason));
  }

  Section effects_section() const {
    Section section{.title = "Paired effects of both runs: drift cancels within each run",
                    .names = 2};
    section.columns = {{"cell"},
                       {"baseline -> candidate"},
                       {"first", true},
                       {"second", true},
                       {"difference", true},
                       {level_text(report_) + " interval", true},
                       {"result", false, true}};
    for_each_cell([&](const UnpairedCell& cell) {
      for (const EffectChange& one : cell.effects) {
        section.rows.push_back({{cell.cell,
                                 one.a + " -> " + one.b,
                                 effect(one.runs.first),
                                 effect(one.runs.second),
                                 change(one.runs),
                                 interval_text(one.runs.interval),
                                 state_text(one.runs.state, "relatively ")},
                                cell.cell,
                                tone_of(one.runs.state)});
        note_reason(section, fmt::format("{}, {} -> {}", cell.cell, one.a, one.b), one.runs);
      }
    });
    if (section.rows.empty()) return {};
    section.notes.insert(
        section.notes.begin(),
        "Difference: the candidate's time as a share of the baseline's, second run against first. "
        "This is the stronger statement: both sides of an effect were measured in turns.");
    return section;
  }

  Section times_section() const {
    Section section{.title = "Times of a unit, unpaired", .names = 2};
    section.columns = {{"cell"},
                       {"variant"},
                       {"first", true},
                       {"second", true},
                       {"change", true},
                       {level_text(report_) + " interval", true},
                       {"width", true},
                       {"result", false, true}};
    for_each_cell([&](const UnpairedCell& cell) {
      for (const TimeChange& one : cell.times) {
        section.rows.push_back({{cell.cell,
                                 one.variant,
                                 unit_time(one.runs.first),
                                 unit_time(one.runs.second),
                                 change(one.runs),
                                 interval_text(one.runs.interval),
                                 one.width_ratio ? "x" + three_digits(*one.width_ratio) : "-",
                                 state_text(one.runs.state, "")},
                                cell.cell,
                                tone_of(one.runs.state)});
        note_reason(section, fmt::format("{}, {}", cell.cell, one.variant), one.runs);
      }
    });
    if (section.rows.empty()) return {};
    const std::vector<std::string> notes = weakness_notes();
    section.notes.insert(section.notes.begin(), notes.begin(), notes.end());
    return section;
  }

  std::vector<std::string> weakness_notes() const {
    return {
        "Width: half-width of the interval over that of the paired comparison within a run (the "
        "wider of the two runs; a level against the baseline, the baseline against its "
        "control). Even x1 is weaker than paired: drift between the two runs enters the change "
        "wholly, nothing cancels, and no interval contains it.",
        fmt::format("Intervals share alpha = {:.4g} among {} comparison{} (Welch's t over "
                    "launches).",
                    report_.alpha,
                    report_.comparisons,
                    report_.comparisons == 1 ? "" : "s")};
  }

  // One row a text, with the cells that have it; without them where all have.
  using CellsByText = std::vector<std::pair<std::string, std::vector<std::string>>>;
  static void add_text(CellsByText& rows, const std::string& text, const std::string& cell) {
    auto known = std::ranges::find_if(rows, [&](const auto& row) { return row.first == text; });
    if (known == rows.end()) known = rows.insert(rows.end(), {text, {}});
    known->second.push_back(cell);
  }
  static void add_rows(Section& section, const CellsByText& rows, std::size_t cells) {
    for (const auto& [text, names] : rows)
      section.rows.push_back(
          {{names.size() == cells ? text : fmt::format("{}: {}", fmt::join(names, ", "), text)}});
  }

  Section causes_section() const {
    CellsByText causes;
    std::size_t compared = 0;
    for_each_cell([&](const UnpairedCell& cell) {
      compared += cell.times.empty() ? 0 : 1;
      for (const Cause& cause : cell.causes)
        add_text(
            causes,
            fmt::format(
                "{} {}",
                cause.what,
                cause.first == cause.second
                    ? cause.first + " in either"
                    : fmt::format("{} in the first, {} in the second", cause.first, cause.second)),
            cell.cell);
    });
    const bool builds = report_.first.builds != report_.second.builds;
    Section section{.title = fmt::format("What differs{}: each may be the cause of a difference",
                                         builds ? " beside the build" : "")};
    add_rows(section, causes, compared);
    if (section.rows.empty() && compared > 0)
      section.notes.push_back("nothing that the ledgers record: machine, GPU, driver, threads, "
                              "clocks, disturbance, data, seed and LibTorch agree");
    return section;
  }

  Section not_comparable_section() const {
    CellsByText texts;
    for_each_cell([&](const UnpairedCell& cell) {
      for (const std::string& text : cell.not_comparable) add_text(texts, text, cell.cell);
    });
    Section section{.title = "Not comparable"};
    add_rows(section, texts, 0);
    if (!only_.empty()) return section;
    for (const auto& [run, which] :
         {std::pair(&report_.first, "first"), {&report_.second, "second"}})
      if (!run->only_cells.empty())
        section.rows.push_back(
            {{fmt::format("{}: only in the {}", fmt::join(run->only_cells, ", "), which)}});
    return section;
  }

  const UnpairedReport& report_;
  std::string only_;
  TextWriter out_;
};

} // namespace

std::string
render_table(const UnpairedReport& report, const TableStyle& style, const std::string& cell) {
  return UnpairedTable(report, style, cell).render();
}

} // namespace assay
