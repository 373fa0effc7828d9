#include "core/files/tar_archive.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <fstream>

#include "core/result.h"
#include "core/system_call.h"

namespace assay {

namespace {

constexpr std::size_t kBlock = 512, kPiece = 1 << 20;
constexpr std::uint64_t kMostOctal = (1ULL << 33) - 1; // 11 octal digits

// Field places of POSIX.1-1988 ustar: offset and size.
struct Field {
  std::size_t at, size;
};
constexpr Field kName{0, 100}, kMode{100, 8}, kUser{108, 8}, kGroup{116, 8}, kSize{124, 12},
    kTime{136, 12}, kChecksum{148, 8}, kType{156, 1}, kMagic{257, 8}, kPrefix{345, 155};

void put(std::string& header, const Field& field, std::string_view text) {
  header.replace(field.at, text.size(), text);
}

void put_number(std::string& header, const Field& field, std::uint64_t value) {
  if (value <= kMostOctal || field.size < 12) {
    put(header, field, fmt::format("{:0{}o}", value, field.size - 1));
    return;
  }
  // GNU's form for larger files: a first byte of 0x80, then the number in binary.
  header[field.at] = '\x80';
  for (std::size_t i = 0; i < 8; ++i)
    header[field.at + field.size - 1 - i] = static_cast<char>(value >> (8 * i) & 0xFF);
}

std::string header_of(const std::string& name, std::uint64_t size, std::int64_t modified) {
  std::string header(kBlock, '\0');
  std::size_t slash = 0; // a longer name is cut at a slash into prefix and name
  if (name.size() > kName.size) {
    slash = name.rfind('/', kPrefix.size);
    if (slash == std::string::npos || name.size() - slash - 1 > kName.size)
      bad_input("the name {} is too long for a tar archive", name);
    put(header, kPrefix, name.substr(0, slash));
  }
  put(header, kName, slash == 0 ? name : name.substr(slash + 1));
  put_number(header, kMode, 0644);
  put_number(header, kUser, 0);
  put_number(header, kGroup, 0);
  put_number(header, kSize, size);
  put_number(header, kTime, static_cast<std::uint64_t>(modified));
  put(header, kType, "0");
  put(header, kMagic, std::string_view("ustar\00000", 8));
  put(header, kChecksum, "        ");
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  put(header, kChecksum, fmt::format("{:06o}", sum) + std::string("\0 ", 2));
  return header;
}

} // namespace

void TarArchive::pad(std::uint64_t size) {
  if (const std::size_t over = size % kBlock; over != 0)
    file_.write(std::string(kBlock - over, '\0'));
}

void TarArchive::add(const std::string& name, std::string_view content, std::int64_t modified) {
  file_.write(header_of(name, content.size(), modified) + std::string(content));
  pad(content.size());
}

void TarArchive::add_file(const std::string& name, const std::string& path) {
  struct stat status {};
  std::ifstream in(path, std::ios::binary);
  if (!in || ::stat(path.c_str(), &status) != 0)
    bad_input("cannot read {}: {}", path, system_cause(errno));
  const auto size = static_cast<std::uint64_t>(status.st_size);
  file_.write(header_of(name, size, status.st_mtime));
  std::string piece;
  for (std::uint64_t left = size; left > 0; left -= piece.size()) {
    piece.resize(static_cast<std::size_t>(std::min<std::uint64_t>(left, kPiece)));
    if (!in.read(piece.data(), static_cast<std::streamsize>(piece.size())))
      bad_input("{}: became shorter while it was read; pack it when nothing writes it", path);
    file_.write(piece);
  }
  pad(size);
}

void TarArchive::finish() {
  file_.write(std::string(2 * kBlock, '\0'));
  file_.finish();
}

} // namespace assay
