// TarArchive: a POSIX ustar archive, written from front to back into a file that a person named
// (compressed when that ends in .gz), or compressed on standard output.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/files/output_file.h"
#include "core/files/output_target.h"

namespace assay {

class TarArchive {
public:
  explicit TarArchive(const std::string& path) : file_(path, is_standard_output(path)) {}

  // `name`: the path inside the archive; `modified`: seconds since 1970. Throws Failure (bad input)
  // for a name that the format cannot hold.
  void add(const std::string& name, std::string_view content, std::int64_t modified);
  // The file as it is now, read piece by piece.
  void add_file(const std::string& name, const std::string& path);
  void finish();
  std::int64_t bytes() const { return file_.bytes(); } // before compression

private:
  void pad(std::uint64_t size);

  OutputFile file_;
};

} // namespace assay
