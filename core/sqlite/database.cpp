#include "core/sqlite/database.h"

#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <set>
#include <utility>

#include "core/system_call.h"
#include "core/text.h"

namespace assay {

namespace {

constexpr int kBusyTimeoutMs = 5000;

std::string uri(const std::string& path, bool immutable) {
  std::string escaped;
  for (const char c : path) {
    if (c == '%' || c == '?' || c == '#')
      escaped += fmt::format("%{:02x}", static_cast<unsigned char>(c));
    else
      escaped += c;
  }
  return "file:" + escaped + (immutable ? "?immutable=1" : "");
}

// Processes with a POSIX lock on the file, "process 12", as far as the kernel reports them.
std::string lock_owners(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return "";
  const std::string inode = fmt::format(":{}", status.st_ino);
  std::ifstream locks("/proc/locks");
  std::set<std::string> owners;
  std::string id, kind, mode, access, pid, place;
  while (locks >> id >> kind >> mode >> access >> pid >> place) {
    if (place.ends_with(inode) && pid != std::to_string(::getpid()))
      owners.insert("process " + pid);
    locks.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return fmt::format("{}", fmt::join(owners, ", "));
}

std::string what_to_do(const std::string& path, int code) {
  if ((code & 0xff) != SQLITE_BUSY && (code & 0xff) != SQLITE_LOCKED) return "";
  const std::string owners = lock_owners(path);
  return fmt::format(": {} has it open in a transaction; end that, and run the same command again",
                     owners.empty() ? "another program" : owners);
}

// SQLite's own words stand behind ours, and only where these do not say it all.
std::string plain_cause(int code, int system, const std::string& message) {
  switch (code & 0xff) {
  case SQLITE_CANTOPEN:
    return "cannot be opened: " +
           (system == 0 ? "make it and its directory readable" : system_cause(system));
  case SQLITE_IOERR: // the disk, or a file system that is gone
    return "cannot be read or written: " +
           (system == 0 ? "check the disk that it is on" : system_cause(system));
  case SQLITE_FULL:
    return "the disk is full";
  case SQLITE_READONLY:
    return code == SQLITE_READONLY_DBMOVED
               ? "it was moved or removed while it was in use; run the same command again"
               : "cannot be written: the file, its directory or the file system is read-only; make "
                 "them writable, or work on a copy";
  case SQLITE_CORRUPT:
    return "its pages are not in order";
  case SQLITE_NOTADB:
    return "its first page is not in order";
  case SQLITE_NOMEM:
    return "memory is exhausted; end other programs, or ask for less at once";
  case SQLITE_BUSY:
  case SQLITE_LOCKED:
    return "the database is locked";
  case SQLITE_ERROR:
    if (message == "not authorized")
      return "a function in the statement is not allowed: only those that read are";
    return (message.starts_with("no such") ? "a table or a column is missing"
                                           : "a statement does not fit its tables") +
           sqlite_words(message);
  case SQLITE_TOOBIG:
    return "a value or a statement is longer than SQLite takes; ask for a part of it, as by "
           "substr()" +
           sqlite_words(message);
  case SQLITE_CONSTRAINT:
    return "a row does not fit its table" + sqlite_words(message);
  default:
    return fmt::format("SQLite error {}", code) + sqlite_words(message);
  }
}

} // namespace

std::string sqlite_words(std::string_view words) {
  if (words.starts_with("***")) // "*** in database main ***", then the fault
    words.remove_prefix(std::min(words.find('\n'), words.size() - 1) + 1);
  std::string line(words.substr(0, words.find('\n')));
  constexpr std::string_view kCut = " ...";
  if (line.size() > kLongestWords) line = line.substr(0, kLongestWords - kCut.size()) += kCut;
  return line.empty() ? "" : fmt::format(" (SQLite: {})", printable(line));
}

DatabaseError::DatabaseError(int code, const std::string& message)
    : Failure(Kind::BadInput, message), code_(code & 0xff) {}

bool DatabaseError::is_full() const {
  return code_ == SQLITE_FULL || code_ == SQLITE_IOERR;
}

bool DatabaseError::is_damaged() const {
  return code_ == SQLITE_CORRUPT || code_ == SQLITE_NOTADB || code_ == SQLITE_IOERR;
}

bool DatabaseError::is_read_only() const {
  return code_ == SQLITE_READONLY || code_ == SQLITE_CANTOPEN;
}

bool DatabaseError::is_busy() const {
  return code_ == SQLITE_BUSY || code_ == SQLITE_LOCKED;
}

void Statement::Finalizer::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement); // repeats the error of the last step, which has been raised
}

void Statement::check(int code) const {
  if (code != SQLITE_OK) database_->raise(code);
}

Statement& Statement::bind(int index, std::int64_t value) {
  check(sqlite3_bind_int64(statement_.get(), index, value));
  return *this;
}

Statement& Statement::bind(int index, int value) {
  return bind(index, std::int64_t{value});
}

Statement& Statement::bind(int index, double value) {
  check(sqlite3_bind_double(statement_.get(), index, value));
  return *this;
}

