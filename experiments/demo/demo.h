// The results directory of `assay demo`: synthetic, with something of everything that Assay can
// show. Tests, screenshots and newcomers use it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace assay {

struct Demo {
  std::int64_t launches = 0, visits = 0;
  std::vector<std::string> cells;  // name and what it shows
  std::vector<std::string> traces; // paths
};

// Writes into `directory`, which must be empty or missing; throws Failure (bad input) otherwise.
// The same rows every time.
Demo write_demo(const std::string& directory);

} // namespace assay
