#include "experiments/evidence/owed/redo.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include "core/files/shell_text.h"
#include "core/ledger/covariates.h"
#include "core/text.h"
#include "experiments/evidence/cell_view.h"

namespace assay {

namespace {

namespace fs = std::filesystem;

// What a run asks for once, and whether a word follows it.
const std::map<std::string, bool> kAskedOnce{{"--redo", true},
                                             {"--fork", false},
                                             {"--quiet", false},
                                             {"--json", false},
                                             {"--stop-after", true},
                                             {"--wait-for-quiet", false}};

// Removes an option wherever it is, "--option=VALUE" too; whether it was there.
bool take_option(std::vector<std::string>& words, const std::string& option, bool has_value) {
  bool found = false;
  for (auto word = words.begin(); word != words.end();) {
    const bool alone = *word == option;
    if (!alone && !word->starts_with(option + "=")) {
      ++word;
      continue;
    }
    found = true;
    word = words.erase(word);
    if (alone && has_value && word != words.end()) word = words.erase(word);
  }
  return found;
}

// Sets an option that is there, at its first place; it is given once then.
void replace_option(std::vector<std::string>& words,
                    const std::string& option,
                    const std::string& value) {
  const auto first = std::find_if(words.begin(), words.end(), [&](const std::string& word) {
    return word == option || word.starts_with(option + "=");
  });
  const auto place = first - words.begin();
  if (take_option(words, option, true)) words.insert(words.begin() + place, {option, value});
}

// Merged results name the commands of all parts, "A; B": the first is left. Whether there were
// more.
bool keep_first_command(std::vector<std::string>& words) {
  const auto end = std::find_if(
      words.begin(), words.end(), [](const std::string& word) { return word.ends_with(';'); });
  if (end == words.end()) return false;
  end->pop_back();
  words.erase(end + 1, words.end());
  return true;
}

bool holds_text(const fs::path& file, const std::string& text) {
  std::error_code ignored;
  std::ifstream in(file, std::ios::binary);
  return fs::is_regular_file(file, ignored) && in &&
         std::string{std::istreambuf_iterator<char>(in), {}} == text;
}

// Where the run was started, "" where that is unknown, gone or the current directory.
fs::path started_elsewhere(const SpecRow& spec) {
  std::error_code ignored;
  const bool there = !spec.directory.empty() && fs::is_directory(spec.directory, ignored);
  return there && !fs::equivalent(spec.directory, ".", ignored) ? spec.directory : "";
}

std::string absolute_path(const fs::path& path) {
  std::error_code ignored;
  return fs::absolute(path, ignored).lexically_normal().string();
}

// Whether the results lie where they were measured, as far as names tell.
bool lies_as_recorded(const std::vector<std::string>& words,
                      const std::string& directory,
                      const fs::path& started) {
  const auto out = std::find(words.begin(), words.end(), "--out");
  return out != words.end() && out + 1 != words.end() &&
         plain_path(absolute_path(started / *(out + 1))) == plain_path(absolute_path(directory));
}

// The word of a run that names its matrix, wherever it stands; what is asked once is taken out.
std::size_t matrix_word(const std::vector<std::string>& words) {
  std::size_t i = 2;
  while (i < words.size() && words[i].starts_with("--"))
    i += words[i] == "--ascii" || words[i].find('=') != std::string::npos ? 1 : 2;
  return i;
}

// The matrix of results that are looked at from another directory, were moved or were merged: the
// file that reads as what was measured. MATRIX where none is found, for another file of that name
// would measure something else.
void use_matrix_of(std::vector<std::string>& words,
                   const std::string& matrix_toml,
                   const std::string& directory,
                   const fs::path& started) {
  const std::size_t place = matrix_word(words);
  if (directory.empty() || place >= words.size() || words[place] == "-") return;
  std::string& word = words[place];
  std::error_code ignored;
  // A comment may have been added; a run refuses what measures something else.
  const fs::path recorded = started / word;
  if ((lies_as_recorded(words, directory, started) && fs::is_regular_file(recorded, ignored)) ||
      holds_text(recorded, matrix_toml))
    return;
  const fs::path here(directory), above = fs::path(absolute_path(here)).parent_path();
  for (const fs::path& file : {here / kKeptMatrix, fs::proximate(above / word, ignored)})
    if (holds_text(file, matrix_toml)) {
      word = started.empty() ? file.string() : absolute_path(file);
      return;
    }
  word = "MATRIX";
}

// Standard input is gone; a run leaves what it read from there beside the ledger.
std::string
standard_input(const SpecRow& spec, const std::string& directory, const fs::path& started) {
  const fs::path kept = fs::path(directory) / kKeptMatrix;
  if (directory.empty() || !holds_text(kept, spec.matrix_toml)) return "- < MATRIX";
  return "- < " + shell_word(started.empty() ? kept.string() : absolute_path(kept));
}

bool contains(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

const LaunchRow& launch_of(const LedgerData& data, std::int64_t id) {
  return *std::find_if(data.launches.begin(), data.launches.end(), [&](const LaunchRow& launch) {
    return launch.id == id;
  });
}

// When the oldest wish of this selection that is still open was made, if there is one.
std::optional<std::string> open_since(const LedgerData& data, const RedoSelection& selection) {
  std::optional<std::string> since;
  for (const EventRow& event : data.events) {
    if (event.kind != "redo") continue;
    const LaunchRow& launch = launch_of(data, event.launch);
    const std::string& cell = data.cell(launch.cell).name;
    const bool selected = event.cause == kCauseDisturbed
                              ? contains(selection.what, kCauseDisturbed) && selection.chooses(cell)
                              : contains(selection.what, cell);
    if (selected && redo_is_asked(data, launch))
      since = std::min(since.value_or(event.utc), event.utc); // UTC texts sort by time
  }
  return since;
}

bool redone_since(const LaunchRow& launch, const std::string& utc) {
  return launch.repeats != 0 && launch.started_utc >= utc;
}

bool is_vain_attempt(const LedgerData& data, const LaunchRow& attempt, std::int64_t launch) {
  return attempt.repeats == launch && data.set_aside(attempt.id);
}

bool tried_in_vain_since(const LedgerData& data, std::int64_t launch, const std::string& utc) {
  return std::any_of(data.launches.begin(), data.launches.end(), [&](const LaunchRow& attempt) {
    return is_vain_attempt(data, attempt, launch) && redone_since(attempt, utc);
  });
}

} // namespace

bool RedoSelection::chooses(const std::string& cell) const {
  return cells.empty() || contains(cells, cell);
}

bool redo_is_asked(const LedgerData& data, const LaunchRow& launch) {
  bool asked = false;
  for (const EventRow& event : data.events) { // in the order in which they were written
    if (event.kind == "redo" && event.launch == launch.id) asked = true;
    if (event.kind == "set_aside" && launch_of(data, event.launch).repeats == launch.id)
      asked = false;
  }
  return asked && !data.superseded(launch.id);
}

std::vector<DisturbedLaunch> disturbed_rounds(const LedgerData& data) {
  std::map<std::int64_t, std::map<int, bool>> rounds; // by launch and round: disturbed
  for (const VisitRow& visit : data.visits)
    if (!visit.warmup)
      rounds[visit.launch][visit.round] |= !disturbance(visit.covariates, data.spec.limits).empty();
  std::vector<DisturbedLaunch> result;
  for (const LaunchRow& launch : data.launches) {
    if (!is_counted(launch) || data.superseded(launch.id)) continue;
    const std::map<int, bool>& own = rounds[launch.id];
    DisturbedLaunch one{launch.id, launch.cell};
    one.rounds = std::ssize(own);
    one.disturbed =
        std::count_if(own.begin(), own.end(), [](const auto& round) { return round.second; });
    one.beyond = beyond_limit(one.disturbed, one.rounds, data.spec.limits);
    result.push_back(one);
  }
  return result;
}

std::string
continue_command(const SpecRow& spec, const std::string& cell, const std::string& directory) {
  std::vector<std::string> words = shell_words(spec.command);
  if (words.size() < 2 || words[1] != "run") return "assay run MATRIX --out DIR";
  const bool merged = keep_first_command(words);
  for (const auto& [option, has_value] : kAskedOnce) take_option(words, option, has_value);
  const fs::path started = started_elsewhere(spec);
  use_matrix_of(words, spec.matrix_toml, directory, started);
  if (merged || !directory.empty())
    replace_option(words,
                   "--out",
                   directory.empty() ? "DIR"
                   : started.empty() ? directory
                                     : absolute_path(directory));
  if (cell == kAllCells || (cell.empty() && merged))
    take_option(words, "--cell", true);
  else if (!cell.empty())
    replace_option(words, "--cell", cell);
  std::vector<std::string> quoted;
  for (const std::string& word : words)
    quoted.push_back(word == "-" ? standard_input(spec, directory, started) : shell_word(word));
  return (started.empty() ? "" : "cd " + shell_word(started.string()) + " && ") +
         fmt::format("{}", fmt::join(quoted, " "));
}

std::string redo_command(const SpecRow& spec,
                         const std::string& cell,
                         const std::string& directory,
                         const std::vector<std::string>& again) {
  std::string command = continue_command(spec, cell, directory);
  for (const std::string& what : again) command += " --redo " + shell_word(what);
  return command;
}

std::string recorded_redo_command(SpecRow spec,
                                  const std::string& cell,
                                  const std::vector<std::string>& again) {
  spec.directory.clear();
  return redo_command(spec, cell, "", again);
}

std::vector<EventRow> redo_events(const LedgerData& data, const RedoSelection& selection) {
  const std::optional<std::string> since = open_since(data, selection);
  const std::string now = utc_now();
  std::vector<EventRow> events;
  for (const DisturbedLaunch& one : disturbed_rounds(data)) {
    const std::string& cell = data.cell(one.cell).name;
    const bool asked = contains(selection.what, cell);
    const bool disturbed = one.beyond && contains(selection.what, kCauseDisturbed);
    if (!selection.chooses(cell) || (!asked && !disturbed)) continue;
    const LaunchRow& launch = launch_of(data, one.launch);
    if (redo_is_asked(data, launch)) continue;
    if (since && (redone_since(launch, *since) || tried_in_vain_since(data, launch.id, *since)))
      continue;
    events.push_back({one.launch,
                      -1,
                      now,
                      "redo",
                      fmt::format("{} of {} rounds disturbed", one.disturbed, one.rounds),
                      0,
                      asked ? kCauseAsked : kCauseDisturbed});
  }
  return events;
}

std::map<std::int64_t, RedoProgress> redo_progress(const LedgerData& data) {
  std::map<std::int64_t, std::string> since; // by cell
  std::map<std::int64_t, std::set<int>> open, done, set_aside;
  for (const EventRow& event : data.events) {
    if (event.kind != "redo") continue;
    const LaunchRow& launch = launch_of(data, event.launch);
    if (!redo_is_asked(data, launch)) continue;
    std::string& first = since.try_emplace(launch.cell, event.utc).first->second;
    first = std::min(first, event.utc);
    open[launch.cell].insert(launch.index);
  }
  for (const LaunchRow& launch : data.launches)
    if (const auto cell = since.find(launch.cell); cell != since.end() &&
                                                   redone_since(launch, cell->second) &&
                                                   !open[launch.cell].contains(launch.index)) {
      if (data.superseded(launch.repeats)) done[launch.cell].insert(launch.index);
      if (data.set_aside(launch.id)) set_aside[launch.cell].insert(launch.index);
    }
  std::map<std::int64_t, RedoProgress> result;
  for (const auto& [cell, indices] : open) {
    RedoProgress& progress = result[cell];
    progress.done = static_cast<int>(done[cell].size());
    progress.set_aside = static_cast<int>(set_aside[cell].size());
    progress.asked = static_cast<int>(indices.size()) + progress.done + progress.set_aside;
  }
  return result;
}

} // namespace assay