Statement& Statement::bind(int index, std::string_view value) {
  const char* data = value.data() == nullptr ? "" : value.data();
  check(sqlite3_bind_text64(
      statement_.get(), index, data, value.size(), SQLITE_TRANSIENT, SQLITE_UTF8));
  return *this;
}

Statement& Statement::bind_null(int index) {
  check(sqlite3_bind_null(statement_.get(), index));
  return *this;
}

bool Statement::step() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code != SQLITE_DONE) database_->raise(code);
  return false;
}

void Statement::run() {
  while (step()) {
  }
  check(sqlite3_reset(statement_.get()));
}

std::int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

double Statement::real(int column) const {
  return sqlite3_column_double(statement_.get(), column);
}

std::string Statement::text(int column) const {
  const unsigned char* data = sqlite3_column_text(statement_.get(), column);
  const int size = sqlite3_column_bytes(statement_.get(), column);
  if (data == nullptr) return "";
  return {reinterpret_cast<const char*>(data), static_cast<std::size_t>(size)};
}

std::optional<std::int64_t> Statement::maybe_integer(int column) const {
  if (sqlite3_column_type(statement_.get(), column) == SQLITE_NULL) return std::nullopt;
  return integer(column);
}

std::optional<double> Statement::maybe_real(int column) const {
  if (sqlite3_column_type(statement_.get(), column) == SQLITE_NULL) return std::nullopt;
  return real(column);
}

int Statement::columns() const {
  return sqlite3_column_count(statement_.get());
}

std::string Statement::column_name(int column) const {
  const char* name = sqlite3_column_name(statement_.get(), column);
  return name == nullptr ? "" : name;
}

Statement::Type Statement::type(int column) const {
  switch (sqlite3_column_type(statement_.get(), column)) {
  case SQLITE_INTEGER:
    return Type::Integer;
  case SQLITE_FLOAT:
    return Type::Real;
  case SQLITE_TEXT:
    return Type::Text;
  case SQLITE_BLOB:
    return Type::Blob;
  default:
    return Type::Null;
  }
}

bool Statement::is_empty() const {
  return statement_ == nullptr;
}

bool Statement::only_reads() const {
  return sqlite3_stmt_readonly(statement_.get()) != 0;
}

void Database::Closer::operator()(sqlite3* handle) const {
  sqlite3_close_v2(handle);
}

Database::Database(std::string path, Mode mode) : path_(std::move(path)) {
  int flags = SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX;
  if (mode == Mode::ReadOnly || mode == Mode::Immutable) flags |= SQLITE_OPEN_READONLY;
  if (mode == Mode::ReadWrite || mode == Mode::Create) flags |= SQLITE_OPEN_READWRITE;
  if (mode == Mode::Create) flags |= SQLITE_OPEN_CREATE;
  sqlite3* handle = nullptr;
  const int code =
      sqlite3_open_v2(uri(path_, mode == Mode::Immutable).c_str(), &handle, flags, nullptr);
  handle_.reset(handle);
  if (handle == nullptr) internal_error("{}: SQLite has no memory for a connection", path_);
  if (code != SQLITE_OK) raise(code);
  sqlite3_extended_result_codes(handle, 1);
  sqlite3_busy_timeout(handle, kBusyTimeoutMs);
}

Database::~Database() = default;

void Database::raise(int code) const {
  const int system = sqlite3_system_errno(handle_.get());
  throw DatabaseError(code,
                      fmt::format("{}: {}{}",
                                  path_,
                                  plain_cause(code, system, sqlite3_errmsg(handle_.get())),
                                  what_to_do(path_, code)));
}

Statement Database::prepare(std::string_view sql) const {
  sqlite3_stmt* statement = nullptr;
  const char* end = sql.data();
  const int code =
      sqlite3_prepare_v2(handle_.get(), sql.data(), static_cast<int>(sql.size()), &statement, &end);
  if (code != SQLITE_OK) raise(code);
  return Statement(*this, statement, std::string(sql.substr(std::size_t(end - sql.data()))));
}

void Database::execute(const std::string& sql) const {
  const int code = sqlite3_exec(handle_.get(), sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) raise(code);
}

std::int64_t Database::integer(std::string_view sql) const {
  Statement statement = prepare(sql);
  if (!statement.step()) internal_error("{}: '{}' has no row", path_, sql);
  return statement.integer(0);
}

std::int64_t Database::last_id() const {
  return sqlite3_last_insert_rowid(handle_.get());
}

std::string page_fault(const Database& db, bool indexes) {
  Statement pages = db.prepare(indexes ? "PRAGMA integrity_check(1)" : "PRAGMA quick_check(1)");
  if (!pages.step() || pages.text(0) == "ok") return "";
  return fmt::format(
      "its pages{} are not in order{}", indexes ? " or indexes" : "", sqlite_words(pages.text(0)));
}

Transaction::Transaction(const Database& database, const char* begin) : database_(database) {
  database_.execute(begin);
}

Transaction::~Transaction() {
  if (!open_) return;
  // It fails where SQLite has rolled back by itself, after the error that is being reported.
  sqlite3_exec(database_.handle(), "ROLLBACK", nullptr, nullptr, nullptr);
}

void Transaction::commit() {
  database_.execute("COMMIT");
  open_ = false;
}

} // namespace assay
