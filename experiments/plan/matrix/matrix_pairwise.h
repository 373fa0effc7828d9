// The short form [matrix]: optimizations times axes, expanded into cells.
#pragma once

#include <cstddef>
#include <vector>

#include "experiments/plan/matrix/matrix.h"
#include "experiments/plan/matrix/toml_reader.h"

namespace assay {

inline constexpr std::size_t kMostCells = 1000; // of one matrix: weeks

// Appends the cells of [matrix], if there is one, to matrix.cells.
void expand_pairwise(TomlTable& root, Matrix& matrix);

// A table of TrainConfig keys, but for `skip`; unknown keys and wrong types become problems.
std::vector<ConfigValue>
config_values(const toml::table& table, TomlProblems& problems, std::string_view skip = "");

} // namespace assay
