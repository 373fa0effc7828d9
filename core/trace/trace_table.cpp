#include "core/trace/trace_table.h"

#include <sqlite3.h>

#include <bit>
#include <cassert>
#include <new>
#include <string>

namespace assay {

namespace {

constexpr std::size_t kLookForUniform = 1024; // rows; of fewer a statement is not worth preparing
constexpr std::size_t kMostStatements = 32;

} // namespace

// The rows of the insertion that is running.
struct RowInserter::Source {
  RowTable table;
  std::int64_t epoch = 0;
  const char* rows = nullptr;
  std::size_t count = 0;
};

namespace {

using Source = RowInserter::Source;

struct VirtualTable : sqlite3_vtab {
  const Source* source = nullptr;
};

struct Cursor : sqlite3_vtab_cursor {
  const Source* source = nullptr;
  std::size_t index = 0;
  const char* row = nullptr;
};

int connect(sqlite3* db, void* source, int, const char* const*, sqlite3_vtab** table, char**) {
  const auto* from = static_cast<const Source*>(source);
  std::string declaration = "CREATE TABLE x(";
  for (std::size_t i = 0; i < from->table.columns.size(); ++i)
    declaration += fmt::format("{}c{}", i == 0 ? "" : ", ", i);
  if (const int code = sqlite3_declare_vtab(db, (declaration + ")").c_str()); code != SQLITE_OK)
    return code;
  auto* made = new (std::nothrow) VirtualTable();
  if (made == nullptr) return SQLITE_NOMEM;
  made->source = from;
  *table = made;
  return SQLITE_OK;
}

int disconnect(sqlite3_vtab* table) {
  delete static_cast<VirtualTable*>(table);
  return SQLITE_OK;
}

int best_index(sqlite3_vtab*, sqlite3_index_info*) {
  return SQLITE_OK; // always the whole array, in its order
}

int open(sqlite3_vtab* table, sqlite3_vtab_cursor** cursor) {
  auto* made = new (std::nothrow) Cursor();
  if (made == nullptr) return SQLITE_NOMEM;
  made->source = static_cast<VirtualTable*>(table)->source;
  *cursor = made;
  return SQLITE_OK;
}

int close(sqlite3_vtab_cursor* cursor) {
  delete static_cast<Cursor*>(cursor);
  return SQLITE_OK;
}

int filter(sqlite3_vtab_cursor* cursor, int, const char*, int, sqlite3_value**) {
  auto* at = static_cast<Cursor*>(cursor);
  at->index = 0;
  at->row = at->source->rows;
  return SQLITE_OK;
}

int next(sqlite3_vtab_cursor* cursor) {
  auto* at = static_cast<Cursor*>(cursor);
  ++at->index;
  at->row += at->source->table.row_bytes;
  return SQLITE_OK;
}

int at_end(sqlite3_vtab_cursor* cursor) {
  const auto* at = static_cast<const Cursor*>(cursor);
  return at->index >= at->source->count;
}

// Whether `value` of the column is NULL; else it is converted to the file's form.
bool to_stored(const RowColumn& of, std::int64_t epoch, std::int64_t& value) {
  switch (of.kind) {
  case RowColumn::Kind::Number:
  case RowColumn::Kind::Real:
    return true;
  case RowColumn::Kind::NumberOrNull:
    return value != of.absent;
  case RowColumn::Kind::Time:
    if (value != 0) value -= epoch;
    return true;
  case RowColumn::Kind::TimeOrNull:
    value -= epoch;
    return value != -epoch;
  }
  return false;
}

int column(sqlite3_vtab_cursor* cursor, sqlite3_context* result, int index) {
  const auto* at = static_cast<const Cursor*>(cursor);
  const RowColumn& of = at->source->table.columns[static_cast<std::size_t>(index)];
  std::int64_t value = of.get(at->row);
  if (!to_stored(of, at->source->epoch, value)) return SQLITE_OK; // NULL
  if (of.kind == RowColumn::Kind::Real)
    sqlite3_result_double(result, std::bit_cast<double>(value));
  else
    sqlite3_result_int64(result, value);
  return SQLITE_OK;
}

int row_id(sqlite3_vtab_cursor* cursor, sqlite3_int64* id) {
  *id = static_cast<sqlite3_int64>(static_cast<const Cursor*>(cursor)->index);
  return SQLITE_OK;
}

sqlite3_module make_module() {
  sqlite3_module module{};
  module.xConnect = connect; // no xCreate: it exists without CREATE VIRTUAL TABLE, on this
                             // connection only, and leaves nothing in the file
  module.xDisconnect = disconnect;
  module.xBestIndex = best_index;
  module.xOpen = open;
  module.xClose = close;
  module.xFilter = filter;
  module.xNext = next;
  module.xEof = at_end;
  module.xColumn = column;
  module.xRowid = row_id;
  return module;
}

const sqlite3_module kModule = make_module();

} // namespace

RowInserter::RowInserter(const Database& database, RowTable table, std::int64_t epoch)
    : database_(database), source_(std::make_unique<Source>()) {
  source_->table = std::move(table);
  source_->epoch = epoch;
  const int code = sqlite3_create_module_v2(database.handle(),
                                            fmt::format("rows_of_{}", source_->table.name).c_str(),
                                            &kModule,
                                            source_.get(),
                                            nullptr);
  if (code != SQLITE_OK) database.raise(code);
}

RowInserter::~RowInserter() = default;

// The SQL of a column's value: a constant, or the virtual table's column.
std::string RowInserter::value_of(std::size_t column, std::int64_t global_pid) const {
  const RowColumn& of = source_->table.columns[column];
  if (of.constant == kProcess) return std::to_string(global_pid);
  if (of.constant != nullptr) return of.constant;
  if (source_->count < kLookForUniform || of.kind == RowColumn::Kind::Real ||
      !of.is_uniform(source_->rows, source_->count))
    return fmt::format("c{}", column);
  std::int64_t value = of.get(source_->rows);
  return to_stored(of, source_->epoch, value) ? std::to_string(value) : "NULL";
}

Statement& RowInserter::statement_for(std::int64_t global_pid) {
  std::string names, values;
  for (std::size_t i = 0; i < source_->table.columns.size(); ++i) {
    const char* comma = i == 0 ? "" : ", ";
    names += fmt::format("{}\"{}\"", comma, source_->table.columns[i].name);
    values += comma + value_of(i, global_pid);
  }
  if (const auto found = statements_.find(values); found != statements_.end()) return found->second;
  if (statements_.size() >= kMostStatements) statements_.clear();
  const std::string sql = fmt::format(
      "INSERT INTO {0}({1}) SELECT {2} FROM rows_of_{0}", source_->table.name, names, values);
  return statements_.emplace(values, database_.prepare(sql)).first->second;
}

void RowInserter::insert(const void* rows,
                         std::size_t count,
                         std::size_t row_bytes,
                         std::int64_t global_pid) {
  if (count == 0) return;
  assert(row_bytes == source_->table.row_bytes && "rows of another kind");
  static_cast<void>(row_bytes);
  source_->rows = static_cast<const char*>(rows);
  source_->count = count;
  statement_for(global_pid).run();
  source_->rows = nullptr;
  source_->count = 0;
}

} // namespace assay
