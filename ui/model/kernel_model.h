// The screen "Kernels": the rows of Explanation.kernels or .operators, filtered and sorted. Status
// words, intervals and classes are analysis' own.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>
#include <vector>

#include "experiments/attribution/attribution.h"
#include "ui/model/results/compare_model.h"

namespace assay {

struct Workspace;

struct KernelRowModel {
  const DiffRow* row = nullptr; // lives as long as the workspace's results
  double share = 0;             // |difference| / the baseline's step
  bool matters = true;          // share is at least the slider's
};

struct KernelModel {
  std::string title; // "kernels by device time", "operators by self time"
  std::string a, b;
  std::vector<KernelRowModel> rows;
  std::size_t all = 0; // before filters
  TimeUnit unit;
  double delta_ns = 0; // sum over the rows shown
  bool has_kernels = false, has_operators = false;
  std::string warning;
  std::optional<Notice> notice; // instead of a table
};

KernelModel kernel_model(const Workspace& workspace);
nlohmann::ordered_json to_json(const KernelModel& model);

// The cells of a row, as drawn and as copied.
std::vector<std::string> kernel_columns(const KernelModel& model);
std::vector<std::string> kernel_cells(const KernelModel& model, const KernelRowModel& row);

} // namespace assay
