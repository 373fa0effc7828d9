// Texts of matrix files for tests, and what parsing finds wrong with one.
#pragma once

#include <string>
#include <vector>

#include "experiments/plan/matrix/matrix.h"

namespace assay::test::matrix_text {

inline const std::string kHead = "version = 1\n[experiment]\nname = \"t\"\n";
inline const std::string kCell = "[[cell]]\noptimization = \"ema_swap\"\n";

// "": nothing.
inline std::string problem(const std::string& text,
                           const std::vector<std::string>& overrides = {}) {
  const Result<Matrix> matrix = parse_matrix(text, "m.toml", overrides);
  return matrix ? "" : matrix.error().message;
}

} // namespace assay::test::matrix_text
