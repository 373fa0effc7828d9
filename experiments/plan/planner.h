// Builds the rows of a plan cell by cell: the state that the steps of make_plan() share. The steps
// themselves: plan.cpp (order and rows), planner_checks.cpp (what a cell names), planner_shape.cpp
// (how often and how long it measures), planner_claims.cpp.
#pragma once

#include <algorithm>
#include <deque>
#include <string>
#include <vector>

#include "core/lines.h"
#include "experiments/plan/matrix/drafts.h"
#include "experiments/plan/plan.h"
#include "model/config/optimization.h"

namespace assay {

struct Problems {
  std::vector<std::string> messages;
  void add(const std::string& message) { // one problem a line
    for (const std::string& line : lines_of(message))
      if (std::find(messages.begin(), messages.end(), line) == messages.end())
        messages.push_back(line);
  }
};

class Planner {
public:
  Planner(const Matrix& matrix, const PlanOptions& options) : matrix_(matrix), options_(options) {}

  Result<Plan> run();
  // What is wrong with the optimizations and levels that the cells name, where nothing more can be
  // said of a matrix.
  std::vector<std::string> wrong_names();

private:
  void add_cell(MatrixCell cell);
  void note_unused_keys();
  void refuse_cell(const MatrixCell& cell, const std::string& problems);
  // nullptr: unknown. `cell` loses the levels that the row lacks.
  const Optimization* checked_row(MatrixCell& cell);
  void check_levels(MatrixCell& cell, const Optimization& row);
  const Optimization* row_of_variants(const MatrixCell& cell);
  void check_data(const TrainConfig& config, const MatrixCell& cell);
  // A file that a key names.
  void check_file(const MatrixCell& cell,
                  const std::string& key,
                  const std::string& path,
                  const std::string& remedy);
  void check_worker(const MatrixCell& cell, const MatrixVariant& variant);
  // `cell` as the matrix names it; "": about the whole plan.
  void note(const std::string& cell, const std::string& text) {
    plan_.ledger.notes.push_back({cell, text});
  }
  void lacks(const std::string& what) {
    if (std::find(plan_.lacks.begin(), plan_.lacks.end(), what) == plan_.lacks.end())
      plan_.lacks.push_back(what);
  }
  std::vector<std::vector<Draft>> groups(const MatrixCell& cell, const std::vector<Draft>& all);
  bool will_run(const MatrixCell& cell) const;
  void write_cell(const MatrixCell& cell,
                  const Optimization& row,
                  const std::string& name,
                  const std::vector<Draft>& group);
  void visit_shape(const MatrixCell& cell, const std::vector<Draft>& group, CellRow& row);
  void take_turns(const MatrixCell& cell, const std::vector<Draft>& all, CellRow& row);
  bool are_too_large(const std::vector<Draft>& all) const;
  std::int64_t memory_limit(bool gpu) const;
  // `what` of the cell takes more than the limit.
  void refuse_size(const MatrixCell& cell, const std::string& what, std::int64_t bytes, bool gpu);
  void note_other_tokens(const std::vector<Draft>& group, const CellRow& row);
  void loss_shape(const MatrixCell& cell,
                  const Optimization& optimization,
                  const std::vector<Draft>& group,
                  CellRow& row);
  void add_claims();
  void add_claim(ClaimRow claim);
  void add_key_claim(ClaimRow claim);
  void finish_spec();

  const Matrix& matrix_;
  const PlanOptions& options_;
  Problems problems_;
  Plan plan_;
  std::deque<Optimization> own_rows_; // of cells with variants
  bool any_gpu_ = false;
};

} // namespace assay
