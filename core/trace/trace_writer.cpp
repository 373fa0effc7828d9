// Writing a trace file: rows through virtual tables, names once each, what is derived at the end.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <typeindex>

#include "core/sqlite/database.h"
#include "core/text.h"
#include "core/trace/trace_context.h"
#include "core/trace/trace_file.h"
#include "core/trace/trace_names.h"
#include "core/trace/trace_schema.h"
#include "core/trace/trace_table.h"

namespace assay {

namespace fs = std::filesystem;

namespace {

// A table or index takes a page at least: with the large pages that make writing fast a trace of
// ten rows has 3 MB. Below this size it is packed into small ones.
constexpr std::int64_t kPackBelow = 16 << 20; // bytes

// A sample that is not a number is no sample.
std::vector<TelemetryRow> with_value(std::vector<TelemetryRow> rows) {
  std::erase_if(rows, [](const TelemetryRow& row) { return std::isnan(row.value); });
  return rows;
}

} // namespace

struct TraceWriter::Impl {
  std::string path, part;
  std::int64_t epoch = 0; // session start, UTC nanoseconds
  std::unique_ptr<Database> database;

  NameTable names;
  TraceContext context;
  TraceContext::Info info;
  std::int64_t rows = 0;

  // Declared after the database: their statements end before it closes.
  std::map<std::type_index, RowInserter> inserters; // by the type of the row

  void create();
  template <class Row> void insert(const std::vector<Row>& batch);
  void declare_metrics(const Database& db);
  void discard();

  const Database& open_database() const {
    if (database == nullptr) internal_error("{}: this trace is closed, nothing can be added", path);
    return *database;
  }

  // Runs `body`. When SQLite cannot write, the unfinished file goes, so that it does not keep the
  // disk full, and the error names the next action.
  template <class Body> auto writing(Body body) {
    try {
      return body(open_database());
    } catch (const DatabaseError& error) {
      discard();
      throw DatabaseError(
          error.code(),
          fmt::format("{}: the trace cannot be written{}; the unfinished file was removed. Free "
                      "space or choose another results directory with --out{}",
                      path,
                      error.is_full() ? ": the disk is full, or a size limit is reached" : "",
                      error.is_full() ? "" : fmt::format(" ({})", error.what())));
    }
  }
};

void TraceWriter::Impl::discard() {
  inserters.clear();
  database.reset();
  std::error_code ignored; // the error that led here is the one to report
  fs::remove(part, ignored);
}

void TraceWriter::Impl::create() {
  std::error_code error;
  const fs::path directory = fs::path(path).parent_path();
  if (!directory.empty()) fs::create_directories(directory, error);
  if (error)
    bad_input("{}: cannot be created ({}); choose another results directory with --out",
              directory.string(),
              error.message());
  fs::remove(part, error); // of a launch that was killed
  try {
    database = std::make_unique<Database>(part, Database::Mode::Create);
  } catch (const DatabaseError& cause) {
    bad_input("{}: cannot be created; choose another results directory with --out ({})",
              part,
              cause.what());
  }
  writing([&](const Database& db) {
    // A crash leaves a damaged file, but under the name of an unfinished one.
    db.execute("PRAGMA page_size = 65536; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; "
               "PRAGMA locking_mode = EXCLUSIVE");
    db.execute(fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}; BEGIN",
                           trace_schema::marks().application_id,
                           kTraceSchema));
    db.execute(trace_schema::kTables);
    db.execute(trace_schema::kEnums);
  });
}

template <class Row> void TraceWriter::Impl::insert(const std::vector<Row>& batch) {
  if (batch.empty()) return;
  const std::type_index kind = typeid(Row);
  const auto found = inserters.find(kind);
  RowInserter& inserter =
      found != inserters.end()
          ? found->second
          : inserters.try_emplace(kind, *database, row_table<Row>(), epoch).first->second;
  inserter.insert(batch, context.global_pid());
  rows += static_cast<std::int64_t>(batch.size());
}

// A series that was sampled and never declared still has its row, so that a join does not lose it.
void TraceWriter::Impl::declare_metrics(const Database& db) {
  db.execute("INSERT INTO TARGET_INFO_GPU_METRICS "
             "SELECT 0, 0, '', id, value, '', 'ok' FROM StringIds WHERE "
             "id IN (SELECT DISTINCT metricId FROM GPU_METRICS) AND "
             "id NOT IN (SELECT metricId FROM TARGET_INFO_GPU_METRICS)");
}

