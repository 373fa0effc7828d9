// What `plan` and `run` share: the matrix, its overrides and the plan made of them.
#pragma once

#include <CLI/CLI.hpp>

#include <optional>
#include <string>
#include <vector>

#include "experiments/plan/plan.h"

namespace assay::cli {

// What a plan takes from this machine and this installation.
PlanOptions plan_options();

struct PlanRequest {
  bool needs_data = true;                 // a plan that nothing runs may lack training data
  std::vector<std::string> cells = {};    // that will run; empty: all
  std::vector<std::string> settings = {}; // "experiment.launches=8", over those of the command line
  std::string command = {};               // that the plan keeps; empty: this process's own
};

class MatrixOptions {
public:
  void add_to(CLI::App& command);
  // Throws Failure with every problem of matrix, claims and overrides at once.
  Plan load(const PlanRequest& request = {}) const;
  bool from_standard_input() const { return matrix_ == "-"; }

private:
  std::string matrix_, data_, device_;
  mutable std::optional<std::string> text_; // of the matrix, read once: it may be standard input
  std::vector<std::string> overrides_;
  std::string launches_;
};

} // namespace assay::cli
