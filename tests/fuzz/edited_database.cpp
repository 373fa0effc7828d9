#include "tests/fuzz/edited_database.h"

#include <sqlite3.h>

#include "tests/fuzz/input.h"

namespace assay::fuzz {
namespace {

std::vector<std::string> texts(sqlite3* database, const std::string& sql) {
  std::vector<std::string> found;
  const auto keep = [](void* list, int, char** values, char**) {
    static_cast<std::vector<std::string>*>(list)->emplace_back(values[0] == nullptr ? ""
                                                                                    : values[0]);
    return 0;
  };
  ::sqlite3_exec(database, sql.c_str(), keep, &found, nullptr);
  return found;
}

std::string new_value(std::uint8_t kind, std::uint8_t value) {
  switch (kind % 8) {
  case 0:
    return "NULL";
  case 1:
    return fmt::format("{}", static_cast<int>(value) - 128);
  case 2:
    return value % 2 == 0 ? "9223372036854775807" : "-9223372036854775808";
  case 3:
    return value % 3 == 0 ? "1e308" : value % 3 == 1 ? "-1e308" : "9e999";
  case 4:
    return fmt::format("'{}'", std::string(value, 'x'));
  case 5:
    return "X'ff00c328'";
  case 6:
    return "'{\"device\":[1,null,{}]}'";
  default:
    return fmt::format("{}", value / 16.0);
  }
}

} // namespace

EditedDatabase::EditedDatabase(const std::string& good_file) : bytes_(read_file(good_file)) {
  sqlite3* database = nullptr;
  ::sqlite3_open_v2(good_file.c_str(), &database, SQLITE_OPEN_READONLY, nullptr);
  for (const std::string& name :
       texts(database,
             "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"))
    tables_.push_back(
        {name, texts(database, "SELECT name FROM pragma_table_info('" + name + "')")});
  ::sqlite3_close(database);
  if (bytes_.empty() || tables_.empty()) internal_error("{} is no good database", good_file);
}

void EditedDatabase::write(const std::string& path,
                           const std::uint8_t* data,
                           std::size_t size) const {
  if (size > 0 && data[0] % 2 == 1) {
    write_file(path, bytes_);
    edit_cells(path, data + 1, size - 1);
    return;
  }
  std::string bytes = bytes_;
  for (std::size_t i = 1; i + 4 <= size; i += 4) {
    const std::size_t place = data[i] + 256U * data[i + 1] + 65'536U * data[i + 2];
    bytes[place % bytes.size()] = static_cast<char>(data[i + 3]);
  }
  write_file(path, bytes);
}

void EditedDatabase::edit_cells(const std::string& path,
                                const std::uint8_t* data,
                                std::size_t size) const {
  sqlite3* database = nullptr;
  ::sqlite3_open(path.c_str(), &database);
  ::sqlite3_exec(database,
                 "PRAGMA synchronous=OFF; PRAGMA ignore_check_constraints=ON; BEGIN",
                 nullptr,
                 nullptr,
                 nullptr);
  for (std::size_t i = 0; i + 6 <= size; i += 6) {
    const Table& table = tables_[data[i] % tables_.size()];
    const std::string sql = fmt::format(
        "UPDATE \"{}\" SET \"{}\" = {} WHERE rowid = (SELECT rowid FROM \"{}\" LIMIT 1 OFFSET {})",
        table.name,
        table.columns[data[i + 1] % table.columns.size()],
        new_value(data[i + 3], data[i + 4]),
        table.name,
        data[i + 2] % 16);
    ::sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr); // a constraint may refuse it
  }
  ::sqlite3_exec(database, "COMMIT", nullptr, nullptr, nullptr);
  ::sqlite3_close(database);
}

} // namespace assay::fuzz
