// What loss launches show: the curve of every variant and seed, and for two variants the test of
// their final losses, paired by seed (docs/statistics.md, "Loss").
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/ledger/ledger.h"
#include "experiments/evidence/effect.h"
#include "experiments/evidence/evidence.h"
#include "experiments/evidence/loss/loss_quality.h"
#include "experiments/evidence/pairs.h"

namespace assay {

// Optimizer steps of a variant in a loss launch.
int loss_training_steps(const CellRow& cell);
// Steps of a variant between two losses: the baseline's, or in a cell of unit "token" as many as
// take the same tokens. nullptr: a cost that an old ledger lacks.
int loss_visit_steps(const CellRow& cell, const StepCostRow* baseline, const StepCostRow* own);
// The final loss is the mean over the last 5 % of the visits, at least 3 of them.
inline constexpr double kFinalShare = 0.05;
inline constexpr std::size_t kFewestFinalVisits = 3;
std::size_t
final_visits(std::size_t visits); // how many of so many count; never more than there are
// Of these, visits that begin within the learning rate's warm-up, and the first, whose loss
// precedes every update, show nothing of an optimization and are not judged.
inline constexpr std::size_t kFewestJudgedVisits = 2;
// The warm-up of a variant's learning rate, in its own steps.
struct RateWarmUp {
  std::string variant; // "": the baseline
  std::int64_t steps = 0;
  int visit_steps = 1; // between two losses

  std::size_t visits() const; // that begin within it
};
// Counted from 0; cell.loss_rounds: there is none. `longest`: warm-up of the cell's variants.
std::size_t first_judged_visit(const CellRow& cell, const RateWarmUp& longest);
// Why the cell's loss launches can decide nothing ("training ends within …"), or "".
std::string why_no_loss_counts(const CellRow& cell, const RateWarmUp& longest);
// Of the variants that take part, the one whose warm-up ends last, in visits.
RateWarmUp longest_warm_up(const CellView& cell);

struct LossCurve {
  std::string variant;
  std::uint64_t seed = 0;   // of weights and data
  std::vector<double> loss; // nats per token, one a visit: mean over its steps
};

// By variant, then seed: of complete loss launches, and what a variant that was retired had before.
std::vector<LossCurve> loss_curves(const CellView& cell);

// Final losses of the candidate against the baseline over the seeds of the cell's loss launches.
struct LossTest {
  LossQuality result;
  LossRule rule = LossRule::Equivalence;
  int steps = 0;                             // optimizer steps a seed and variant
  std::size_t final_steps = 0;               // of these, the last ones that count
  std::int64_t skipped_a = 0, skipped_b = 0; // steps that the loss scaler skipped
  std::optional<Estimate> log_ratio;         // ln(candidate / baseline) by seed, for claims
  std::optional<Estimate> a_loss;            // final loss of the baseline by seed, nats per token
  bool parted = false;                       // some visit's losses differ in some bit
  std::string note;                          // what else must be known, or ""
};

// The optimizer step from which on losses count as final.
inline double first_judged_step(const LossTest& test) {
  return test.steps - static_cast<double>(test.final_steps);
}

// Nothing where the plan asks for no loss launches. A pair is one seed: launches that are complete
// and contain both variants, or only the candidate's loss was not finite.
// `loss_alpha`: of each one-sided test of the final losses.
std::optional<LossTest> loss_test(const CellView& cell,
                                  const VariantRow& a,
                                  const VariantRow& b,
                                  double judged_alpha,
                                  double loss_alpha);

// What training showed of the quality of `equivalence`, after its gates: statistical and objective
// rows have the loss test alone; for bitwise and math rows, whose gates decide, harm overrules
// them. Gates see a few steps: BITWISE ends where losses part, and no gate decides where the loss
// scaler skipped other steps. Quality is then that of the loss test, or that of a math row whose
// losses alone part.
void judge_by_training(Evidence& evidence,
                       const PairSet& pairs,
                       const std::optional<LossTest>& test,
                       const std::string& equivalence);

// "loss +0.0012 [-0.003, +0.005] nats/token (90 % over 4 seeds), margin 0.02; …"
std::string loss_text(const LossTest& test);

} // namespace assay
