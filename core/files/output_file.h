// OutputFile: a file that a person named, written from front to back. It is written as a
// TemporaryFile and renamed by finish(), so that nobody sees half of it; a name that ends in .gz is
// compressed (zlib level 1, one gzip member) on a thread of its own. "-" and "/dev/stdout" go to
// standard output as they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace assay {

// Bytes that are worth a write().
inline constexpr std::size_t kOutputChunk = 1 << 18;

class OutputFile {
public:
  // Throws Failure (bad input) when the file cannot be made or must not be replaced
  // (output_target.h). Compressed if the name ends in .gz, or always.
  explicit OutputFile(std::string path, bool always_compressed = false);
  ~OutputFile(); // without finish(): the temporary file is removed
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // Throws Failure when the disk is full. At most 8 chunks wait for the compressing thread.
  void write(std::string chunk);
  void finish();
  std::int64_t bytes() const; // handed to write() so far

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace assay
