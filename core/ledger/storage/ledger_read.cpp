// Opening a ledger for reading, wherever it lies, and reading it in one snapshot.
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <utility>

#include "core/ledger/abandoned.h"
#include "core/ledger/directory_lock.h"
#include "core/ledger/ledger.h"
#include "core/ledger/ledger_schema.h"
#include "core/ledger/storage/ledger_rows.h"
#include "core/ledger/storage/plan_json.h"
#include "core/sqlite/database.h"

namespace assay {

namespace {

// A private copy of ledger and WAL, for a directory in which SQLite cannot make its shared-memory
// file.
class PrivateCopy {
public:
  explicit PrivateCopy(const std::string& path) {
    std::string name = (std::filesystem::temp_directory_path() / "assay-ledger-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr)
      bad_input("{}: is in a read-only directory and needs a copy in {}, which cannot be written",
                path,
                std::filesystem::temp_directory_path().string());
    directory_ = name;
    const auto target = directory_ / ledger_schema::kFileName;
    std::filesystem::copy_file(path, target);
    std::filesystem::copy_file(path + "-wal", target.string() + "-wal");
    ::chmod(target.c_str(), 0600);
    ::chmod((target.string() + "-wal").c_str(), 0600);
  }
  ~PrivateCopy() {
    std::error_code ignored; // a leftover copy in the temporary directory harms nobody
    std::filesystem::remove_all(directory_, ignored);
  }
  PrivateCopy(const PrivateCopy&) = delete;
  PrivateCopy& operator=(const PrivateCopy&) = delete;
  // A message about the copy, which is gone when it is read, as one about the original.
  std::string about(std::string text, const std::string& original) const {
    for (std::size_t at = 0; (at = text.find(path(), at)) != std::string::npos;
         at += original.size())
      text.replace(at, path().size(), original);
    return text;
  }
  std::string path() const { return (directory_ / ledger_schema::kFileName).string(); }

private:
  std::filesystem::path directory_;
};

// `read` takes the open database.
template <class Read> auto read_file(const std::string& path, Database::Mode mode, Read read) {
  const Database db(path, mode);
  ledger_schema::check_pages(db);
  return read(db);
}

// A finished ledger is a plain file. One in WAL mode needs a shared-memory file beside it; where
// the directory is read-only it is read in place, or, with a WAL, from a private copy.
template <class Read> auto read_anywhere(const std::string& path, Read read) {
  try {
    return read_file(path, Database::Mode::ReadOnly, read);
  } catch (const DatabaseError& error) {
    if (!error.is_read_only()) throw;
  }
  std::error_code ignored;
  const auto wal = std::filesystem::file_size(path + "-wal", ignored);
  if (ignored || wal == 0) return read_file(path, Database::Mode::Immutable, read);
  const PrivateCopy copy(path);
  try {
    return read_file(copy.path(), Database::Mode::ReadWrite, read);
  } catch (const DatabaseError& error) {
    throw DatabaseError(error.code(), copy.about(error.what(), path));
  } catch (const Failure& failure) {
    throw Failure(failure.kind(), copy.about(failure.what(), path));
  }
}

// What `read` makes of the ledger of a results directory, whose faults are errors.
template <class Read>
auto read_directory(const std::string& directory, Read read)
    -> Result<decltype(read(std::declval<const Database&>()))> {
  const std::string path = (std::filesystem::path(directory) / ledger_schema::kFileName).string();
  std::error_code ignored;
  if (std::filesystem::exists(std::filesystem::path(directory) / ledger_schema::kUnfinishedName,
                              ignored))
    return fail("{}: is what a merge that did not end has left; remove it and merge again",
                directory);
  if (Result<bool> ok = ledger_schema::check_file(path); !ok) return ok.error();
  try {
    return read_anywhere(path, read);
  } catch (const DatabaseError& error) {
    const bool lacks = error.code() == SQLITE_ERROR; // a table or a column
    if (error.is_damaged() || lacks) return ledger_schema::damaged(path, error.what());
    return Error{error.what()};
  } catch (const Failure& error) {
    if (error.kind() == Failure::Kind::Internal)
      return ledger_schema::damaged(path, error.what()); // rows that no writer of ours leaves
    return Error{error.what()};
  }
}

} // namespace

LedgerData ledger_rows::read(const Database& db) {
  const Transaction snapshot(db, "BEGIN");
  const std::int64_t schema = db.integer("PRAGMA user_version");
  value_or_throw(ledger_schema::check_version(db.path(), schema));
  LedgerData data;
  read_plan(db, schema, data);
  if (const std::string change = changed_plan(data); !change.empty())
    bad_input("{}: {}. Nothing that was measured can be judged by it: bring the ledger back from a "
              "copy, or run the matrix again into another directory",
              db.path(),
              change);
  read_measured(db, schema, data);
  return data;
}

Result<LedgerData> read_ledger(const std::string& directory) {
  return read_directory(directory, [&](const Database& db) {
    LedgerData data = ledger_rows::read(db);
    if (lock_holder(directory).empty()) count_abandoned_launches(data);
    return data;
  });
}

Result<Meters> read_meters(const std::string& directory) {
  return read_directory(directory, [](const Database& db) { return ledger_rows::read_meters(db); });
}

} // namespace assay
