// What `ab`, `confirm` and `calibrate` share: they make a matrix and hand it over to `assay run`.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

#include "app/assay/output/terminal.h"
#include "app/assay/time_limits.h"

namespace assay::cli {

// The options that go on to the run.
struct HandOver {
  TimeLimits limits;
  std::string data; // training data instead of the matrix's, or ""
  bool quiet = false, json = false;
  TerminalOptions terminal; // of the verdict table

  void add_to(CLI::App& command);
  void add_data_to(CLI::App& command);
  // Of `assay` itself: "run", the matrix …
  std::vector<std::string> arguments(const std::string& matrix, const std::string& out) const;
  // Writes matrix.toml into `out`, which is below results, and measures it there; returns the
  // exit code. A run that ends before it has a ledger leaves nothing in `out`. Bad input where
  // `out` has another matrix: `other` says what that measures.
  int measure(const std::string& out, const std::string& matrix, const std::string& other) const;
};

} // namespace assay::cli
