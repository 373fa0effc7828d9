// What a cell may be called. A name is one line of every table, and is typed after --cell.
#pragma once

#include <string>

namespace assay {

// Why a cell cannot have this name, or "". Two names that differ look different.
std::string wrong_cell_name(const std::string& name);

} // namespace assay
