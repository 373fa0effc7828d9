// `assay sql`: named queries and free read-only SQL on a trace or a ledger.
#include <sqlite3.h>

#include <cstdio>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "app/assay/output/json_output.h"
#include "app/assay/output/terminal.h"
#include "app/assay/verbs.h"
#include "app/assay/verbs/sql/sql_output.h"
#include "app/assay/verbs/sql/sql_queries.h"
#include "app/command_line/parse.h"
#include "app/value_checks.h"
#include "core/ledger/ledger.h"
#include "core/ledger/ledger_schema.h"
#include "core/sqlite/database.h"
#include "core/text.h"
#include "core/trace/trace_file.h"
#include "core/trace/trace_schema.h"
#include "experiments/analysis/explanations.h"
#include "experiments/import/import_trace.h"
#include "experiments/report/text_layout.h"

namespace assay::cli {

namespace {

using nlohmann::json;

struct SqlOptions {
  std::string target, query, name;
  bool list = false, csv = false, json = false;
  std::optional<std::int64_t> limit; // 0: all
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
  if (is_foreign_trace(given)) return {value_or_throw(import_trace(given)), true};
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
  if (options.name.empty()) {
    if (find_query(options.query) != nullptr)
      bad_input("'{0}' is the name of a query: --name {0}", options.query);
    return options.query;
  }
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
  case SQLITE_RECURSIVE:
    return SQLITE_OK;
  case SQLITE_FUNCTION: // that one prints and takes addresses in memory
    return value != nullptr && std::string_view(value) == "fts3_tokenizer" ? SQLITE_DENY
                                                                           : SQLITE_OK;
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
  if (target.is_trace) {
    auto db = std::make_unique<Database>(target.path, Database::Mode::Immutable);
    trace_schema::check_pages(*db);
    return db;
  }
  try {
    auto db = std::make_unique<Database>(target.path, Database::Mode::ReadOnly);
    ledger_schema::check_pages(*db);
    return db;
  } catch (const DatabaseError& error) {
    if (error.is_damaged())
      bad_input("{}", ledger_schema::damaged(target.path, error.what()).message);
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
    if (error.code() != SQLITE_ERROR) throw; // no mistake of the query's text
    bad_input("{}: {}; `assay sql FILE \"SELECT name, sql FROM sqlite_schema\"` shows the tables",
              db.path(),
              cause);
  }
}

// Why a named query has no rows for this trace, or "".
std::string why_empty(const SqlOptions& options, const Database& db) {
  const NamedQuery* query = options.name.empty() ? nullptr : find_query(options.name);
  if (query == nullptr) return "";
  const bool recorded =
      db.integer(fmt::format("SELECT EXISTS(SELECT 1 FROM {})", query->table)) != 0;
  return recorded ? "" : fmt::format(": this trace contains no {}", query->records);
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

void print_rows(Statement& statement, const SqlOptions& options, const Database& db) {
  if (options.json)
    print_json_rows(statement, options.limit.value_or(0));
  else if (options.csv)
    print_csv(statement, options.limit.value_or(0));
  else
    print_table(
        statement, options.limit, options.terminal.style(), [&] { return why_empty(options, db); });
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
  try {
    print_rows(statement, options, *db);
  } catch (const DatabaseError& error) {
    if (!error.is_damaged()) throw;
    throw Failure(Failure::Kind::BadInput,
                  (target.is_trace ? trace_schema::damaged(target.path, error.what())
                                   : ledger_schema::damaged(target.path, error.what()))
                      .message);
  }
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
