// A plan: a matrix with everything resolved. It is a pure function of the matrix, the registry, the
// claims, and the memory and GPUs of the machine, and its hash names it: the same hash, the same
// experiment.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/ledger/ledger.h"
#include "core/protocol/protocol.h"
#include "core/result.h"
#include "experiments/plan/matrix/matrix.h"

namespace assay {

struct Report; // experiments/analysis/report.h

struct PlanOptions {
  std::string claims_directory;         // of the shipped claims files; "": there are none
  std::string command = {};             // the command line, kept in the ledger
  std::string directory = {};           // where it was given, kept in the ledger
  std::int64_t host_memory_bytes = 0;   // 0: ask the machine
  std::int64_t device_memory_bytes = 0; // of the GPU; 0: unknown, cells on it are not split
  int device_capability = 0;            // of the GPU, 90 is 9.0; 0: unknown, any level runs on it
  bool needs_data = true;               // false: nothing is run, so training data may be absent
  std::vector<std::string> cells = {};  // that will run, which must fit the memory; empty: all
};

struct Plan {
  LedgerData ledger; // spec, optimizations, claims, cells, variants, notes; nothing measured
  std::optional<double> budget_seconds;
  std::optional<double> trace_budget_bytes; // of all traces in the results directory
  std::vector<std::string> lacks;           // what a run needs; it will change the plan's hash
};

// The plan's notes as people read them: "cell 'varlen': split into 2 groups …". Those of `cells`
// and of the whole plan; empty: all.
std::vector<std::string> note_texts(const Plan& plan, const std::vector<std::string>& cells = {});

// Every problem is reported at once, one a line.
Result<Plan> make_plan(const Matrix& matrix, const PlanOptions& options);
// The same, with the problems of the text, and then of no more than the names in it.
Result<Plan> make_plan(const MatrixText& from, const PlanOptions& options);

// Where a key's value was given: "m.toml:12", "--data", or "" where nobody gave it. `of_cell`: for
// one cell alone, which an option of the command line does not change.
struct GivenAt {
  std::string where;
  bool of_cell = false;
};
// What is wrong with training data, or "".
std::string wrong_data(const std::string& data, const GivenAt& given);

// What one cell will take and can see.
struct CellEstimate {
  std::int64_t cell = 0;
  std::size_t variants = 0;
  std::int64_t memory_bytes = 0;      // replicas, and the step of the variant that needs most
  bool memory_measured = false;       // by the probe, of the baseline; else by arithmetic alone
  double trace_bytes = 0;             // of its traced launch, roughly
  int launches = 0, rounds = 0;       // launches: at most
  int least_launches = 0;             // fewer than `launches` where the results decide
  int loss_seeds = 0, loss_steps = 0; // loss launches, and optimizer steps of a variant in each
  std::optional<double> seconds;      // all its launches, at most; needs a probe
  std::optional<double> least_seconds;
  std::optional<double> mde;     // of ln(time ratio); needs the launches of a verdict
  bool mde_from_results = false; // by the scatter of earlier results of this cell
  double pair_sd = 0;            // else: of a pair's ln(time ratio),
  bool pair_sd_measured = false; // shown by the probe, or assumed
  double process_sd = 0;         // and of a launch's, between processes; 0: all variants share one
  // The MDE of each contrast of the cell's design, in that of a pair, for variants that scatter
  // alike and independently.
  std::vector<double> contrast_mde_factors;
};

struct PlanEstimate {
  std::vector<CellEstimate> cells;
  std::optional<double> seconds, least_seconds;
  double pair_sd = 0;           // the largest that the MDE of a cell assumes
  bool pair_sd_measured = true; // by the probes of all cells without earlier results
  double trace_bytes = 0;       // of all traced launches, roughly
  int judgements = 1;      // verdicts that the plan asks for: the level of the MDE is alpha / these
  double judged_alpha = 0; // as every verdict reads it
};

// sd of a pair's ln(time ratio) assumed before anything is measured: one-step visits on a small
// shared CPU .10, GPU-bound visits .01.
inline constexpr double kPairSdCpu = 0.10, kPairSdGpu = 0.01;

// sd that variants in processes of their own add to a launch's ln(time ratio), assumed: in turns,
// and one after the other, where the machine drifts meanwhile (docs/statistics.md).
inline constexpr double kTurnsSdCpu = 0.013, kTurnsSdGpu = 0.006;
inline constexpr double kApartSdCpu = 0.08, kApartSdGpu = 0.01;

// `earlier`: results whose scatter gives the MDE of cells that are planned again, of the same name
// and configuration; nullptr: none.
PlanEstimate estimate(const Plan& plan,
                      const std::map<std::int64_t, ProbeResult>& probes = {},
                      const Report* earlier = nullptr);

} // namespace assay
