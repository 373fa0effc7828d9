#include "experiments/import/import_trace.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <vector>

#include "core/sqlite/database.h"
#include "core/text.h"
#include "core/trace/trace_file.h"
#include "experiments/import/chrome_reader.h"
#include "experiments/import/find_steps.h"
#include "experiments/import/nsys_reader.h"

namespace assay {

namespace {

namespace fs = std::filesystem;

constexpr int kImportVersion = 1;           // of what the copies contain
constexpr std::int64_t kBeforeFirst = 1000; // ns: a time of 0 would be one that was lost
constexpr double kLongest = 30 * 86'400e9;  // ns of a trace, well within what read_trace() takes
constexpr double kMostTime = 4e18;          // ns: two such times add up within 64 bits

enum class Format { Other, Chrome, Nsys };

Format format_of(const std::string& path) {
  std::error_code error; // a pipe would be waited for
  if (!fs::is_regular_file(path, error)) return Format::Other;
  std::ifstream file(path, std::ios::binary);
  std::string head(64, '\0');
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  if (head.starts_with("\x1f\x8b")) return Format::Chrome;
  const std::size_t first = head.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && (head[first] == '{' || head[first] == '['))
    return Format::Chrome;
  if (head.starts_with("SQLite format 3") && is_nsys_export(path)) return Format::Nsys;
  return Format::Other;
}

// FNV-1a: names a copy, nothing rests on it being hard to invert.
std::uint64_t hash_of(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

Result<std::string> cache_folder() {
  if (const char* folder = std::getenv("XDG_CACHE_HOME"); folder != nullptr && *folder != '\0')
    return std::string(folder) + "/assay/imported";
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0')
    return std::string(home) + "/.cache/assay/imported";
  return fail("neither HOME nor XDG_CACHE_HOME is set, so there is no place for the copy of an "
              "imported trace; set one");
}

Result<std::string> cached_path(const std::string& path, const std::string& steps) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return fail("{}: no such file", printable(path));
  std::error_code error;
  const std::string whole = fs::absolute(path, error).string();
  const std::string key = fmt::format("{} {} {} {}.{} {}",
                                      kImportVersion,
                                      whole,
                                      status.st_size,
                                      status.st_mtim.tv_sec,
                                      status.st_mtim.tv_nsec,
                                      steps);
  Result<std::string> folder = cache_folder();
  if (!folder) return folder;
  return fmt::format("{}/{}-{:016x}.sqlite",
                     *folder,
                     fs::path(path).filename().string().substr(0, 64),
                     hash_of(key));
}

// Calls `visit` with every time of the rows.
template <class Visit> void every_time(TraceBatch& rows, const Visit& visit) {
  const auto both = [&](auto& list) {
    for (auto& row : list) visit(row.start), visit(row.end);
  };
  both(rows.kernels), both(rows.copies), both(rows.sets), both(rows.api), both(rows.syncs);
  both(rows.overhead), both(rows.operators), both(rows.steps);
  for (RangeRow& row : rows.ranges) {
    visit(row.start);
    if (row.end != 0) visit(row.end); // of a mark
  }
}

// On the session's clock, so that the first is behind its start, which this returns. Throws bad
// input where the times are no trace's.
std::int64_t move_to_session(ImportedRows& rows) {
  double first = std::numeric_limits<double>::infinity(), last = -first;
  std::int64_t least = 0;
  every_time(rows.rows, [&](std::int64_t& time) {
    if (static_cast<double>(time) < first) first = static_cast<double>(least = time);
    last = std::max(last, static_cast<double>(time));
  });
  if (first > last) return kBeforeFirst; // no events: find_steps() says so
  if (last - first > kLongest)
    bad_input("its events are up to {:.3g} days apart; a trace of minutes was expected, so the "
              "times are damaged or of several clocks",
              (last - first) / 86'400e9);
  if (std::abs(first) > kMostTime || static_cast<double>(rows.base_utc_ns) > kMostTime)
    bad_input("its times are more than a hundred years from the start of its clock, so they are "
              "damaged");
  const std::int64_t start = std::max<std::int64_t>(least + rows.base_utc_ns - kBeforeFirst, 0);
  every_time(rows.rows, [&](std::int64_t& time) { time = start + (time - least + kBeforeFirst); });
  return start;
}

// Ids of the rows' names become those of the writer.
void intern_names(ImportedRows& rows, TraceWriter& writer) {
  std::vector<NameId> ids;
  for (const std::string& name : rows.names) ids.push_back(writer.intern(name));
  for (KernelRow& row : rows.rows.kernels) {
    row.demangled = ids[row.demangled];
    row.short_name = ids[row.short_name];
    row.mangled = ids[row.mangled];
  }
  for (ApiRow& row : rows.rows.api) row.name = ids[row.name];
  for (OverheadRow& row : rows.rows.overhead) row.name = ids[row.name];
  for (OperatorRow& row : rows.rows.operators) row.name = ids[row.name];
  for (RangeRow& row : rows.rows.ranges) {
    row.text = ids[row.text];
    row.domain = ids[row.domain];
  }
}

Result<std::string> write_copy(ImportedRows rows,
                               const std::string& path,
                               const ImportOptions& options,
                               const std::string& out) {
  try {
    const std::int64_t start = move_to_session(rows);
    FoundSteps steps = value_or_throw(find_steps(rows, options.steps));
    const std::string stages = add_stages(rows, steps.steps);
    rows.rows.steps = std::move(steps.steps);
    TraceWriter writer(out, start);
    intern_names(rows, writer);
    writer.append(rows.rows);
    const std::string name = fs::path(path).filename().string();
    writer.set_info("imported_from", path);
    writer.set_info("source", rows.source);
    writer.set_info("variant", name);
    writer.set_info("steps", steps.how);
    writer.set_info("stages", stages);
    writer.set_info("device", rows.rows.kernels.empty() ? "cpu" : "cuda");
    if (rows.left_out > 0)
      writer.set_info("left_out", fmt::format("{} events of other kinds", rows.left_out));
    for (const auto& [key, value] : rows.info) writer.set_info(key, value);
    writer.finish();
  } catch (const DatabaseError& error) { // a full disk, a folder without rights
    return fail("{}: the copy of {} could not be written: {}",
                printable(out),
                printable(path),
                error.what());
  } catch (const Failure& failure) {
    return fail("{}: {}", printable(path), failure.what());
  }
  return out;
}

} // namespace

bool is_foreign_trace(const std::string& path) {
  return format_of(path) != Format::Other;
}

Result<std::string> import_trace(const std::string& path, const ImportOptions& options) {
  std::string out = options.out;
  if (out.empty()) {
    Result<std::string> cached = cached_path(path, options.steps);
    if (!cached) return cached;
    out = *cached;
    if (std::error_code error; fs::exists(out, error)) return out;
  }
  const Format format = format_of(path);
  if (format == Format::Other)
    return fail("{}: neither JSON (torch.profiler, Kineto, Chrome; also .gz) nor an SQLite export "
                "of Nsight Systems",
                printable(path));
  Result<ImportedRows> rows =
      format == Format::Nsys ? read_nsys_export(path) : read_chrome_trace(path);
  if (!rows) return fail("{}", rows.error().message);
  return write_copy(std::move(*rows), path, options, out);
}

Result<std::string> readable_trace(const std::string& path) {
  if (std::error_code error; fs::is_regular_file(path, error) && is_foreign_trace(path))
    return import_trace(path);
  return path;
}

} // namespace assay
