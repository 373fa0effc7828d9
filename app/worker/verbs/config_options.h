// The options of `train` that name configuration keys: shortcuts for the common ones, --set for
// all.
#pragma once

#include <CLI/CLI.hpp>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "model/config/train_config.h"

namespace assay::worker {

class ConfigOptions {
public:
  void add_to(CLI::App& command);
  // `config` with every given option applied, unresolved. Throws bad input for an unknown key or a
  // wrong value.
  TrainConfig apply(TrainConfig config) const;
  std::set<std::string> named() const; // the keys of those options

private:
  std::vector<std::pair<std::string, std::string>> shortcuts_; // key, text as given
  std::vector<std::string> assignments_;                       // "key=value"
};

} // namespace assay::worker
