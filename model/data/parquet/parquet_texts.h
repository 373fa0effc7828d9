// Texts of Parquet files. A row cannot be read without its page, and documents are asked for in a
// random order, so opening decodes a file once into a temporary one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

// A temporary file without a name, in TMPDIR or /tmp: gone with the process.
class TextSpool {
public:
  TextSpool(); // throws bad input when it cannot be made
  ~TextSpool();
  TextSpool(const TextSpool&) = delete;
  TextSpool& operator=(const TextSpool&) = delete;

  // Where the text begins. Throws bad input on a full disk.
  std::uint64_t append(std::string_view text);
  // Writes what append() still holds; read() needs it.
  void flush();
  std::string read(std::uint64_t offset, std::size_t size) const; // any thread

private:
  std::string directory_;
  int descriptor_ = -1;
  std::uint64_t written_ = 0;
  std::string held_;
};

struct ParquetText {
  std::uint64_t offset = 0; // in the spool
  std::uint32_t size = 0;
  std::uint32_t row = 0; // 1-based
};

// The rows of the string column `text` that are neither null nor empty. Throws bad input for a
// damaged file, one without that column, and where assay-parquet.so does not lie beside the
// program.
std::vector<ParquetText> decode_parquet(const std::string& path, TextSpool& spool);

} // namespace assay
