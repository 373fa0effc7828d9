// What a cell may be called. A name is one line of every table, and is typed after --cell.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace assay {

inline constexpr std::size_t kLongestName = 120; // bytes; files of traces have such names

// Why nothing can have this name, or "". Two names that differ look different.
std::string wrong_name(const std::string& name);

// The same of a cell, whose name no word of an option may be.
std::string wrong_cell_name(const std::string& name);

// Bad input unless `name`, which follows `option`, is one of `cells`; names those that there are.
// `also`: another word that the option takes, or "".
void require_cell(const std::string& option,
                  const std::string& name,
                  std::vector<std::string> cells,
                  const std::string& also = "");

} // namespace assay
