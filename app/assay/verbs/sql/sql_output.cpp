#include "app/assay/verbs/sql/sql_output.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <string_view>
#include <vector>

#include "app/assay/output/json_output.h"
#include "core/files/csv_text.h"
#include "core/text.h"
#include "experiments/report/text_layout.h"
#include "experiments/report/text_sections.h"

namespace assay::cli {

namespace {

using nlohmann::json;

constexpr std::int64_t kTableRows = 100; // that a table shows without a limit

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

std::string plain_value(const Statement& row, int column) {
  if (row.type(column) == Statement::Type::Real) return fmt::format("{}", row.real(column));
  if (row.type(column) == Statement::Type::Blob) return hex(row.text(column));
  return printable(row.text(column)); // NULL: ""
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

std::string in_one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char x) { return x == '\n' || x == '\t'; }, ' ');
  return text;
}

Table read_table(Statement& statement, std::int64_t limit) {
  Table table;
  const auto columns = static_cast<std::size_t>(statement.columns());
  table.numeric.assign(columns, true);
  table.rows.emplace_back();
  for (int c = 0; c < statement.columns(); ++c)
    table.rows[0].push_back(in_one_line(printable(statement.column_name(c))));
  while (statement.step()) {
    if (limit != 0 && static_cast<std::int64_t>(table.rows.size()) > limit) {
      table.more = true;
      break;
    }
    std::vector<std::string> row;
    for (int c = 0; c < statement.columns(); ++c) {
      std::string text = in_one_line(table_value(statement, c));
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

// The column of texts that tells rows apart: the one with most different values, the first of them;
// the number of columns if all are numbers.
std::size_t naming_column(const Table& table) {
  std::size_t found = table.numeric.size(), most = 0;
  for (std::size_t c = 0; c < table.numeric.size(); ++c) {
    if (table.numeric[c]) continue;
    std::set<std::string_view> values;
    for (std::size_t i = 1; i < table.rows.size(); ++i) values.insert(table.rows[i][c]);
    if (values.size() > most) {
      most = values.size();
      found = c;
    }
  }
  return found;
}

// A table that the line does not fit takes the form of a report's: the text that names a row leads,
// on a line of its own, and is never cut.
bool print_narrow(const Table& table, const TableStyle& style) {
  const std::vector<std::size_t> whole = column_widths(table);
  const std::size_t line = std::accumulate(whole.begin(), whole.end(), 2 * (whole.size() - 1));
  const std::size_t naming = naming_column(table);
  if (line <= static_cast<std::size_t>(style.width)) return false;
  TextWriter out(style);
  if (table.rows.size() == 1) {
    out.line(fmt::format("{}", fmt::join(table.rows[0], ", ")));
    fmt::print("{}", out.take());
    return true;
  }
  std::vector<std::size_t> order; // of the columns
  if (naming < whole.size()) order.push_back(naming);
  for (std::size_t c = 0; c < whole.size(); ++c)
    if (c != naming) order.push_back(c);
  Section section;
  section.names = naming < whole.size() ? 1 : 0;
  for (const std::size_t c : order)
    section.columns.push_back({table.rows[0][c], static_cast<bool>(table.numeric[c])});
  for (std::size_t i = 1; i < table.rows.size(); ++i) {
    SectionRow row;
    for (const std::size_t c : order) row.texts.push_back(table.rows[i][c]);
    section.rows.push_back(std::move(row));
  }
  print_section(out, section, 0);
  fmt::print("{}", out.take());
  return true;
}

void print_whole(const Table& table) {
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
}

} // namespace

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

void print_table(Statement& rows,
                 std::optional<std::int64_t> limit,
                 const TableStyle& style,
                 const std::function<std::string()>& why_empty) {
  const std::int64_t most = limit.value_or(kTableRows);
  const Table table = read_table(rows, most);
  if (!print_narrow(table, style)) print_whole(table);
  TextWriter out(style);
  if (table.rows.size() == 1) out.line(fmt::format("(no rows{})", why_empty()));
  if (table.more) out.line(fmt::format("... the first {} rows; --limit 0 shows all", most));
  fmt::print("{}", out.take());
}

} // namespace assay::cli
