// Results: a results directory as the screens need it, computed once by experiments/analysis on the
// loader's thread and immutable afterwards.
#pragma once

#include <string>
#include <vector>

#include "core/ledger/ledger.h"
#include "core/result.h"
#include "experiments/analysis/report.h"
#include "experiments/report/section.h"
#include "ui/model/results/loss_model.h"
#include "ui/model/results/memory_model.h"
#include "ui/model/results/verdict_model.h"

namespace assay {

struct TracePath {
  std::string path;
  std::string why_none; // when path is empty
};

struct Results {
  std::string directory;
  LedgerData data;
  Report report;
  VerdictModel verdicts; // one row a comparison
  struct Place {
    std::size_t cell = 0, comparison = 0;
  };
  std::vector<Place> places;                        // of each row, in `report`
  std::vector<std::optional<LossModel>> losses;     // of each row; nothing without loss launches
  std::vector<std::optional<Section>> speeds;       // of each row: throughput and roofline
  std::vector<std::optional<MemoryModel>> memories; // of each row; nothing in older ledgers
  std::vector<Section> sections;                    // of the run, in reading order
  bool explained = false;                           // traces were read too

  // The row to begin with: the comparison that the first cell is about, as `assay explain` and
  // `assay export` choose it.
  std::size_t main_row() const;

  // The trace file of the baseline (side 0) or the candidate (side 1) of a row.
  TracePath trace_path(std::size_t row, std::size_t side) const;
};

// `explained`: also reads the traces, which takes as long as they are large.
Result<Results> read_results(const std::string& directory, bool explained);

} // namespace assay
