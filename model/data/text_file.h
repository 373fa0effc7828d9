// Random access into a file that may be gzip: the file is read once in order (scan), and deflate
// states are kept at intervals, so that any byte range of the text can be read again without
// holding the text in memory. Method: zlib's examples/zran.c (Mark Adler), with members of a
// multi-member file followed through.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

// A read-only file; reads are positional.
class InputFile {
public:
  explicit InputFile(const std::string& path); // throws bad input when it cannot be opened
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  // Up to `size` bytes from `offset`; fewer only at the end of the file.
  std::size_t read_at(std::uint64_t offset, void* out, std::size_t size) const;
  std::uint64_t size() const { return size_; }

private:
  std::string path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

// One place of a deflate stream where decoding can begin.
struct GzipPoint {
  std::uint64_t text = 0;   // offset in the text
  std::uint64_t packed = 0; // offset of the first whole byte in the file
  int bits = 0;             // bits of the byte before it that belong to the stream
  std::string window; // the (up to) 32 KiB of text before the point; empty at the start of a member
  bool member_start = false;
};

// Holds no descriptor between calls (a corpus may have more files than a process may open); after
// scan() every const method may be called from any thread.
class TextFile {
public:
  // Throws bad input when the file cannot be opened, or is named .gz and is not gzip.
  explicit TextFile(const std::string& path);

  using Visit = std::function<bool(std::string_view chunk)>; // false stops early
  // The text in order, chunk by chunk.
  void scan(const Visit& visit) const { scan(visit, nullptr); }
  // The same, and read() works on gzip afterwards.
  void index(const Visit& visit) { scan(visit, &points_); }
  std::string read_all() const;
  // A range of the text; throws bad input when the file was changed since it was opened.
  std::string read(std::uint64_t offset, std::uint64_t size) const;

  const std::string& path() const { return path_; }
  std::uint64_t stored_bytes() const { return stored_bytes_; }

private:
  void scan(const Visit& visit, std::vector<GzipPoint>* points) const;
  void scan_gzip(const InputFile& file, const Visit& visit, std::vector<GzipPoint>* points) const;
  std::string read_gzip(const InputFile& file, std::uint64_t offset, std::uint64_t size) const;

  std::string path_;
  std::uint64_t stored_bytes_ = 0;
  bool gzip_ = false;
  std::vector<GzipPoint> points_; // ascending
};

} // namespace assay
