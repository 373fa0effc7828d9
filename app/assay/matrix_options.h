// What `plan` and `run` share: the matrix, its overrides and the plan made of them.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

#include "experiments/plan/plan.h"

namespace assay::cli {

// What a plan takes from this machine and this installation.
PlanOptions plan_options();

class MatrixOptions {
public:
  void add_to(CLI::App& command);
  // Throws Failure with every problem of matrix, claims and overrides at once.
  // `needs_data`: a plan that nothing runs may lack training data. `cells`: those that will run;
  // empty: all.
  Plan load(bool needs_data = true, const std::vector<std::string>& cells = {}) const;

private:
  std::string matrix_, data_, device_;
  std::vector<std::string> overrides_;
  std::string launches_;
};

} // namespace assay::cli
