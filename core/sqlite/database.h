// A thin RAII wrapper of SQLite: connection, statement, transaction. Every failure is a
// DatabaseError that names the file, the cause and, where there is one, the next action.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace assay {

// " (SQLite: no such table: event)": SQLite's own words, to stand behind ours. One line of at most
// kLongestWords bytes, without the line that names the database.
inline constexpr std::size_t kLongestWords = 120;
std::string sqlite_words(std::string_view words);

class Database;
// What is wrong with the order of a file's pages, or ""; reads all of them. `indexes`: also whether
// every index fits its table.
std::string page_fault(const Database& db, bool indexes);

class DatabaseError : public Failure {
public:
  DatabaseError(int code, const std::string& message);
  int code() const { return code_; } // SQLite's primary result code
  bool is_full() const;              // no space, or a file size limit
  bool is_damaged() const;           // not a database, or a torn one
  bool is_read_only() const;         // the file or its directory cannot be written
  bool is_busy() const;              // another connection has a lock

private:
  int code_;
};

class Statement {
public:
  template <class T> Statement& bind(int index, const std::optional<T>& value) {
    return value ? bind(index, *value) : bind_null(index);
  }
  Statement& bind(int index, std::int64_t value);
  Statement& bind(int index, int value);
  Statement& bind(int index, double value);
  Statement& bind(int index, std::string_view value);
  Statement& bind_null(int index);

  bool step(); // true: a row is ready
  void run();  // to its end, then ready to be bound again

  // Columns of the current row, from 0.
  std::int64_t integer(int column) const;
  double real(int column) const;
  std::string text(int column) const;
  std::optional<std::int64_t> maybe_integer(int column) const;
  std::optional<double> maybe_real(int column) const;

  // What a statement that came from outside turned out to be.
  enum class Type { Integer, Real, Text, Blob, Null };
  int columns() const;
  std::string column_name(int column) const;
  Type type(int column) const;                      // of the current row
  bool is_empty() const;                            // blanks and comments only
  bool only_reads() const;                          // the database file, that is
  const std::string& rest() const { return rest_; } // of the SQL, after this statement

private:
  friend class Database;
  struct Finalizer {
    void operator()(sqlite3_stmt* statement) const;
  };
  Statement(const class Database& database, sqlite3_stmt* statement, std::string rest)
      : database_(&database), statement_(statement), rest_(std::move(rest)) {}
  void check(int code) const;

  const Database* database_;
  std::unique_ptr<sqlite3_stmt, Finalizer> statement_;
  std::string rest_;
};

class Database {
public:
  enum class Mode { ReadOnly, Immutable, ReadWrite, Create };

  // Immutable: read-only without locks or shared memory, for a file that nobody writes.
  Database(std::string path, Mode mode);
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;
  ~Database();

  Statement prepare(std::string_view sql) const;
  void execute(const std::string& sql) const;       // several statements, no results
  std::int64_t integer(std::string_view sql) const; // first column of the first row
  std::int64_t last_id() const;
  const std::string& path() const { return path_; }
  sqlite3* handle() const { return handle_.get(); } // for what this wrapper does not wrap

  [[noreturn]] void raise(int code) const;

private:
  struct Closer {
    void operator()(sqlite3* handle) const;
  };
  std::string path_;
  std::unique_ptr<sqlite3, Closer> handle_;
};

// Rolls back unless committed.
class Transaction {
public:
  explicit Transaction(const Database& database, const char* begin = "BEGIN IMMEDIATE");
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit();

private:
  const Database& database_;
  bool open_ = true;
};

} // namespace assay
