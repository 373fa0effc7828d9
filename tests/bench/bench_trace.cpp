// Speed of writing traces: 1 M kernel rows into the full 40-column table, by plain binding of every
// value and by TraceWriter, in turns in the same run, as a machine's speed drifts more than
// the two differ. Exit code 1 when ours is not at least 1.5 times as fast.
//
//   bench_trace [ROWS]
#include <fmt/format.h>
#include <sqlite3.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "core/sqlite/database.h"
#include "core/trace/trace_file.h"
#include "core/trace/trace_schema.h"

namespace {

using namespace assay;

constexpr int kRounds = 3;
constexpr double kGoal = 1.5;
constexpr std::int64_t kEpoch = 1'763'700'000'000'000'000;
constexpr std::int64_t kProcess = std::int64_t{4242} << 24;
constexpr int kNames = 901;           // of kernels
constexpr std::size_t kBatch = 65536; // rows that the writer gets at a time

std::vector<KernelRow> make_rows(std::size_t count) {
  std::mt19937 engine(1);
  const auto random = [&engine] { return static_cast<std::uint32_t>(engine()); };
  std::vector<KernelRow> rows(count);
  std::int64_t now = kEpoch;
  std::uint32_t correlation = 100;
  for (KernelRow& row : rows) {
    row.start = now += 500 + random() % 3000;
    row.end = now += 2000 + random() % 50'000;
    row.context = 1;
    row.stream = 7;
    row.correlation = correlation += 1 + random() % 9;
    row.demangled = 1 + random() % 300;
    row.short_name = row.demangled + 300;
    row.mangled = row.demangled + 600;
    row.registers_per_thread = 32 + random() % 200;
    row.grid = {static_cast<std::int32_t>(1 + random() % 10'000),
                1 + static_cast<std::int32_t>(random() % 16),
                1};
    row.block = {256, 1, 1};
    row.dynamic_shared_bytes = static_cast<std::int32_t>(random() % 200'000);
    row.shared_executed_bytes = 233'472;
    row.local_bytes_total = 212'860'928;
    row.grid_id = correlation;
  }
  return rows;
}

double seconds(const auto& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Both ways get the same empty file: TraceWriter's settings and tables.
std::unique_ptr<Database> open_fresh(const std::string& path) {
  std::filesystem::remove(path);
  auto db = std::make_unique<Database>(path, Database::Mode::Create);
  db->execute("PRAGMA page_size = 65536; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; "
              "PRAGMA locking_mode = EXCLUSIVE");
  db->execute(trace_schema::kTables);
  return db;
}

void bind_row(sqlite3_stmt* s, const KernelRow& r) {
  int i = 0;
  const auto value = [&](std::int64_t v) { sqlite3_bind_int64(s, ++i, v); };
  const auto null = [&] { sqlite3_bind_null(s, ++i); };
  const auto value_or_null = [&](std::int64_t v) { v == 0 ? null() : value(v); };
  value(r.start - kEpoch), value(r.end - kEpoch), value(r.device), value(r.context), null();
  value(r.stream), value(r.correlation), value(kProcess), value(r.demangled), value(r.short_name);
  value_or_null(r.mangled), value(r.launch_type), value(r.cache_config);
  value(r.registers_per_thread);
  for (const std::int32_t size : r.grid) value(size);
  for (const std::int32_t size : r.block) value(size);
  value(r.static_shared_bytes), value(r.dynamic_shared_bytes), value(r.local_bytes_per_thread);
  value(static_cast<std::int64_t>(r.local_bytes_total)), value(r.grid_id);
  value(r.shared_executed_bytes), value_or_null(static_cast<std::int64_t>(r.graph_node));
  null(), null(), null(), null(), value_or_null(r.graph);
  for (const std::int32_t size : r.cluster) value(size);
  null(), null(), null(), null();
  sqlite3_bind_text(s, ++i, "", 0, SQLITE_STATIC);
}

double plain_binding(const std::string& path, const std::vector<KernelRow>& rows) {
  const auto db = open_fresh(path);
  std::string sql = "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?1";
  for (int i = 2; i <= 40; ++i) sql += fmt::format(", ?{}", i);
  sql += ")";
  sqlite3_stmt* statement = nullptr;
  sqlite3_prepare_v2(db->handle(), sql.c_str(), -1, &statement, nullptr);
  const double time = seconds([&] {
    db->execute("BEGIN");
    for (const KernelRow& row : rows) {
      bind_row(statement, row);
      if (sqlite3_step(statement) != SQLITE_DONE)
        internal_error("{}", sqlite3_errmsg(db->handle()));
      sqlite3_reset(statement);
    }
    db->execute("COMMIT");
  });
  sqlite3_finalize(statement);
  return time;
}

struct Written {
  double append = 0, finish = 0; // seconds
};

// What a traced launch does: rows in batches through TraceWriter; at the end indexes, sync, rename.
Written our_way(const std::string& path, const std::vector<TraceBatch>& batches) {
  TraceWriter writer(path, kEpoch);
  for (int name = 1; name < kNames; ++name) writer.intern(fmt::format("kernel {}", name));
  Written time;
  time.append = seconds([&] {
    for (const TraceBatch& batch : batches) writer.append(batch);
  });
  time.finish = seconds([&] { writer.finish(); });
  return time;
}

// Each batch starts with a call of the host, which says which process it is.
std::vector<TraceBatch> in_batches(const std::vector<KernelRow>& rows) {
  std::vector<TraceBatch> batches;
  for (auto at = rows.begin(); at != rows.end();) {
    const auto end = at + std::min<std::ptrdiff_t>(kBatch, rows.end() - at);
    batches.emplace_back().kernels.assign(at, end);
    batches.back().api.push_back({kEpoch + 1, kEpoch + 2, 0, kProcess | 4243, 1, 1, 0});
    at = end;
  }
  return batches;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Checks that both ways stored the same.
void check_equal(const std::string& a, const std::string& b) {
  const Database db(a, Database::Mode::ReadOnly);
  db.execute("ATTACH '" + b + "' AS other");
  const std::int64_t different =
      db.integer("SELECT count(*) FROM (SELECT * FROM main.CUPTI_ACTIVITY_KIND_KERNEL EXCEPT "
                 "SELECT * FROM other.CUPTI_ACTIVITY_KIND_KERNEL)");
  if (different != 0) internal_error("{} rows differ between the two ways", different);
}

void print(const char* what, double value, const char* unit) {
  fmt::print("  {:<40}{:>12.{}f} {}\n", what, value, value < 1000 ? 2 : 0, unit);
}

int bench(std::size_t count, const std::string& directory) {
  const std::vector<KernelRow> rows = make_rows(count);
  const std::vector<TraceBatch> batches = in_batches(rows);
  const std::string plain_path = directory + "/plain.sqlite", our_path = directory + "/ours.sqlite";
  std::vector<double> plain, ours, finish, ratio;
  for (int round = 0; round < kRounds; ++round) {
    plain.push_back(plain_binding(plain_path, rows));
    const Written written = our_way(our_path, batches);
    ours.push_back(written.append);
    finish.push_back(written.finish);
    ratio.push_back(plain.back() / ours.back());
  }
  check_equal(plain_path, our_path);
  const double n = static_cast<double>(count);
  const double read = seconds([&] { value_or_throw(read_trace(our_path)); });
  const auto bytes_per_row = [n](const std::string& path) {
    return static_cast<double>(std::filesystem::file_size(path)) / n;
  };
  fmt::print("{} kernel rows of 40 columns, medians of {} turns\n", count, kRounds);
  print("plain binding", n / median(plain), "rows/s");
  print("TraceWriter::append", n / median(ours), "rows/s");
  print("ratio", median(ratio), fmt::format("(goal {})", kGoal).c_str());
  print("TraceWriter::finish (indexes, sync)", median(finish), "s");
  print("read_trace", n / read, "rows/s");
  print("on disk, the table alone", bytes_per_row(plain_path), "bytes/row");
  print("on disk, with its two indexes", bytes_per_row(our_path), "bytes/row");
  return median(ratio) >= kGoal ? 0 : 1;
}

} // namespace

int main(int argc, char** argv) {
  const std::size_t count = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1'000'000;
  const std::string directory =
      (std::filesystem::temp_directory_path() / fmt::format("assay-bench-trace-{}", ::getpid()))
          .string();
  std::filesystem::create_directories(directory);
  int code = 1;
  try {
    code = bench(std::max<std::size_t>(count, 1000), directory);
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
  }
  std::filesystem::remove_all(directory);
  return code;
}
