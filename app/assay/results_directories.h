// Results directories that a command names.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

namespace assay::cli {

// Each once, however often it is named: `results/* results/varlen`. False: it is there already.
inline bool add_once(std::vector<std::string>& directories, const std::string& directory) {
  const auto is_same = [&](const std::string& earlier) {
    std::error_code ignored;
    return earlier == directory || std::filesystem::equivalent(earlier, directory, ignored);
  };
  if (std::ranges::any_of(directories, is_same)) return false;
  directories.push_back(directory);
  return true;
}

} // namespace assay::cli
