// AtomicFile: a file that appears under its name whole or not at all.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/files/temporary_file.h"

namespace assay {

// Writes a TemporaryFile in the same directory; commit() syncs it, renames it and syncs the
// directory. Without a commit the partial file is removed and the previous file of that name stays.
// Throws bad input (full disk, no permission), naming the file.
class AtomicFile {
public:
  explicit AtomicFile(const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, std::size_t size);
  void write(std::string_view text) { write(text.data(), text.size()); }
  void commit();

private:
  [[noreturn]] void give_up(const char* action, int error);

  std::string path_;
  std::unique_ptr<TemporaryFile> file_;
};

void write_file_atomically(const std::string& path, std::string_view content);

} // namespace assay
