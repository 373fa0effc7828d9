// Figures of SciPy that our statistics are held against.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/paths.h"

namespace assay::test {

inline nlohmann::json vectors() {
  std::ifstream file(source_dir() + "/tests/core/scipy_vectors.json");
  EXPECT_TRUE(file) << "tests/core/scipy_vectors.json is missing";
  return nlohmann::json::parse(file);
}

inline void expect_near(double got, double want, const std::string& what) {
  EXPECT_NEAR(got, want, 1e-9 * std::max(1.0, std::abs(want))) << what;
}

} // namespace assay::test
