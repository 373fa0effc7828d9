#include "experiments/evidence/loss/loss.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/ledger/launch_rules.h"
#include "core/ledger/stored_config.h"

namespace assay {

namespace {

// An integer of a configuration; 0 in a ledger of another maker that lacks it.
std::uint64_t configured(const std::string& config_json, const char* key) {
  const nlohmann::json config = stored_config(config_json);
  if (!config.contains(key) || !config[key].is_number_integer()) return 0;
  return config[key].get<std::uint64_t>();
}

std::uint64_t seed_of(const CellView& cell, int index) {
  return launch_seed(configured(cell.cell->config_json, "seed"), index);
}

// A variant's retirements from loss launches.
struct Fall {
  const LaunchRow* launch;
  const RetiredVariant* retirement;
};

std::vector<Fall> falls(const CellView& cell, const VariantRow& variant) {
  std::vector<Fall> result;
  for (const LaunchRow* launch : cell.of_kind(LaunchKind::Loss))
    for (const RetiredVariant& retirement : cell.retirements)
      if (retirement.launch == launch->id && retirement.variant == variant.id)
        result.push_back({launch, &retirement});
  return result;
}

double loss_of(const VisitRow& visit) { // the ledger stores NULL in place of NaN
  return visit.loss.value_or(std::numeric_limits<double>::quiet_NaN());
}

std::vector<double> losses(const std::vector<const VisitRow*>& visits) {
  std::vector<double> result;
  for (const VisitRow* visit : visits) result.push_back(loss_of(*visit));
  return result;
}

// The mean over the judged visits; of the last one where there is none, and nothing reads it.
double final_loss(std::size_t first_judged, const std::vector<double>& losses) {
  const auto first = static_cast<std::ptrdiff_t>(std::min(first_judged, losses.size() - 1));
  return mean(std::vector<double>(losses.begin() + first, losses.end()));
}

struct FinalLoss {
  std::int64_t launch = 0;
  double loss = 0;
  std::vector<double> curve;
};

// By launch index, of complete launches that hold all of the variant's visits.
std::map<int, FinalLoss>
final_losses(const CellView& cell, const VariantRow& variant, std::size_t first_judged) {
  std::map<int, FinalLoss> by_index;
  for (const LaunchRow* launch : cell.complete(LaunchKind::Loss)) {
    const auto& own = cell.visits(launch->id, variant.id);
    if (!own.empty() && own.size() == static_cast<std::size_t>(cell.cell->loss_rounds))
      by_index[launch->index] = {launch->id, final_loss(first_judged, losses(own)), losses(own)};
  }
  return by_index;
}

struct SeedLosses {
  std::vector<SeedLoss> seeds;
  bool parted = false;
};

SeedLosses seed_losses(const CellView& cell,
                       const VariantRow& a,
                       const VariantRow& b,
                       std::size_t first_judged) {
  const auto of_a = final_losses(cell, a, first_judged);
  const auto of_b = final_losses(cell, b, first_judged);
  std::set<int> lost;
  for (const Fall& fall : falls(cell, b))
    if (fall.retirement->cause == RetirementCause::Loss) lost.insert(fall.launch->index);
  SeedLosses result;
  for (const auto& [index, own] : of_a) {
    const std::uint64_t seed = seed_of(cell, index);
    const auto other = of_b.find(index);
    if (lost.contains(index)) {
      result.seeds.push_back({seed, own.loss, std::numeric_limits<double>::quiet_NaN()});
      result.parted = true;
    } else if (other != of_b.end() && other->second.launch == own.launch) {
      result.seeds.push_back({seed, own.loss, other->second.loss});
      result.parted |= own.curve != other->second.curve;
    }
  }
  return result;
}

std::optional<Estimate> log_ratios(const std::vector<SeedLoss>& seeds, double judged_alpha) {
  std::vector<double> ratios;
  for (const SeedLoss& seed : seeds) {
    const double ratio = std::log(seed.b / seed.a);
    if (!std::isfinite(ratio)) return std::nullopt; // a mean without it would flatter
    ratios.push_back(ratio);
  }
  if (ratios.empty()) return std::nullopt;
  return estimate(std::move(ratios), judged_alpha);
}

std::optional<Estimate> losses_of_a(const std::vector<SeedLoss>& seeds, double judged_alpha) {
  std::vector<double> losses;
  for (const SeedLoss& seed : seeds) {
    if (!std::isfinite(seed.a)) return std::nullopt;
    losses.push_back(seed.a);
  }
  if (losses.empty()) return std::nullopt;
  return estimate(std::move(losses), judged_alpha);
}

std::int64_t skipped_steps(const CellView& cell, const VariantRow& variant) {
  std::int64_t skipped = 0;
  for (const LaunchRow* launch : cell.complete(LaunchKind::Loss))
    for (const VisitRow* visit : cell.visits(launch->id, variant.id))
      skipped += visit->skipped_steps;
  return skipped;
}

// Levels that may differ in a bit and do not have not met what they differ in.
void doubt_equal_losses(LossQuality& result, const std::string& equivalence) {
  const bool equal = std::all_of(result.seeds.begin(),
                                 result.seeds.end(),
                                 [](const SeedLoss& seed) { return seed.a == seed.b; });
  if (!equal || result.quality != Quality::Equivalent) return;
  result.quality = Quality::Unknown;
  result.reason = fmt::format("the final losses of all {} seeds are equal to the last bit, which "
                              "class {} does not promise: nothing differed, so they show nothing",
                              result.seeds.size(),
                              equivalence);
}

// Training losses measure unseen data as long as no batch repeats.
std::string wrapped_note(const CellView& cell) {
  double most = 0;
  for (const LaunchRow* launch : cell.of_kind(LaunchKind::Loss))
    for (const MetricRow* metric : cell.metrics(launch->id))
      if (metric->path == kDataEpochMetric) most = std::max(most, metric->value);
  if (most < 1) return "";
  return fmt::format("the training data were through {:.0f} time{}, so the last losses are of text "
                     "seen before",
                     most,
                     most == 1 ? "" : "s");
}

} // namespace

std::size_t final_visits(std::size_t visits) {
  const auto share =
      static_cast<std::size_t>(std::ceil(kFinalShare * static_cast<double>(visits) - 1e-9));
  return std::min(visits, std::max(kFewestFinalVisits, share));
}

int loss_training_steps(const CellRow& cell) {
  return cell.loss_rounds * cell.loss_steps;
}

int loss_visit_steps(const CellRow& cell, const StepCostRow* baseline, const StepCostRow* own) {
  if (!by_token(cell) || baseline == nullptr || own == nullptr) return cell.loss_steps;
  return steps_of_equal_tokens(baseline->tokens, own->tokens, cell.loss_steps);
}

std::size_t RateWarmUp::visits() const {
  const int each = std::max(1, visit_steps);
  return static_cast<std::size_t>((steps + each - 1) / each);
}

std::size_t first_judged_visit(const CellRow& cell, const RateWarmUp& longest) {
  const auto visits = static_cast<std::size_t>(cell.loss_rounds);
  return std::min(visits,
                  std::max({visits - final_visits(visits), longest.visits(), std::size_t{1}}));
}

std::string why_no_loss_counts(const CellRow& cell, const RateWarmUp& longest) {
  const std::size_t judged =
      static_cast<std::size_t>(cell.loss_rounds) - first_judged_visit(cell, longest);
  if (judged >= kFewestJudgedVisits) return "";
  return fmt::format("{} of at least {} visits of {} step{} begin after the first visit and the {} "
                     "warm-up steps of a training of {}{}: earlier losses show nothing",
                     judged,
                     kFewestJudgedVisits,
                     longest.visit_steps,
                     longest.visit_steps == 1 ? "" : "s",
                     longest.steps,
                     cell.loss_rounds * longest.visit_steps,
                     longest.variant.empty() ? "" : fmt::format(" of '{}'", longest.variant));
}

RateWarmUp longest_warm_up(const CellView& cell) {
  RateWarmUp longest{"",
                     static_cast<std::int64_t>(configured(cell.cell->config_json, "warmup_steps")),
                     cell.cell->loss_steps};
  for (const VariantRow* variant : cell.variants) {
    const RateWarmUp own{
        variant->name,
        static_cast<std::int64_t>(configured(variant->config_json, "warmup_steps")),
        loss_visit_steps(*cell.cell, cell.cost(cell.baseline->id), cell.cost(variant->id))};
    if (own.visits() > longest.visits()) longest = own;
  }
  return longest;
}

std::vector<LossCurve> loss_curves(const CellView& cell) {
  std::vector<LossCurve> curves;
  for (const VariantRow* variant : cell.variants) {
    std::map<int, LossCurve> by_index;
    const auto add = [&](const LaunchRow& launch) {
      const auto& own = cell.visits(launch.id, variant->id);
      if (!own.empty())
        by_index[launch.index] = {variant->name, seed_of(cell, launch.index), losses(own)};
    };
    for (const Fall& fall : falls(cell, *variant)) add(*fall.launch);
    for (const LaunchRow* launch : cell.complete(LaunchKind::Loss)) add(*launch);
    for (auto& [index, curve] : by_index) curves.push_back(std::move(curve));
  }
  return curves;
}

std::optional<LossTest> loss_test(const CellView& view,
                                  const VariantRow& a,
                                  const VariantRow& b,
                                  double judged_alpha,
                                  double loss_alpha) {
  const CellRow& cell = *view.cell;
  if (cell.loss_seeds == 0) return std::nullopt;
  LossTest test;
  const std::string equivalence = view.equivalence();
  if (equivalence == "objective") test.rule = LossRule::NonInferiority;
  test.steps = loss_training_steps(cell);
  const RateWarmUp warm_up = longest_warm_up(view);
  const std::size_t first_judged = first_judged_visit(cell, warm_up);
  test.final_steps = (static_cast<std::size_t>(cell.loss_rounds) - first_judged) *
                     static_cast<std::size_t>(cell.loss_steps);
  SeedLosses losses = seed_losses(view, a, b, first_judged);
  test.parted = losses.parted;
  const std::string uncounted = why_no_loss_counts(cell, warm_up);
  if (!uncounted.empty()) losses.seeds.clear(); // harm by a lost loss is known from its retirement
  test.result = judge_loss(
      std::move(losses.seeds), cell.loss_margin, test.rule, view.spec->power, loss_alpha);
  if (!uncounted.empty()) test.result.reason = uncounted;
  if (equivalence != "bitwise") doubt_equal_losses(test.result, equivalence);
  test.log_ratio = log_ratios(test.result.seeds, judged_alpha);
  test.a_loss = losses_of_a(test.result.seeds, judged_alpha);
  test.skipped_a = skipped_steps(view, a);
  test.skipped_b = skipped_steps(view, b);
  std::vector<std::string> notes;
  for (const VariantRow* variant : {&a, &b})
    for (const Fall& fall : falls(view, *variant)) notes.push_back(fall.retirement->text);
  if (const std::string wrapped = wrapped_note(view); !wrapped.empty()) notes.push_back(wrapped);
  test.note = fmt::format("{}", fmt::join(notes, "; "));
  return test;
}

void judge_by_training(Evidence& evidence,
                       const PairSet& pairs,
                       const std::optional<LossTest>& test,
                       const std::string& equivalence) {
  if (evidence.quality == Quality::Harmed) return; // a loss that is gone needs no test
  const bool skips =
      pairs.skipped_a != pairs.skipped_b || (test && test->skipped_a != test->skipped_b);
  std::optional<Reason> parting; // why no gate of the row decides
  if (equivalence == "bitwise" && evidence.quality == Quality::Unknown)
    parting = evidence.quality_reason;
  if (evidence.quality != Quality::Unknown && skips)
    parting = {ReasonCode::TrainingParts,
               "the gates passed, but the loss scaler skipped different updates of the two sides"};
  else if (evidence.quality == Quality::Bitwise && test && test->parted)
    parting = {ReasonCode::TrainingParts,
               "the bitwise gates passed, but the losses differ later in training"};
  if (parting) {
    evidence.quality = equivalence == "math" && !skips ? Quality::Equivalent : Quality::Unknown;
    evidence.quality_reason = *parting;
  }
  const bool gates_decide =
      equivalence == "math" ? !skips || !parting : equivalence == "bitwise" && !parting;
  if (!test || (gates_decide && test->result.quality != Quality::Harmed)) return;
  evidence.quality = test->result.quality;
  evidence.quality_reason = {ReasonCode::LossTest,
                             (parting ? parting->text + "; " : "") + loss_text(*test)};
}

std::string loss_text(const LossTest& test) {
  std::string text = "loss: " + test.result.reason;
  if (test.result.quality == Quality::Equivalent)
    text += test.rule == LossRule::Equivalence ? ": equivalent" : ": not worse";
  if (test.final_steps > 0)
    text += fmt::format("; last {} of {} steps", test.final_steps, test.steps);
  if (test.skipped_a + test.skipped_b > 0)
    text +=
        fmt::format("; the loss scaler skipped {} steps of the baseline and {} of the candidate",
                    test.skipped_a,
                    test.skipped_b);
  return test.note.empty() ? text : text + "; " + test.note;
}

} // namespace assay
