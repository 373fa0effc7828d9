// A good SQLite file with a few edits: raw bytes would only find SQLite's own checks. The input
// says which.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace assay::fuzz {

class EditedDatabase {
public:
  explicit EditedDatabase(const std::string& good_file);

  // Writes the file with the edits of the input: the first byte chooses between bytes (4 of the
  // input each: place, value) and cells (6 each: table, column, row, kind, value).
  void write(const std::string& path, const std::uint8_t* data, std::size_t size) const;

private:
  struct Table {
    std::string name;
    std::vector<std::string> columns;
  };
  void edit_cells(const std::string& path, const std::uint8_t* data, std::size_t size) const;

  std::string bytes_;
  std::vector<Table> tables_;
};

} // namespace assay::fuzz
