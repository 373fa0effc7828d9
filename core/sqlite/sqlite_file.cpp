#include "core/sqlite/sqlite_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "core/file_kind.h"
#include "core/system_call.h"

namespace assay {

namespace {

constexpr std::size_t kHeaderBytes = 100;
constexpr std::string_view kMagic{"SQLite format 3\0", 16};

using Header = std::array<char, kHeaderBytes>;

std::int64_t big_endian(const Header& header, std::size_t offset) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i)
    value = value << 8 | static_cast<unsigned char>(header[offset + i]);
  return value;
}

// SQLite itself does not miss the end of the last page. With a WAL the file may be behind its
// header for a moment, and SQLite takes the pages from there.
Result<bool> check_length(const std::string& path, const SqliteMarks& marks, const Header& header) {
  std::error_code error;
  if (const auto wal = std::filesystem::file_size(path + "-wal", error); !error && wal > 0)
    return true;
  const std::int64_t stored = big_endian(header, 16) >> 16;
  const std::int64_t page = stored == 1 ? 65536 : stored;
  const std::int64_t pages = big_endian(header, 28);
  const bool count_is_valid = big_endian(header, 24) == big_endian(header, 92);
  const auto size = static_cast<std::int64_t>(std::filesystem::file_size(path, error));
  if (!error && count_is_valid && size < page * pages)
    return damaged_file(
        path, marks, fmt::format("cut off after {} of {} bytes", size, page * pages));
  return true;
}

const char* owner_of(std::int64_t application_id) {
  if (application_id == kLedgerApplicationId) return "an Assay ledger";
  if (application_id == kTraceApplicationId) return "an Assay trace";
  return "an SQLite file of another program";
}

// A pipe would be waited for without end.
bool is_plain_file(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

void sync(const std::string& path, int flags) {
  const int fd = ::open(path.c_str(), flags | O_CLOEXEC);
  const bool ok = fd >= 0 && ::fsync(fd) == 0;
  const int error = errno;
  if (fd >= 0) ::close(fd);
  if (!ok && error != EINVAL) // EINVAL: a file system that cannot sync directories
    bad_input("{}: cannot be synced to disk ({})", path, std::strerror(error));
}

} // namespace

Error damaged_file(const std::string& path, const SqliteMarks& marks, const std::string& cause) {
  std::string line = cause.starts_with(path + ": ") ? cause.substr(path.size() + 2) : cause;
  std::replace(line.begin(), line.end(), '\n', ' '); // of a value in the file
  return fail("{}: this {} is damaged: {}; restore it from a copy, or {}",
              path,
              marks.kind,
              line,
              marks.remedy);
}

Result<bool> check_schema(const std::string& path, const SqliteMarks& marks, std::int64_t schema) {
  if (schema > marks.newest_schema)
    return fail("{}: its schema {} is newer than this build reads ({}); use the Assay that wrote "
                "it, or a newer one",
                path,
                schema,
                marks.newest_schema);
  if (schema < 1) return damaged_file(path, marks, fmt::format("schema number {}", schema));
  return true;
}

Result<bool> check_sqlite_file(const std::string& path, const SqliteMarks& marks) {
  if (const std::string why = why_no_plain_file(path); !why.empty())
    return fail(
        "{}: {}, no Assay {}; restore it from a copy, or {}", path, why, marks.kind, marks.remedy);
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail("{}: cannot be opened for reading: {}", path, system_cause(errno));
  Header header{};
  file.read(header.data(), header.size());
  const auto size = static_cast<std::size_t>(file.gcount());
  if (size == 0) return damaged_file(path, marks, "the file is empty");
  if (std::string_view(header.data(), std::min(size, kMagic.size())) != kMagic.substr(0, size))
    return fail(
        "{}: not an Assay {} (it is not an SQLite file); if it was one, restore it from a copy",
        path,
        marks.kind);
  if (size < kHeaderBytes)
    return damaged_file(path, marks, fmt::format("cut off after {} bytes", size));
  if (const std::int64_t id = big_endian(header, 68); id != marks.application_id)
    return fail("{}: not an Assay {} ({})", path, marks.kind, owner_of(id));
  if (Result<bool> whole = check_length(path, marks, header); !whole) return whole;
  return check_schema(path, marks, big_endian(header, 60));
}

bool is_sqlite_file(const std::string& path) {
  if (!is_plain_file(path)) return false;
  std::ifstream file(path, std::ios::binary);
  std::array<char, kMagic.size()> begin{};
  return file.read(begin.data(), begin.size()) &&
         std::string_view(begin.data(), begin.size()) == kMagic;
}

void sync_file(const std::string& path) {
  sync(path, O_RDONLY);
}

void sync_directory(const std::string& directory) {
  sync(directory, O_RDONLY | O_DIRECTORY);
}

} // namespace assay
