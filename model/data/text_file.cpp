#include "model/data/text_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "core/file_kind.h"
#include "core/result.h"
#include "core/system_call.h"

namespace assay {
namespace {

constexpr std::size_t kChunk = std::size_t{1} << 18;
constexpr std::size_t kWindow = 32768; // of deflate
constexpr std::uint64_t kPointSpacing = std::uint64_t{1}
                                        << 20; // text bytes; a point costs 32 KiB of memory
constexpr int kGzipFormat = 15 + 16;
constexpr int kRawFormat = -15;
constexpr std::uint64_t kMemberTrailer = 8; // CRC-32 and length

[[noreturn]] void changed(const std::string& path) {
  bad_input(
      "'{}' was changed while it was in use: leave the data alone during a run, or start again",
      path);
}

// A zlib inflate state fed from a file, starting at any byte of it.
class Inflater {
public:
  Inflater(const InputFile& file, const std::string& path, std::uint64_t packed, int format)
      : file_(file), path_(path), next_read_(packed), raw_(format == kRawFormat) {
    if (inflateInit2(&stream_, format) != Z_OK)
      internal_error("zlib could not be initialised for '{}'", path);
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  void prime(const GzipPoint& point) {
    if (point.bits > 0) {
      unsigned char byte = 0;
      if (file_.read_at(point.packed - 1, &byte, 1) != 1) changed(path_);
      inflatePrime(&stream_, point.bits, byte >> (8 - point.bits));
    }
    inflateSetDictionary(&stream_,
                         reinterpret_cast<const Bytef*>(point.window.data()),
                         static_cast<uInt>(point.window.size()));
  }

  // Decodes into out and returns the bytes produced, which may be 0 before the end. `flush` is
  // Z_BLOCK to stop at block borders.
  std::size_t decode(char* out, std::size_t size, int flush) {
    if (stream_.avail_in == 0) refill();
    stream_.next_out = reinterpret_cast<Bytef*>(out);
    stream_.avail_out = static_cast<uInt>(size);
    const int status = inflate(&stream_, flush);
    if (status == Z_STREAM_END) {
      next_member();
    } else if (status != Z_OK && status != Z_BUF_ERROR) {
      bad_input("'{}' is a damaged gzip file ({}): check it with `gzip -t`",
                path_,
                stream_.msg != nullptr ? stream_.msg : "invalid data");
    }
    return size - stream_.avail_out;
  }

  bool ended() const { return ended_; }
  bool at_member_start() const { return at_member_start_; }
  bool at_block_border() const {
    return (stream_.data_type & 128) != 0 && (stream_.data_type & 64) == 0;
  }
  int unused_bits() const { return stream_.data_type & 7; }
  std::uint64_t packed_position() const { return next_read_ - stream_.avail_in; }

private:
  void refill() {
    const std::size_t got = file_.read_at(next_read_, buffer_.data(), buffer_.size());
    if (got == 0) {
      bad_input("'{}' ends in the middle of its gzip data: the file is truncated; copy or download "
                "it again",
                path_);
    }
    next_read_ += got;
    stream_.next_in = buffer_.data();
    stream_.avail_in = static_cast<uInt>(got);
    at_member_start_ = false;
  }

  // After a member's end: another member, or the end of the text (bytes that are no gzip are
  // ignored, as gzip does).
  void next_member() {
    next_read_ = packed_position() + (raw_ ? kMemberTrailer : 0);
    stream_.avail_in = 0;
    std::array<unsigned char, 2> magic{};
    ended_ =
        file_.read_at(next_read_, magic.data(), 2) != 2 || magic[0] != 0x1f || magic[1] != 0x8b;
    inflateReset2(&stream_, kGzipFormat);
    raw_ = false;
    at_member_start_ = true;
  }

  const InputFile& file_;
  const std::string& path_;
  std::uint64_t next_read_;
  bool raw_;
  bool ended_ = false;
  bool at_member_start_ = true;
  z_stream stream_{};
  std::array<unsigned char, 65536> buffer_;
};

bool is_gzip(const InputFile& file) {
  std::array<unsigned char, 2> magic{};
  return file.read_at(0, magic.data(), 2) == 2 && magic[0] == 0x1f && magic[1] == 0x8b;
}

} // namespace

InputFile::InputFile(const std::string& path)
    : path_(path), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  struct stat status {};
  if (descriptor_ < 0 || fstat(descriptor_, &status) != 0) {
    const int error = errno;
    if (descriptor_ >= 0) ::close(descriptor_);
    bad_input("'{}' cannot be read: {}; remove it from the data or change its permissions",
              path,
              std::strerror(error));
  }
  if (!S_ISREG(status.st_mode)) { // a pipe would be waited for for ever
    ::close(descriptor_);
    bad_input("'{}': {}; copy its text into a file", path, why_no_plain_file(path));
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
}

InputFile::~InputFile() {
  ::close(descriptor_);
}

std::size_t InputFile::read_at(std::uint64_t offset, void* out, std::size_t size) const {
  std::size_t done = 0;
  while (done < size) {
    const ssize_t got = ::pread(descriptor_,
                                static_cast<char*>(out) + done,
                                size - done,
                                static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) bad_input("'{}' cannot be read: {}", path_, system_cause(errno));
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

TextFile::TextFile(const std::string& path) : path_(path) {
  const InputFile file(path);
  stored_bytes_ = file.size();
  gzip_ = is_gzip(file);
  if (!gzip_ && stored_bytes_ > 0 && path.ends_with(".gz")) {
    bad_input("'{}' is named .gz but is not gzip: rename it, or compress it with `gzip`", path);
  }
}

void TextFile::scan(const Visit& visit, std::vector<GzipPoint>* points) const {
  const InputFile file(path_);
  if (file.size() != stored_bytes_) changed(path_);
  if (gzip_) return scan_gzip(file, visit, points);
  std::string buffer(kChunk, '\0');
  for (std::uint64_t offset = 0;;) {
    const std::size_t got = file.read_at(offset, buffer.data(), buffer.size());
    if (got == 0 || !visit({buffer.data(), got})) return;
    offset += got;
  }
}

void TextFile::scan_gzip(const InputFile& file,
                         const Visit& visit,
                         std::vector<GzipPoint>* points) const {
  Inflater inflater(file, path_, 0, kGzipFormat);
  std::string window(kWindow, '\0'); // the last 32 KiB of text, circular
  std::uint64_t text = 0;
  while (!inflater.ended()) {
    const bool due =
        points != nullptr && (points->empty() || text - points->back().text >= kPointSpacing);
    if (due && inflater.at_member_start()) {
      points->push_back({text, inflater.packed_position(), 0, "", true});
    } else if (due && inflater.at_block_border()) {
      const std::size_t at = text % kWindow;
      const std::string history = window.substr(at) + window.substr(0, at);
      const std::size_t known = std::min<std::uint64_t>(text, kWindow);
      points->push_back({text,
                         inflater.packed_position(),
                         inflater.unused_bits(),
                         history.substr(kWindow - known),
                         false});
    }
    const std::size_t at = text % kWindow;
    const std::size_t got = inflater.decode(window.data() + at, kWindow - at, Z_BLOCK);
    text += got;
    if (got > 0 && !visit({window.data() + at, got})) return;
  }
}

std::string TextFile::read_all() const {
  std::string text;
  scan([&](std::string_view chunk) {
    text.append(chunk);
    return true;
  });
  return text;
}

std::string TextFile::read(std::uint64_t offset, std::uint64_t size) const {
  const InputFile file(path_);
  if (file.size() != stored_bytes_) changed(path_);
  if (gzip_) return read_gzip(file, offset, size);
  std::string text(size, '\0');
  if (file.read_at(offset, text.data(), size) != size) changed(path_);
  return text;
}

std::string
TextFile::read_gzip(const InputFile& file, std::uint64_t offset, std::uint64_t size) const {
  const auto after = std::upper_bound(
      points_.begin(), points_.end(), offset, [](std::uint64_t at, const GzipPoint& p) {
        return at < p.text;
      });
  if (after == points_.begin()) internal_error("'{}' was not indexed before it was read", path_);
  const GzipPoint& point = *std::prev(after);
  Inflater inflater(file, path_, point.packed, point.member_start ? kGzipFormat : kRawFormat);
  if (!point.member_start) inflater.prime(point);

  std::string discarded(kWindow, '\0');
  for (std::uint64_t at = point.text; at < offset;) {
    if (inflater.ended()) changed(path_);
    at += inflater.decode(
        discarded.data(), std::min<std::uint64_t>(kWindow, offset - at), Z_NO_FLUSH);
  }
  std::string text(size, '\0');
  for (std::uint64_t done = 0; done < size;) {
    if (inflater.ended()) changed(path_);
    const std::uint64_t room = std::min<std::uint64_t>(kChunk, size - done);
    done += inflater.decode(text.data() + done, room, Z_NO_FLUSH);
  }
  return text;
}

} // namespace assay
