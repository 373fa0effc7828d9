// NameTable: the strings of a trace file (StringIds), each once, as valid UTF-8 of at most 64 KiB.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/sqlite/database.h"
#include "core/trace/trace.h"

namespace assay {

class NameTable {
public:
  NameTable();
  NameId intern(std::string_view text);
  const std::string& operator[](NameId id) const { return names_.at(id); }
  std::int64_t altered() const { return altered_; } // distinct names that were cut or repaired
  void write(const Database& db) const;

private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>()(text);
    }
  };

  std::unordered_map<std::string, NameId, Hash, std::equal_to<>> ids_; // by the name as it came
  std::vector<std::string> names_;                                     // as they are stored
  std::int64_t altered_ = 0;
};

} // namespace assay