TraceWriter::TraceWriter(std::string path, std::int64_t session_start_utc_ns)
    : impl_(std::make_unique<Impl>()) {
  impl_->path = std::move(path);
  impl_->part = impl_->path + trace_schema::kUnfinishedSuffix;
  impl_->epoch = session_start_utc_ns;
  impl_->create();
}

TraceWriter::~TraceWriter() {
  if (impl_->database != nullptr) impl_->discard();
}

NameId TraceWriter::intern(std::string_view text) {
  return impl_->names.intern(text);
}

void TraceWriter::append(const TraceBatch& batch) {
  Impl& to = *impl_;
  to.writing([&](const Database&) {
    to.context.note(batch);
    to.insert(batch.kernels);
    to.insert(batch.copies);
    to.insert(batch.sets);
    to.insert(batch.api);
    to.insert(batch.syncs);
    to.insert(batch.overhead);
    to.insert(batch.ranges);
    to.insert(batch.operators);
    to.insert(batch.steps);
    to.insert(with_value(batch.telemetry));
  });
}

void TraceWriter::set_info(const std::string& key, const std::string& value) {
  impl_->info[key] = value;
}

void TraceWriter::set_telemetry_metrics(const std::vector<TelemetryMetric>& metrics) {
  impl_->writing([&](const Database& db) {
    db.execute("DELETE FROM TARGET_INFO_GPU_METRICS");
    Statement statement =
        db.prepare("INSERT INTO TARGET_INFO_GPU_METRICS VALUES (0, ?1, ?2, ?3, ?4, ?2, ?5)");
    std::map<std::string, std::int64_t> sources;
    for (const TelemetryMetric& metric : metrics) {
      const auto source = sources.try_emplace(metric.source, sources.size() + 1).first->second;
      const NameId id = intern(metric.name);
      statement.bind(1, source)
          .bind(2, metric.source)
          .bind(3, std::int64_t{id})
          .bind(4, impl_->names[id])
          .bind(5, metric.status)
          .run();
    }
  });
}

void TraceWriter::add_audit(const std::vector<AuditRow>& rows) {
  impl_->writing([&](const Database& db) {
    Statement statement = db.prepare("INSERT INTO ASSAY_AUDIT VALUES (?1, ?2, ?3, ?4, ?5)");
    for (const AuditRow& row : rows)
      statement.bind(1, row.check)
          .bind(2, row.value)
          .bind(3, row.limit)
          .bind(4, int{row.passed})
          .bind(5, row.detail)
          .run();
  });
}

void TraceWriter::add_diagnostic(std::int64_t time, int severity, const std::string& text) {
  impl_->writing([&](const Database& db) {
    db.prepare("INSERT INTO DIAGNOSTIC_EVENT VALUES (?1, 0, 0, ?2, ?3, ?4)")
        .bind(1, time == 0 ? 0 : time - impl_->epoch)
        .bind(2, severity)
        .bind(3, printable(text))
        .bind(4, impl_->context.global_pid())
        .run();
  });
}

std::int64_t TraceWriter::rows() const {
  return impl_->rows;
}

std::int64_t TraceWriter::altered_names() const {
  return impl_->names.altered();
}

void TraceWriter::finish() {
  Impl& to = *impl_;
  to.writing([&](const Database& db) {
    to.context.write_session(db, to.epoch, to.info);
    to.context.write_machine(db, to.info);
    to.context.write_threads(db, to.names);
    to.names.write(db); // beyond this point no name is added
    to.context.write_domains(db, to.epoch, to.names);
    to.declare_metrics(db);
    db.execute(trace_schema::kIndexes);
    db.execute("COMMIT");
    to.inserters.clear();
    if (db.integer("PRAGMA page_count") * db.integer("PRAGMA page_size") < kPackBelow)
      db.execute("PRAGMA page_size = 4096; VACUUM");
  });
  to.database.reset();
  try {
    sync_file(to.part);
    fs::rename(to.part, to.path);
    const std::string directory = fs::path(to.path).parent_path().string();
    sync_directory(directory.empty() ? "." : directory);
  } catch (const Failure&) {
    to.discard();
    throw;
  } catch (const fs::filesystem_error& error) {
    to.discard();
    bad_input("{}: cannot be renamed to its final name ({})", to.part, error.code().message());
  }
}

} // namespace assay
