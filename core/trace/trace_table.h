// How rows get into the tables of a trace file: `INSERT … SELECT` from an SQLite virtual table over
// the array of rows, which leaves out SQLite's bind, step and reset of every row. Columns that are
// equal in a whole batch (device, context, block size …) are constants of the statement instead of
// being asked for in every row. Equivalent to: INSERT INTO table VALUES (…) for every row;
// tests/bench/bench_trace compares the two.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/sqlite/database.h"
#include "core/trace/trace.h"

namespace assay {

// A column of the table: a constant SQL expression, or what is made of `get` of a row.
struct RowColumn {
  enum class Kind : std::uint8_t {
    Number,
    NumberOrNull, // NULL where it is `absent`
    Time,         // less the epoch; a lost time stamp stays 0
    TimeOrNull,   // less the epoch; NULL where it is 0
    Real          // `get` gives its bits
  };
  const char* name = "";
  const char* constant = nullptr;
  Kind kind = Kind::Number;
  std::int64_t absent = 0;
  std::int64_t (*get)(const void* row) = nullptr;
  bool (*is_uniform)(const void* rows, std::size_t count) = nullptr;
};

struct RowTable {
  const char* name = ""; // of the table in the file
  std::size_t row_bytes = 0;
  std::vector<RowColumn> columns; // all of the table's
};

// The constant that represents the process: globalPid of Nsight Systems.
inline constexpr char kProcess[] = "process"; // one address in all files

template <class Row> RowTable row_table();
template <> RowTable row_table<KernelRow>();
template <> RowTable row_table<CopyRow>();
template <> RowTable row_table<SetRow>();
template <> RowTable row_table<ApiRow>();
template <> RowTable row_table<SyncRow>();
template <> RowTable row_table<OverheadRow>();
template <> RowTable row_table<RangeRow>();
template <> RowTable row_table<OperatorRow>();
template <> RowTable row_table<StepRow>();
template <> RowTable row_table<TelemetryRow>();

// Inserts rows of one kind. The database must outlive it.
class RowInserter {
public:
  // `epoch`: what is subtracted from every time stamp that is not 0 (lost).
  RowInserter(const Database& database, RowTable table, std::int64_t epoch);
  ~RowInserter();
  RowInserter(const RowInserter&) = delete;
  RowInserter& operator=(const RowInserter&) = delete;

  template <class Row> void insert(const std::vector<Row>& rows, std::int64_t global_pid) {
    insert(rows.data(), rows.size(), sizeof(Row), global_pid);
  }

  struct Source; // what the virtual table reads

private:
  void insert(const void* rows, std::size_t count, std::size_t row_bytes, std::int64_t global_pid);
  std::string value_of(std::size_t column, std::int64_t global_pid) const;
  Statement& statement_for(std::int64_t global_pid);

  const Database& database_;
  std::unique_ptr<Source> source_;
  std::map<std::string, Statement> statements_; // by what they select
};

} // namespace assay
