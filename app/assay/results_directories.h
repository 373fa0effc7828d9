// Results directories that a command names.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

namespace assay::cli {

// Each once, however often it is named: `results/* results/varlen`.
inline void add_once(std::vector<std::string>& directories, const std::string& directory) {
  const auto is_same = [&](const std::string& earlier) {
    std::error_code ignored;
    return earlier == directory || std::filesystem::equivalent(earlier, directory, ignored);
  };
  if (std::ranges::none_of(directories, is_same)) directories.push_back(directory);
}

} // namespace assay::cli
