// `assay clean`: frees the disk that a results directory does not need. Never touches the ledger,
// logs, reports, or a file whose name Assay does not give.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "app/assay/output/json_output.h"
#include "app/assay/output/terminal.h"
#include "app/assay/verbs.h"
#include "core/files/temporary_file.h"
#include "core/ledger/directory_lock.h"
#include "core/ledger/ledger.h"
#include "core/result.h"
#include "core/text.h"
#include "core/trace/trace_file.h"
#include "core/trace/trace_schema.h"
#include "experiments/report/text_layout.h"

namespace assay::cli {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct CleanOptions {
  std::string directory;
  bool traces = false, dry_run = false, json = false;
};

struct Leftover {
  fs::path path;
  std::uintmax_t bytes = 0;
  const char* why;
};

std::uintmax_t bytes_of(const fs::path& path) {
  std::error_code error;
  const std::uintmax_t bytes = fs::file_size(path, error);
  return error ? 0 : bytes;
}

// A writer that lives holds a lock on its temporary file (core/files/temporary_file.h).
bool is_abandoned(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return false;
  const bool free = ::flock(fd, LOCK_EX | LOCK_NB) == 0;
  ::close(fd);
  return free;
}

std::vector<fs::path> files_in(const fs::path& directory) {
  std::vector<fs::path> files;
  std::error_code ignored; // there may be no traces
  for (const auto& entry : fs::directory_iterator(directory, ignored))
    if (entry.is_regular_file(ignored) && !entry.is_symlink(ignored)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

// What killed writers left: ".NAME.RANDOM.partial", and traces under the name they had meanwhile.
std::vector<Leftover> temporary_files(const fs::path& directory) {
  std::vector<Leftover> found;
  for (const fs::path& folder : {directory, directory / kTraceFolder})
    for (const fs::path& path : files_in(folder)) {
      const std::string name = path.filename().string();
      const bool trace = folder != directory && trace_schema::is_unfinished(name);
      if (trace || (is_temporary_name(name) && is_abandoned(path)))
        found.push_back({path, bytes_of(path), "left by a process that was killed"});
    }
  return found;
}

// Reports read the newest complete traced launch of each cell. A trace of no launch of this ledger
// is somebody's own file and stays.
std::vector<Leftover>
removable_traces(const fs::path& directory, const LedgerData& data, bool every) {
  std::set<std::int64_t> needed;
  for (const CellRow& cell : data.cells)
    if (const LaunchRow* launch =
            data.latest_launch(cell.id, LaunchKind::Traced, LaunchState::Complete))
      needed.insert(launch->id);
  std::vector<Leftover> found;
  for (const std::string& path : list_traces(directory.string()))
    for (const LaunchRow& launch : data.launches) {
      if (launch.kind != LaunchKind::Traced ||
          !fs::path(path).filename().string().starts_with(fmt::format("{}.", launch.id)))
        continue;
      const bool of_report = needed.contains(launch.id);
      if (every || !of_report)
        found.push_back(
            {path, bytes_of(path), of_report ? "trace" : "trace of a launch that was repeated"});
    }
  return found;
}

// "2 files, 3 MiB"
std::string total_text(const std::vector<Leftover>& files) {
  std::uintmax_t bytes = 0;
  for (const Leftover& file : files) bytes += file.bytes;
  return fmt::format("{} file{}, {}",
                     files.size(),
                     files.size() == 1 ? "" : "s",
                     human_bytes(static_cast<double>(bytes)));
}

// `kept`: traces that --traces would remove too.
void print_clean(const CleanOptions& options,
                 const std::vector<Leftover>& found,
                 const std::vector<Leftover>& kept) {
  TextWriter out(terminal_style(false, 0));
  for (const Leftover& file : found)
    out.line(fmt::format(
        "{}: {}, {}", file.path.string(), human_bytes(static_cast<double>(file.bytes)), file.why));
  if (found.empty())
    out.line(options.directory + ": nothing to remove" +
             (kept.empty() ? "" : "; --traces would remove its traces: " + total_text(kept)));
  else
    out.line((options.dry_run ? "would remove " : "removed ") + total_text(found));
  if (options.traces && !found.empty())
    out.line(fmt::format(
        "Without the traces no stages, kernels and timelines {}: not in explain, export and the "
        "viewer's traces. Verdicts, pairs and the report files that were written before stay; a "
        "claim that names stages becomes CONSISTENT at best. No later run into this directory "
        "records the traces again.",
        options.dry_run ? "would be left" : "are left"));
  fmt::print("{}", out.take());
}

void clean(const CleanOptions& options) {
  const LedgerData data = value_or_throw(read_ledger(options.directory));
  const int lock = options.dry_run ? -1 : lock_directory(options.directory);
  std::vector<Leftover> found = temporary_files(options.directory);
  for (const Leftover& trace : removable_traces(options.directory, data, options.traces))
    found.push_back(trace);
  if (!options.dry_run)
    for (const Leftover& file : found)
      if (std::error_code error; !fs::remove(file.path, error) && error)
        bad_input("{} cannot be removed: {}; see to its permissions",
                  file.path.string(),
                  error.message());
  if (lock >= 0) ::close(lock);
  if (!options.json) {
    const bool ask = !options.traces && found.empty();
    return print_clean(options,
                       found,
                       ask ? removable_traces(options.directory, data, true)
                           : std::vector<Leftover>{});
  }
  json files = json::array();
  for (const Leftover& file : found)
    files.push_back({{"path", file.path.string()}, {"bytes", file.bytes}, {"why", file.why}});
  print_json({{"directory", options.directory}, {"dry_run", options.dry_run}, {"files", files}});
}

} // namespace

void add_clean(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "clean", "remove what killed runs left, and traces that no report reads; never the ledger");
  auto options = std::make_shared<CleanOptions>();
  command->add_option("directory", options->directory, "results directory")->required();
  command->add_flag("--traces", options->traces, "remove all traces of this directory's launches");
  command->add_flag("--dry-run", options->dry_run, "only print what would be removed");
  command->add_flag("--json", options->json, "print JSON");
  command->callback([options] { clean(*options); });
}

} // namespace assay::cli
