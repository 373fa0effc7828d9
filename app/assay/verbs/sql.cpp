// `assay sql`: named queries and free read-only SQL on a trace or a ledger.
#include <sqlite3.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>

#include "app/assay/json_output.h"
#include "app/assay/terminal.h"
#include "app/assay/verbs.h"
#include "app/assay/verbs/sql_queries.h"
#include "app/command_line/parse.h"
#include "app/number_checks.h"
#include "core/files/csv_text.h"
#include "core/ledger/ledger.h"
#include "core/ledger/ledger_schema.h"
#include "core/sqlite/database.h"
#include "core/text.h"
#include "core/trace/trace_file.h"
#include "core/trace/trace_schema.h"
#include "experiments/analysis/explanations.h"
#include "experiments/report/text_layout.h"
#include "experiments/report/text_sections.h"

namespace assay::cli {

namespace {

using nlohmann::json;

constexpr std::int64_t kTableRows = 100; // that a table shows without --limit

struct SqlOptions {
  std::string target, query, name;
  bool list = false, csv = false, json = false;
  std::int64_t limit = -1; // -1: not given; 0: all
  TerminalOptions terminal;
};

struct Target {
  std::string path;
  bool is_trace = false;
};

// A trace file, a ledger, or the directory that contains one.
Target find_target(const std::string& given) {
  std::error_code error;
  if (std::filesystem::is_directory(given, error)) {
    const std::string ledger = (std::filesystem::path(given) / ledger_schema::kFileName).string();
    value_or_throw(ledger_schema::check_file(ledger));
    return {ledger, false};
  }
  const Result<bool> trace = trace_schema::check_file(given);
  if (trace) return {given, true};
  if (std::filesystem::exists(given, error) && ledger_schema::check_file(given))
    return {given, false};
  throw Failure(Failure::Kind::BadInput, trace.error().message);
}

[[noreturn]] void refuse_named_query(const std::string& name, const Target& target) {
  const std::string directory = std::filesystem::path(target.path).parent_path().string();
  std::string choices;
  for (const std::string& trace : list_traces(directory)) choices += "\n  " + printable(trace);
  if (choices.empty())
    bad_input("--name {} reads one trace, and {} contains none: {}; or give a trace file",
              name,
              directory,
              printable(why_no_trace(value_or_throw(read_ledger(directory)), 0)));
  bad_input(
      "--name {} reads one trace; give one of them instead of {}:{}", name, directory, choices);
}

std::string query_text(const SqlOptions& options, const Target& target) {
  if (options.query == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
  if (options.name.empty()) return options.query;
  const NamedQuery* query = find_query(options.name);
  if (query == nullptr) {
    std::vector<std::string> names;
    for (const NamedQuery& known : named_queries()) names.emplace_back(known.name);
    bad_input("unknown query '{}'{}; see `assay sql --list`",
              options.name,
              did_you_mean(options.name, names));
  }
  if (!target.is_trace) refuse_named_query(options.name, target);
  return query->sql;
}

// What a query may do: read tables, call functions, look at the schema. ATTACH, which creates
// files, and every PRAGMA that sets something, are refused before they run.
int only_reading(void*, int action, const char* what, const char* value, const char*, const char*) {
  switch (action) {
  case SQLITE_SELECT:
  case SQLITE_READ:
  case SQLITE_FUNCTION:
  case SQLITE_RECURSIVE:
    return SQLITE_OK;
  case SQLITE_PRAGMA: {
    const std::string_view pragma = what == nullptr ? "" : what;
    for (const char* allowed :
         {"table_info", "table_xinfo", "table_list", "index_list", "index_info"})
      if (pragma == allowed) return SQLITE_OK;
    const bool reads = value == nullptr && (pragma == "user_version" || pragma == "application_id");
    return reads ? SQLITE_OK : SQLITE_DENY;
  }
  default:
    return SQLITE_DENY;
  }
}

// A trace never changes. A ledger may be in use, which takes locks; where none can be taken it is
// read without changes.
std::unique_ptr<Database> open_target(const Target& target) {
  if (target.is_trace) return std::make_unique<Database>(target.path, Database::Mode::Immutable);
  try {
    auto db = std::make_unique<Database>(target.path, Database::Mode::ReadOnly);
    db->integer("PRAGMA schema_version");
    return db;
  } catch (const DatabaseError& error) {
    std::error_code none;
    if (!error.is_read_only() || std::filesystem::file_size(target.path + "-wal", none) > 0) throw;
  }
  return std::make_unique<Database>(target.path, Database::Mode::Immutable);
}

[[noreturn]] void refuse_writing(const Database& db, const std::string& cause) {
  bad_input("{}: only reading is allowed here (SELECT, WITH, EXPLAIN, PRAGMA table_info): {}",
            db.path(),
            cause);
}

Statement prepare_query(const Database& db, const std::string& sql) {
  try {
    Statement statement = db.prepare(sql);
    if (statement.is_empty()) bad_input("the query is empty");
    if (!statement.only_reads() || statement.columns() == 0)
      refuse_writing(db, "this statement has no result");
    if (!db.prepare(statement.rest()).is_empty())
      bad_input("one query at a time: '{}' follows the first", printable(statement.rest()));
    return statement;
  } catch (const DatabaseError& error) {
    const std::string cause = sqlite3_errmsg(db.handle());
    if (error.code() == SQLITE_AUTH) refuse_writing(db, cause);
    bad_input("{}: {}; `assay sql FILE \"SELECT name, sql FROM sqlite_schema\"` shows the tables",
              db.path(),
              cause);
  }
}

// ---- Output ----

bool is_number(Statement::Type type) {
  return type == Statement::Type::Integer || type == Statement::Type::Real;
}

// Of a large blob, its first bytes and how many there are.
std::string hex(const std::string& bytes) {
  constexpr std::size_t kMost = 4096, kShown = 64;
  const std::size_t shown = bytes.size() <= kMost ? bytes.size() : kShown;
  std::string text;
  for (std::size_t i = 0; i < shown; ++i)
    text += fmt::format("{:02x}", static_cast<unsigned char>(bytes[i]));
  return shown == bytes.size() ? text : text + fmt::format("... ({} bytes)", bytes.size());
}

json json_value(const Statement& row, int column) {
  switch (row.type(column)) {
  case Statement::Type::Integer:
    return row.integer(column);
  case Statement::Type::Real:
    return row.real(column);
  case Statement::Type::Text:
    return printable(row.text(column));
  case Statement::Type::Blob:
    return hex(row.text(column));
  case Statement::Type::Null:
    break;
  }
  return nullptr;
}

// An object cannot hold two members of one name, so a repeated column is "id_2", "id_3" ….
std::vector<std::string> member_names(const Statement& rows) {
  std::vector<std::string> names;
  const auto taken = [&](const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  for (int c = 0; c < rows.columns(); ++c) {
    const std::string column = printable(rows.column_name(c));
    std::string name = column;
    for (int i = 2; taken(name); ++i) name = fmt::format("{}_{}", column, i);
    names.push_back(name);
  }
  return names;
}

// One object a line inside the array: large results need no memory.
void print_json_rows(Statement& rows, std::int64_t limit) {
  const std::vector<std::string> names = member_names(rows);
  fmt::print(
      "{{\"schema_version\": {}, \"columns\": {}, \"rows\": [", kOutputSchema, json(names).dump());
  for (std::int64_t count = 0; (limit == 0 || count < limit) && rows.step(); ++count) {
    nlohmann::ordered_json row = nlohmann::ordered_json::object();
    for (int c = 0; c < rows.columns(); ++c)
      row[names[static_cast<std::size_t>(c)]] = json_value(rows, c);
    fmt::print("{}\n{}", count == 0 ? "" : ",", row.dump());
  }
  fmt::print("\n]}}\n");
}

std::string plain_value(const Statement& row, int column) {
  if (row.type(column) == Statement::Type::Real) return fmt::format("{}", row.real(column));
  if (row.type(column) == Statement::Type::Blob) return hex(row.text(column));
  return printable(row.text(column)); // NULL: ""
}

void print_csv(Statement& rows, std::int64_t limit) {
  for (int c = 0; c < rows.columns(); ++c)
    fmt::print("{}{}", c == 0 ? "" : ",", csv_field(rows.column_name(c)));
  fmt::print("\r\n");
  for (std::int64_t count = 0; (limit == 0 || count < limit) && rows.step(); ++count) {
    for (int c = 0; c < rows.columns(); ++c)
      fmt::print("{}{}", c == 0 ? "" : ",", csv_field(plain_value(rows, c)));
    fmt::print("\r\n");
  }
}

struct Table {
  std::vector<std::vector<std::string>> rows; // the first is the header
  std::vector<bool> numeric;
  bool more = false;
};

// Reals with five significant digits, whole ones where they have more; CSV and JSON have all.
std::string table_value(const Statement& row, int column) {
  if (row.type(column) == Statement::Type::Null) return "-";
  if (row.type(column) != Statement::Type::Real) return plain_value(row, column);
  const double value = row.real(column), size = std::abs(value);
  constexpr double kFiveDigits = 1e5, kWhole = 1e15;
  return size >= kFiveDigits && size < kWhole ? fmt::format("{:.0f}", value)
                                              : fmt::format("{:.5g}", value);
}

Table read_table(Statement& statement, std::int64_t limit) {
  Table table;
  const auto columns = static_cast<std::size_t>(statement.columns());
  table.numeric.assign(columns, true);
  table.rows.emplace_back();
  for (int c = 0; c < statement.columns(); ++c)
    table.rows[0].push_back(printable(statement.column_name(c)));
  while (statement.step()) {
    if (limit != 0 && static_cast<std::int64_t>(table.rows.size()) > limit) {
      table.more = true;
      break;
    }
    std::vector<std::string> row;
    for (int c = 0; c < statement.columns(); ++c) {
      std::string text = table_value(statement, c);
      std::replace_if(
          text.begin(), text.end(), [](char x) { return x == '\n' || x == '\t'; }, ' ');
      if (!is_number(statement.type(c)) && statement.type(c) != Statement::Type::Null)
        table.numeric[static_cast<std::size_t>(c)] = false;
      row.push_back(std::move(text));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::vector<std::size_t> column_widths(const Table& table) {
  std::vector<std::size_t> widths(table.numeric.size());
  for (const std::vector<std::string>& row : table.rows)
    for (std::size_t c = 0; c < row.size(); ++c)
      widths[c] = std::max(widths[c], display_width(row[c]));
  return widths;
}

// A table that the line does not fit takes the form of a report's: its longest text leads, on a
// line of its own, and is never cut.
bool print_narrow(const Table& table, const TableStyle& style) {
  const std::vector<std::size_t> whole = column_widths(table);
  const std::size_t line = std::accumulate(whole.begin(), whole.end(), 2 * (whole.size() - 1));
  const auto longest = [&]() -> std::size_t {
    std::size_t found = whole.size();
    for (std::size_t c = 0; c < whole.size(); ++c)
      if (!table.numeric[c] && (found == whole.size() || whole[c] > whole[found])) found = c;
    return found;
  }();
  if (line <= static_cast<std::size_t>(style.width) || table.rows.size() == 1) return false;
  std::vector<std::size_t> order; // of the columns
  if (longest < whole.size()) order.push_back(longest);
  for (std::size_t c = 0; c < whole.size(); ++c)
    if (c != longest) order.push_back(c);
  Section section;
  section.names = longest < whole.size() ? 1 : 0;
  for (const std::size_t c : order)
    section.columns.push_back({table.rows[0][c], static_cast<bool>(table.numeric[c])});
  for (std::size_t i = 1; i < table.rows.size(); ++i) {
    SectionRow row;
    for (const std::size_t c : order) row.texts.push_back(table.rows[i][c]);
    section.rows.push_back(std::move(row));
  }
  TextWriter out(style);
  print_section(out, section, 0);
  fmt::print("{}", out.take());
  return true;
}

// Why a named query has no rows for this trace, or "".
std::string why_empty(const SqlOptions& options, const Database& db) {
  const NamedQuery* query = options.name.empty() ? nullptr : find_query(options.name);
  if (query == nullptr) return "";
  const bool recorded =
      db.integer(fmt::format("SELECT EXISTS(SELECT 1 FROM {})", query->table)) != 0;
  return recorded ? "" : fmt::format(": this trace contains no {}", query->records);
}

void print_table(Statement& statement, const SqlOptions& options, const Database& db) {
  const std::int64_t limit = options.limit < 0 ? kTableRows : options.limit;
  const Table table = read_table(statement, limit);
  if (print_narrow(table, options.terminal.style())) {
    if (table.more) fmt::print("... the first {} rows; --limit 0 shows all\n", limit);
    return;
  }
  const std::vector<std::size_t> widths = column_widths(table);
  const auto print_row = [&](const std::vector<std::string>& row) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c)
      line += (c == 0 ? "" : "  ") + padded(row[c], widths[c], table.numeric[c]);
    line.erase(line.find_last_not_of(' ') + 1);
    fmt::print("{}\n", line);
  };
  print_row(table.rows[0]);
  std::vector<std::string> rule;
  for (const std::size_t width : widths) rule.emplace_back(width, '-');
  print_row(rule);
  for (std::size_t i = 1; i < table.rows.size(); ++i) print_row(table.rows[i]);
  if (table.rows.size() == 1) fmt::print("(no rows{})\n", why_empty(options, db));
  if (table.more) fmt::print("... the first {} rows; --limit 0 shows all\n", limit);
}

void print_queries(const SqlOptions& options) {
  if (options.json) {
    json rows = json::array();
    for (const NamedQuery& query : named_queries())
      rows.push_back({{"name", query.name}, {"summary", query.summary}, {"sql", query.sql}});
    print_json({{"queries", rows}});
    return;
  }
  TextWriter out(options.terminal.style());
  for (const NamedQuery& query : named_queries())
    out.line(query.summary, 0, fmt::format("{:<18} ", query.name));
  fmt::print("{}", out.take());
}

void run_sql(const CLI::App& command, const SqlOptions& options) {
  if (options.list) {
    print_queries(options);
    return;
  }
  if (options.target.empty()) refuse_missing(command, {command.get_option("target")});
  if (options.query.empty() && options.name.empty())
    refuse_missing(command, {command.get_option("query")});
  if (!options.query.empty() && !options.name.empty())
    bad_input("give either a query or --name, not both");
  const Target target = find_target(options.target);
  const std::string sql = query_text(options, target);
  const std::unique_ptr<Database> db = open_target(target);
  sqlite3_set_authorizer(db->handle(), only_reading, nullptr);
  Statement statement = prepare_query(*db, sql);
  if (options.json)
    print_json_rows(statement, std::max<std::int64_t>(options.limit, 0));
  else if (options.csv)
    print_csv(statement, std::max<std::int64_t>(options.limit, 0));
  else
    print_table(statement, options, *db);
}

} // namespace

void add_sql(CLI::App& app, int&) {
  CLI::App* command =
      app.add_subcommand("sql", "SQL on a trace or a ledger: named queries, or your own");
  auto options = std::make_shared<SqlOptions>();
  command->add_option("target",
                      options->target,
                      "trace file, or results directory for its ledger; --list needs none");
  command->add_option("query",
                      options->query,
                      "one SQL query, or - to read it from standard input; "
                      "only reading is allowed. Instead --name takes one of `assay sql --list`");
  command->add_option("--name", options->name, "a named query");
  command->add_flag("--list", options->list, "the named queries (with --json also their SQL)");
  CLI::Option* csv = command->add_flag("--csv", options->csv, "print CSV");
  command->add_flag("--json", options->json, "print JSON")->excludes(csv);
  command
      ->add_option("--limit",
                   options->limit,
                   "most rows to print, 0: all (default: 100 in a table, else all)")
      ->check(whole_number(0));
  options->terminal.add_to(*command, false);
  command->callback([options, command] { run_sql(*command, *options); });
}

} // namespace assay::cli
