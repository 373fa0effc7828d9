// `assay log`: how comparisons moved over several results directories, one line per cell and date.
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <numeric>
#include <tuple>

#include "app/assay/output/json_output.h"
#include "app/assay/output/terminal.h"
#include "app/assay/results_directories.h"
#include "app/assay/verbs.h"
#include "core/file_kind.h"
#include "core/ledger/ledger.h"
#include "core/ledger/ledger_schema.h"
#include "core/result.h"
#include "core/text.h"
#include "experiments/analysis/wording.h"
#include "experiments/plan/matrix/cell_name.h"
#include "experiments/report/text_layout.h"
#include "experiments/report/text_sections.h"

namespace assay::cli {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t kDateColumns = 16; // "2026-11-23T14:05"

struct LogOptions {
  std::vector<std::string> directories;
  std::string cell;
  bool json = false;
  TerminalOptions terminal;
};

struct Entry {
  std::string date, directory, cell, build;
  Comparison comparison;
};

bool holds_ledger(const fs::path& directory) {
  std::error_code ignored;
  return fs::exists(directory / ledger_schema::kFileName, ignored);
}

// Results that cannot be read do not hide the others.
struct Unread {
  void add(const std::string& message) {
    print_error(message);
    any = true;
  }
  bool any = false;
};

// Each directory itself, or the results directories in it.
std::vector<std::string> results_in(const std::vector<std::string>& named, Unread& unread) {
  std::vector<std::string> found;
  for (const std::string& directory : named) {
    std::error_code error;
    if (const std::string why = why_unreachable(directory); !why.empty()) {
      unread.add(fmt::format("{}: {}", directory, why));
      continue;
    }
    if (!fs::is_directory(directory, error)) {
      const bool there = fs::exists(directory, error);
      if (named.size() == 1 || !there)
        unread.add(fmt::format("{}: {}; name a directory that `assay run` made",
                               directory,
                               there ? "no directory" : "no such directory"));
      continue; // a file beside results, from results/*
    }
    if (holds_ledger(directory)) {
      add_once(found, directory);
      continue;
    }
    for (const fs::directory_entry& inner : fs::directory_iterator(directory, error))
      if (holds_ledger(inner.path())) add_once(found, inner.path().string());
  }
  if (found.empty() && !unread.any)
    bad_input("no results directory among {}: none contains {}",
              fmt::join(named, ", "),
              ledger_schema::kFileName);
  return found;
}

// The end of the last launch that counts for the cell, else the day of the plan.
const LaunchRow* last_launch(const Report& report, const std::string& cell) {
  const LaunchRow* last = nullptr;
  for (const LaunchSummary& launch : report.launches)
    if (launch.cell == cell && launch.row.kind == LaunchKind::Timed &&
        (last == nullptr || launch.row.ended_utc > last->ended_utc))
      last = &launch.row;
  return last;
}

void add_entries(std::vector<Entry>& entries, const std::string& directory, Unread& unread) {
  const Result<LedgerData> data = read_ledger(directory);
  if (!data) return unread.add(data.error().message);
  const Report report = judge_results(*data);
  for (const CellReport& cell : report.cells) {
    const LaunchRow* last = last_launch(report, cell.cell.name);
    for (const Comparison& comparison : cell.comparisons)
      entries.push_back(
          {last != nullptr && !last->ended_utc.empty() ? last->ended_utc : report.spec.created_utc,
           directory,
           cell.cell.name,
           last != nullptr ? last->identity.build : "",
           comparison});
  }
}

json entry_json(const Entry& entry) {
  const auto share = [](double log) { return std::expm1(log); };
  json row = {{"date", entry.date},
              {"directory", entry.directory},
              {"cell", entry.cell},
              {"build", entry.build},
              {"baseline", entry.comparison.a},
              {"candidate", entry.comparison.b},
              {"verdict", verdict_word(entry.comparison.verdict)},
              {"effect", nullptr},
              {"interval", nullptr}};
  if (entry.comparison.effect) {
    const Estimate& theta = entry.comparison.effect->theta;
    row["effect"] = share(theta.value);
    if (theta.judged) row["interval"] = {share(theta.judged->lower), share(theta.judged->upper)};
  }
  return row;
}

std::string heading(const Entry& entry) {
  return entry.comparison.a + " -> " + entry.comparison.b;
}

// One run: effect, judged interval, verdict.
std::vector<std::string> finding(const Entry& entry) {
  const std::optional<Effect>& effect = entry.comparison.effect;
  return {table_effect_text(effect),
          effect ? interval_text(effect->theta.judged) : "-",
          verdict_word(entry.comparison.verdict)};
}

TableRows wide_table(const std::vector<Entry>& entries) {
  TableRows rows{{"cell",
                  "date (UTC)",
                  "baseline -> candidate",
                  "effect",
                  "interval",
                  "verdict",
                  "directory"}};
  for (const Entry& entry : entries) {
    const std::vector<std::string> found = finding(entry);
    rows.push_back({entry.cell,
                    entry.date.substr(0, kDateColumns),
                    heading(entry),
                    found[0],
                    found[1],
                    found[2],
                    entry.directory});
  }
  return rows;
}

std::string unpadded(const std::string& text) {
  const std::size_t first = text.find_first_not_of(' ');
  return first == std::string::npos ? ""
                                    : text.substr(first, text.find_last_not_of(' ') + 1 - first);
}

// Directories in the order in which they appear, each once.
std::vector<std::string> directories_of(const std::vector<Entry>& entries) {
  std::vector<std::string> found;
  for (const Entry& entry : entries)
    if (std::find(found.begin(), found.end(), entry.directory) == found.end())
      found.push_back(entry.directory);
  return found;
}

// For a terminal that the table does not fit: a table per comparison, without the names that its
// rows share. Where a directory does not fit either, it has a number.
void print_groups(TextWriter& out, const std::vector<Entry>& entries) {
  const std::vector<std::string> directories = directories_of(entries);
  const std::array<std::string, 3> heads{"effect", "interval", "verdict"};
  std::array<std::size_t, 3> widest{}; // the tables are aligned
  for (std::size_t i = 0; i < heads.size(); ++i) widest[i] = display_width(heads[i]);
  std::size_t longest = display_width("directory");
  for (const Entry& entry : entries) {
    for (std::size_t i = 0; i < widest.size(); ++i)
      widest[i] = std::max(widest[i], display_width(finding(entry)[i]));
    longest = std::max(longest, display_width(entry.directory));
  }
  const std::size_t rest = std::accumulate(widest.begin(), widest.end(), kDateColumns + 10);
  const bool numbered = rest + longest > out.width();
  const auto place = [&](const std::string& directory) {
    const auto at = std::find(directories.begin(), directories.end(), directory);
    return numbered ? std::to_string(at - directories.begin() + 1) : directory;
  };
  for (auto first = entries.begin(); first != entries.end();) {
    const auto last = std::find_if(first, entries.end(), [&](const Entry& entry) {
      return entry.cell != first->cell || heading(entry) != heading(*first);
    });
    TableRows rows{{"date (UTC)", heads[0], heads[1], heads[2], numbered ? "in" : "directory"}};
    for (auto entry = first; entry != last; ++entry) {
      const std::vector<std::string> found = finding(*entry);
      rows.push_back({entry->date.substr(0, kDateColumns),
                      padded(found[0], widest[0], true),
                      padded(found[1], widest[1], true),
                      padded(found[2], widest[2], false),
                      place(entry->directory)});
    }
    if (first != entries.begin()) out.raw("");
    out.line(first->cell + ": " + heading(*first));
    const std::vector<bool> right{false, true, true, false, numbered};
    if (table_width(rows) + 2 <= out.width())
      out.columns(rows, right, 2);
    else {
      for (std::vector<std::string>& row : rows)
        for (std::string& text : row) text = unpadded(text);
      print_section(out, as_section(rows, right, 1));
    }
    first = last;
  }
  if (!numbered) return;
  out.raw("");
  for (const std::string& directory : directories) out.line(directory, 0, place(directory) + ": ");
}

int print_log(const LogOptions& options) {
  std::vector<Entry> entries;
  Unread unread;
  for (const std::string& directory : results_in(options.directories, unread))
    add_entries(entries, directory, unread);
  const int exit_code = unread.any ? kBadInput : kOk;
  if (entries.empty()) return exit_code;
  if (!options.cell.empty()) {
    std::vector<std::string> cells;
    for (const Entry& entry : entries) cells.push_back(entry.cell);
    require_cell("--cell", options.cell, cells);
    std::erase_if(entries, [&](const Entry& entry) { return entry.cell != options.cell; });
  }
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& x, const Entry& y) {
    return std::tie(x.cell, x.comparison.b, x.comparison.a, x.date) <
           std::tie(y.cell, y.comparison.b, y.comparison.a, y.date);
  });
  if (options.json) {
    json rows = json::array();
    for (const Entry& entry : entries) rows.push_back(entry_json(entry));
    print_json({{"entries", rows}});
    return exit_code;
  }
  TextWriter out(options.terminal.style());
  if (const TableRows rows = wide_table(entries); table_width(rows) <= out.width())
    out.columns(rows, {false, false, false, true, true, false, false}, 0);
  else
    print_groups(out, entries);
  fmt::print("{}", out.take());
  return exit_code;
}

} // namespace

void add_log(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "log", "how comparisons changed over time: one line per cell, comparison and results");
  auto options = std::make_shared<LogOptions>();
  command
      ->add_option("results", options->directories, "results directories, or a directory of them")
      ->required();
  command->add_option("--cell", options->cell, "only this cell");
  command->add_flag("--json", options->json, "print JSON");
  options->terminal.add_to(*command);
  command->callback([options, &exit_code] { exit_code = print_log(*options); });
}

} // namespace assay::cli
