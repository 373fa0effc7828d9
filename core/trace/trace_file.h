// TraceFile: one SQLite file a traced launch, rank and variant,
// `traces/<launch>.<rank>.<variant>.sqlite`. Written once by one thread, under the name
// `<path>.part` until finish() renames it; read-only afterwards.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/result.h"
#include "core/trace/trace.h"

namespace assay {

inline constexpr int kTraceSchema = 1;

inline constexpr const char* kTraceFolder = "traces"; // of a results directory

// The file's name inside a results directory: "traces/12.0.varlen.sqlite". Characters of the
// variant's name that a file name should not have become '_', and a hash of the name follows.
std::string trace_file_name(std::int64_t launch, int rank, std::string_view variant);

// All trace files of a results directory, sorted; unfinished (.part) ones are not listed.
std::vector<std::string> list_traces(const std::string& directory);

class TraceWriter {
public:
  // Creates `path`.part; the directory is made if it is missing. Throws DatabaseError or Failure.
  TraceWriter(std::string path, std::int64_t session_start_utc_ns);
  ~TraceWriter(); // without finish(): the .part file is removed
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  // The id of a name; bytes that are not UTF-8 are replaced, names over 64 KiB are cut and counted.
  NameId intern(std::string_view text);
  // Rows as they come, in any order; times are CLOCK_REALTIME and are stored relative to the
  // session start.
  void append(const TraceBatch& batch);
  void set_info(const std::string& key, const std::string& value); // ASSAY_RUN
  void set_telemetry_metrics(const std::vector<TelemetryMetric>& metrics);
  void add_audit(const std::vector<AuditRow>& rows);
  void add_diagnostic(std::int64_t time,
                      int severity,
                      const std::string& text); // 1 info 2 warning 3 error
  std::int64_t rows() const;                    // written so far
  std::int64_t altered_names() const;           // cut, or not UTF-8
  // Builds the indexes, syncs and renames. The file then never changes.
  void finish();

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

enum TracePart : unsigned {
  kTraceSteps = 1,
  kTraceDevice = 2,
  kTraceApi = 4,
  kTraceSpans = 8,
  kTraceOperators = 16,
  kTraceTelemetry = 32,
  kTraceAll = 63
};

// Errors, each with its own text: no such file, empty, not SQLite, SQLite of another program, newer
// schema, unfinished (.part), damaged.
Result<Trace> read_trace(const std::string& path, unsigned parts = kTraceAll);

} // namespace assay
