// Columns of a ledger's rows, of its own schema and older ones, for its readers.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>

#include "core/result.h"
#include "core/sqlite/database.h"

namespace assay::ledger_rows {

template <class E>
E from_text(const Database& db, const std::string& text, std::initializer_list<E> all) {
  for (const E value : all)
    if (to_string(value) == text) return value;
  internal_error("{}: unknown value '{}' in the ledger", db.path(), text);
}

// `column`, or the literal `absent` (several likewise), where the ledger's schema is older than the
// column.
inline std::string
since(std::int64_t schema, std::int64_t version, const char* column, const char* absent) {
  return schema >= version ? column : absent;
}

// The columns of a row one after another, as its SELECT names them: a column is added in both lists
// at the same place, and no other number changes.
class InOrder {
public:
  explicit InOrder(const Statement& row) : row_(row) {}

  std::string text() { return row_.text(column_++); }
  std::int64_t integer() { return row_.integer(column_++); }
  int small() { return static_cast<int>(integer()); }
  bool flag() { return integer() != 0; }
  double real() { return row_.real(column_++); }
  std::optional<double> maybe_real() { return row_.maybe_real(column_++); }
  std::optional<std::int64_t> maybe_integer() { return row_.maybe_integer(column_++); }
  void read(std::string& value) { value = text(); }
  void read(int& value) { value = small(); }
  void read(double& value) { value = real(); }
  void read(std::optional<double>& value) { value = maybe_real(); }
  void read(std::optional<std::int64_t>& value) { value = maybe_integer(); }

private:
  const Statement& row_;
  int column_ = 0;
};

} // namespace assay::ledger_rows
