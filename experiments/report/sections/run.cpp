// The run as a whole: when, where and with what it was measured, its launches, what went wrong.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "core/ledger/stored_config.h"
#include "core/text.h"
#include "experiments/analysis/calibration.h"
#include "experiments/analysis/report_lines.h"
#include "experiments/analysis/wording.h"
#include "experiments/evidence/cell_view.h"
#include "experiments/report/sections/list.h"

namespace assay {

namespace {

// Each distinct text once, in order.
void add_once(std::vector<std::string>& texts, std::string text) {
  if (!text.empty() && std::find(texts.begin(), texts.end(), text) == texts.end())
    texts.push_back(std::move(text));
}

bool is_known(const Identity& id) {
  return !id.build.empty() || !id.host.empty();
}

std::string machine_text(const Report& report, const Identity& id) {
  return fmt::format("{}: {}, {}, {}",
                     id.host,
                     id.cpu,
                     cores_text(id, report.threads_vary),
                     id.gpu.empty() ? "no GPU" : id.gpu);
}

std::string build_text(const Identity& id) {
  std::string text = fmt::format("{}, LibTorch {}", id.build.substr(0, kShortBuild), id.libtorch);
  if (!id.cuda.empty()) text += ", CUDA " + id.cuda;
  if (!id.driver.empty()) text += ", driver " + id.driver;
  return text;
}

// "2026-01-28T10:11:12Z to 2026-01-28T10:52:00Z, 40 launches, beside 1 attempt that does not
// count". Of merged results each machine has parity launches of its own; those of one cell are one
// launch.
std::string measured_span(const Report& report) {
  std::string first, last;
  std::set<std::tuple<std::string, LaunchKind, int>> counted;
  std::size_t others = 0;
  for (const LaunchSummary& launch : report.launches) {
    const LaunchRow& row = launch.row;
    if (has_results(row.state) && !launch.replaced)
      counted.insert({launch.cell, row.kind, row.index});
    others += row.state == LaunchState::Failed || launch.replaced;
    if (!row.started_utc.empty() && (first.empty() || row.started_utc < first))
      first = row.started_utc;
    last = std::max(last, std::max(row.started_utc, row.ended_utc));
  }
  if (first.empty()) return "no launch has started";
  return fmt::format("{}{}, {}{}",
                     first,
                     last == first ? "" : " to " + last,
                     launch_count_text(counted.size()),
                     others == 0 ? ""
                                 : fmt::format(", beside {} attempt{} that {} not count",
                                               others,
                                               others == 1 ? "" : "s",
                                               others == 1 ? "does" : "do"));
}

// "A=1\nB=2\n" as "A=1, B=2".
std::string variables_text(const std::string& lines) {
  std::string out;
  for (const char c : lines)
    if (c != '\n')
      out += c;
    else if (!out.empty())
      out += ", ";
  return out.ends_with(", ") ? out.substr(0, out.size() - 2) : out;
}

std::string rounds_text(const LaunchSummary& launch) {
  if (launch.row.kind == LaunchKind::Timed || launch.row.kind == LaunchKind::Energy)
    return fmt::format(
        "{} of {} + {} warm-up", launch.rounds, launch.row.rounds_planned, launch.warmup_rounds);
  return launch.row.kind == LaunchKind::Loss ? std::to_string(launch.rounds) : "-";
}

// Counted rounds before the event. The end of a warm-up has the round of the ledger, from 0.
std::string rounds_done(const EventRow& event) {
  if (event.kind == "warmup_end") return fmt::format("{} of warm-up", event.round + 1);
  return event.round < 0 ? "-" : std::to_string(event.round);
}

// A launch that ended while it was built does not have its threads yet.
bool has_measured(const LaunchSummary& launch) {
  return launch.row.state == LaunchState::Complete || launch.rounds + launch.warmup_rounds > 0;
}

// Nothing before a timed launch counts; a demo, whose configurations no trainer takes, cannot be
// calibrated, and a calibration needs none.
std::string calibration_line(const Report& report) {
  if (report.calibration) return calibration_text(*report.calibration);
  if (is_calibration(report) ||
      std::none_of(report.cells.begin(), report.cells.end(), [](const CellReport& cell) {
        return stored_config(cell.cell.config_json).contains("seed");
      }))
    return "";
  const bool timed =
      std::any_of(report.launches.begin(), report.launches.end(), [](const LaunchSummary& launch) {
        return is_counted(launch.row);
      });
  return timed ? "not calibrated here: `assay calibrate DIR`" : "";
}

Section list(const char* id, const char* title, const std::vector<std::string>& items) {
  Section section{.id = id, .title = title};
  for (const std::string& item : items) section.rows.push_back({{item}, ""});
  return section;
}

} // namespace

// The board's word decides, not the figure: an idle board may float and still stay at its top.
std::string clocks_text(const std::optional<Clocks>& clocks) {
  if (!clocks) return "";
  const std::string lowest = fmt::format("{:.0f}", clocks->lowest_mhz);
  if (clocks->highest_mhz > clocks->lowest_mhz)
    return fmt::format("{} ({} to {:.0f} MHz)",
                       clocks->locked ? "locked" : "floating",
                       lowest,
                       clocks->highest_mhz);
  return clocks->locked ? "locked at " + lowest + " MHz"
                        : "floating (" + lowest + " MHz in every visit)";
}

Section run_section(const Report& report) {
  Section section{.id = "run", .title = "Run", .columns = {{""}, {""}}};
  const auto add = [&](const char* label, const std::string& text) {
    if (!text.empty()) section.rows.push_back({{label, text}, ""});
  };
  std::vector<std::string> machines, builds;
  const bool any_measured =
      std::any_of(report.launches.begin(), report.launches.end(), has_measured);
  for (const LaunchSummary& launch : report.launches) {
    if (!is_known(launch.row.identity) || (any_measured && !has_measured(launch))) continue;
    add_once(machines, machine_text(report, launch.row.identity));
    add_once(builds, build_text(launch.row.identity));
  }
  add("measured", measured_span(report));
  for (const std::string& text : machines) add("machine", text);
  add("clocks", clocks_text(report.clocks));
  add("calibration", calibration_line(report));
  for (const std::string& text : builds) add("build", text);
  add("command", report.spec.command);
  add("plan",
      fmt::format("spec {}, seed {}{}",
                  report.spec.hash,
                  report.spec.seed,
                  report.spec.created_utc.empty() ? "" : ", made " + report.spec.created_utc));
  return section;
}

Section alarms_section(const Report& report) {
  return list("alarms", "Alarms", alarm_lines(report));
}

Section missing_section(const Report& report) {
  Section section = list("missing", "Missing", missing_lines(report));
  if (!section.rows.empty())
    section.notes.emplace_back("`assay status` gives the command that continues.");
  return section;
}

Section plan_notes_section(const Report& report) {
  std::vector<NoteRow> of_cells = report.notes; // the others are about the plan as a file
  std::erase_if(of_cells, [](const NoteRow& note) { return note.cell.empty(); });
  return list("plan_notes", "Notes of the plan", note_lines(of_cells));
}

Section shape_warnings_section(const Report& report) {
  return list("shape_warnings", "Shape warnings", report.shape_warnings);
}

Section launches_section(const Report& report) {
  Section section{.id = "launches", .title = "Launches", .depth = Depth::Record, .names = 2};
  section.columns = {{"cell"},
                     {"launch"},
                     {"state", false, true},
                     {"rounds", true},
                     {"started (UTC)"},
                     {"build order"},
                     {"reason"}};
  for (const LaunchSummary& launch : report.launches)
    section.rows.push_back({{launch.cell,
                             launch_text(launch.row),
                             launch.state(),
                             rounds_text(launch),
                             launch.row.started_utc,
                             launch.row.build_order,
                             launch.row.reason},
                            launch.cell,
                            launch.state() == "failed" ? Tone::Bad : Tone::Neutral});
  return section;
}

Section events_section(const Report& report) {
  Section section{.id = "events", .title = "Events", .depth = Depth::Record, .names = 2};
  section.columns = {
      {"cell"}, {"launch"}, {"time (UTC)"}, {"rounds done", true}, {"kind"}, {"detail"}};
  for (const EventRow& event : report.events) {
    const auto launch =
        std::find_if(report.launches.begin(), report.launches.end(), [&](const auto& known) {
          return known.row.id == event.launch;
        });
    const bool known = launch != report.launches.end();
    section.rows.push_back(
        {{known ? launch->cell : "-",
          known ? fmt::format("{} {}", to_string(launch->row.kind), launch->row.index) : "-",
          event.utc,
          rounds_done(event),
          event.kind,
          event.detail},
         known ? launch->cell : ""});
  }
  return section;
}

Section environment_section(const Report& report) {
  Section section{
      .id = "environment", .title = "Environment", .depth = Depth::Record, .columns = {{""}, {""}}};
  std::vector<std::string> seen;
  const auto add = [&](const char* label, const std::string& text) {
    if (!text.empty()) section.rows.push_back({{label, text}, ""});
  };
  for (const LaunchSummary& launch : report.launches) {
    const Identity& id = launch.row.identity;
    const std::size_t known = seen.size();
    add_once(seen, id.build + id.host + id.boot + id.gpu_uuid + id.kernel + id.environment);
    if (!is_known(id) || seen.size() == known) continue;
    add("machine", machine_text(report, id));
    add("build", id.build);
    add("GPU", id.gpu_uuid);
    add("kernel", id.kernel);
    add("boot", id.boot);
    add("variables", variables_text(id.environment));
  }
  return section;
}

} // namespace assay
