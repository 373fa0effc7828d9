#include "experiments/demo/synthetic_ledger.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <tuple>

#include "core/ledger/memory_parts.h"
#include "core/ledger/storage/plan_json.h"
#include "core/result.h"

namespace assay::synthetic {

namespace {

constexpr double kReferenceBytes = 100 * 1048576.0;
constexpr int kLossRounds = 50, kLossSteps = 10; // visits of a loss launch, optimizer steps of one

// A training curve without noise: nats per token after a share of the training.
double training_loss(double share) {
  return 2.3 + 3.2 * std::exp(-7 * share);
}

class Builder {
public:
  explicit Builder(const SyntheticPlan& plan) : plan_(plan), random_(plan.seed) {}

  LedgerData build() {
    data_.spec = {.hash = "",
                  .name = plan_.name,
                  .seed = plan_.seed,
                  .matrix_toml = "version = 1\n",
                  .plan_json = "",
                  .command = "assay run synthetic.toml",
                  .created_utc = "2026-11-21T00:00:00Z",
                  .launches = plan_.launches,
                  .alpha = 0.05,
                  .sesoi = plan_.sesoi,
                  .power = 0.8};
    data_.claims = plan_.claims;
    for (const SyntheticCell& cell : plan_.cells) add_cell(cell);
    for (std::size_t i = 0; i < plan_.cells.size(); ++i)
      for (int seed = 1; seed <= plan_.cells[i].loss_seeds; ++seed)
        add_loss(data_.cells[i].id, plan_.cells[i], seed);
    seal_plan(data_);
    return std::move(data_);
  }

private:
  double normal() { return normal_(random_); }
  double uniform() { return std::uniform_real_distribution<double>()(random_); }

  void add_cell(const SyntheticCell& cell) {
    const auto id = static_cast<std::int64_t>(data_.cells.size()) + 1;
    data_.cells.push_back({.id = id,
                           .name = cell.name,
                           .optimization = cell.optimization,
                           .unit = cell.unit,
                           .config_json = cell.config_json,
                           .rounds = plan_.rounds,
                           .visit_steps = 1,
                           .discard_steps = 0,
                           .traced_rounds = cell.traced_rounds,
                           .loss_seeds = cell.loss_seeds,
                           .loss_rounds = cell.loss_seeds > 0 ? kLossRounds : 0,
                           .loss_steps = cell.loss_seeds > 0 ? kLossSteps : 0,
                           .loss_margin = cell.loss_seeds > 0 ? cell.loss_margin : 0});
    add_optimization(cell);
    variants_.clear();
    for (std::size_t i = 0; i < cell.levels.size(); ++i)
      add_variant(id,
                  cell.levels[i].name,
                  cell.levels[i].name,
                  i == 0 ? Role::Reference : Role::Level,
                  cell);
    add_variant(
        id, std::string(to_string(Role::Control)), cell.levels.front().name, Role::Control, cell);
    for (int i = 0; i < cell.parity_launches; ++i) add_parity(id, cell, i);
    for (int i = 0; i < cell.timed_launches; ++i) add_timed(id, cell, i);
    for (int i = 0; i < cell.memory_launches; ++i) add_memory(id, cell, i);
    if (cell.traced_rounds > 0) {
      add_launch(id, LaunchKind::Traced, 0, cell.steady);
      data_.launches.back().rounds_planned = cell.traced_rounds;
    }
  }

  static std::string span_of(const SyntheticCell& cell, const std::string& level) {
    return cell.optimization + "/" + level;
  }

  void add_optimization(const SyntheticCell& cell) {
    for (const OptimizationRow& row : data_.optimizations)
      if (row.name == cell.optimization) return;
    OptimizationRow row{.name = cell.optimization,
                        .summary = cell.summary,
                        .equivalence = cell.equivalence,
                        .unit = cell.unit,
                        .scope = "visit",
                        .equality = "bit-equal",
                        .levels = {},
                        .also_compare = cell.also_compare,
                        .design = cell.design,
                        .contrasts = cell.contrasts};
    for (const SyntheticLevel& level : cell.levels)
      row.levels.push_back({level.name,
                            level.summary.empty() ? "level " + level.name : level.summary,
                            span_of(cell, level.name)});
    data_.optimizations.push_back(std::move(row));
  }

  void add_variant(std::int64_t cell,
                   const std::string& name,
                   const std::string& level,
                   Role role,
                   const SyntheticCell& from) {
    data_.variants.push_back({.id = static_cast<std::int64_t>(data_.variants.size()) + 1,
                              .cell = cell,
                              .name = name,
                              .level = level,
                              .role = role,
                              .config_json = from.config_json});
    variants_.push_back(data_.variants.back());
  }

  std::int64_t add_launch(std::int64_t cell, LaunchKind kind, int index, bool steady) {
    const auto id = static_cast<std::int64_t>(data_.launches.size()) + 1;
    data_.launches.push_back({.id = id,
                              .cell = cell,
                              .kind = kind,
                              .index = index + 1, // counted from 1, as the engine does
                              .attempt = 0,
                              .state = LaunchState::Complete,
                              .reason = "",
                              .started_utc = "2026-11-21T00:00:00Z",
                              .ended_utc = "2026-11-21T00:01:00Z",
                              .build_order = "fast slow control",
                              .rounds_planned = kind == LaunchKind::Timed ? plan_.rounds : 0,
                              .steady = steady,
                              .identity = plan_.identity});
    return id;
  }

  void
  add_metric(std::int64_t launch, std::int64_t variant, const std::string& path, double value) {
    data_.metrics.push_back({launch, variant, path, "", value, ""});
  }

  void add_parity(std::int64_t cell_id, const SyntheticCell& cell, int index) {
    const std::int64_t launch = add_launch(cell_id, LaunchKind::Parity, index, true);
    for (std::size_t i = 0; i < cell.levels.size(); ++i) {
      const SyntheticLevel& level = cell.levels[i];
      const std::int64_t variant = variants_[i].id;
      add_metric(launch,
                 variant,
                 "engaged/" + span_of(cell, (level.engaged ? level : cell.levels.front()).name),
                 1);
      add_metric(launch, variant, "ops/aten::mm", 24);
      add_metric(launch, variant, "ops/aten::copy_", i == 0 || level.same_work ? 8 : 2);
      add_metric(launch, variant, "copies/calls", i == 0 || level.same_work ? 0 : 2);
      if (i > 0)
        data_.gates.push_back({launch,
                               variant,
                               level.gate,
                               level.gate_passes,
                               level.gate_passes ? 0.0 : 0.25,
                               0,
                               "largest difference of a weight"});
    }
  }

  void add_memory(std::int64_t cell_id, const SyntheticCell& cell, int index) {
    const std::int64_t launch = add_launch(cell_id, LaunchKind::Memory, index, true);
    for (std::size_t i = 0; i < variants_.size(); ++i) {
      const double bytes =
          std::floor(kReferenceBytes * (i < cell.levels.size() ? cell.levels[i].memory_ratio : 1));
      add_metric(launch, variants_[i].id, "memory/peak_bytes", bytes);
      if (plan_.memory_parts) add_memory_parts(launch, variants_[i].id, cell, bytes);
    }
  }

  // A third of the reference lasts; the rest differs from level to level.
  void add_memory_parts(std::int64_t launch,
                        std::int64_t variant,
                        const SyntheticCell& cell,
                        double bytes) {
    const double weights = std::floor(kReferenceBytes / 12);
    const bool evaluates = cell.unit == "evaluation";
    const std::vector<std::tuple<const char*, const char*, double>> parts{
        {"weights", "layers.0.feed_forward", weights},
        {"optimizer", "layers.0.feed_forward", 2 * weights},
        {"ema", "layers.0.feed_forward", weights},
        {evaluates ? "ema_swap" : "saved_for_backward",
         evaluates ? "" : "layers.0.feed_forward",
         bytes - 4 * weights}};
    for (const auto& [phase, module, part] : parts)
      add_metric(launch, variant, memory_part_metric(phase, module), part);
    add_memory_curve(launch, variant, bytes, 4 * weights);
  }

  // What does not last grows through the forward pass and shrinks through the backward pass.
  void add_memory_curve(std::int64_t launch, std::int64_t variant, double bytes, double lasting) {
    constexpr std::int64_t kSteps = 20, kNs = 1'000'000;
    nlohmann::json ns = nlohmann::json::array(), used = nlohmann::json::array();
    for (std::int64_t i = 0; i <= 2 * kSteps; ++i) {
      const double share = 1 - std::abs(static_cast<double>(i - kSteps)) / kSteps;
      ns.push_back(i * kNs);
      used.push_back(std::llround(lasting + share * (bytes - lasting)));
    }
    add_metric(launch, variant, std::string(kMemoryCurveMetric), bytes);
    data_.metrics.back().detail = nlohmann::json{{"ns", ns},
                                                 {"bytes", used},
                                                 {"stages",
                                                  {{"forward", 0, kSteps * kNs},
                                                   {"backward", kSteps * kNs, 2 * kSteps * kNs}}}}
                                      .dump();
  }

  void add_failed_attempt(std::int64_t cell_id, const SyntheticCell& cell, int index) {
    add_launch(cell_id, LaunchKind::Timed, index, false);
    data_.launches.back().state = LaunchState::Failed;
    data_.launches.back().reason = cell.failed_attempt;
  }

  void add_timed(std::int64_t cell_id, const SyntheticCell& cell, int index) {
    const bool failed = index == 1 && !cell.failed_attempt.empty();
    if (failed) add_failed_attempt(cell_id, cell, index);
    const std::int64_t launch = add_launch(cell_id, LaunchKind::Timed, index, cell.steady);
    if (failed) data_.launches.back().attempt = 1;
    if (cell.unit == "evaluation") add_metric(launch, 0, "time/step_ns", 2 * cell.unit_ns);
    std::vector<double> contrast, share;
    for (std::size_t i = 0; i < variants_.size(); ++i) {
      const bool control = i == cell.levels.size();
      contrast.push_back((control ? cell.control_effect : cell.levels[i].effect) +
                         (i == 0 ? 0 : cell.launch_sd.value_or(plan_.launch_sd) * normal()));
      share.push_back(cell.disturbed_share + (i == 0 ? 0 : cell.disturbed_b_share));
    }
    double drift = 0.05 * normal();
    std::vector<std::size_t> order(variants_.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    for (int round = -3; round < plan_.rounds; ++round) {
      std::shuffle(order.begin(), order.end(), random_);
      for (std::size_t position = 0; position < order.size(); ++position) {
        const std::size_t i = order[position];
        drift += 0.002 * normal();
        if (is_retired(cell, i, launch, index, round)) continue;
        add_visit(
            launch, i, round, static_cast<int>(position), cell, drift + contrast[i], share[i]);
      }
    }
  }

  // From round 5 of its bad launch on, and in later launches, the level is gone.
  bool
  is_retired(const SyntheticCell& cell, std::size_t i, std::int64_t launch, int index, int round) {
    if (i >= cell.levels.size() || cell.levels[i].nan_in_launch < 0 ||
        index < cell.levels[i].nan_in_launch)
      return false;
    if (index == cell.levels[i].nan_in_launch && round < 5) return false;
    if (index == cell.levels[i].nan_in_launch && round == 5)
      data_.events.push_back({launch,
                              round,
                              "2026-11-21T00:00:30Z",
                              "retired",
                              "loss of variant '" + cell.levels[i].name + "' is nan in round 5",
                              variants_[i].id,
                              kCauseLoss});
    return true;
  }

  // Seeds differ more from each other than levels do. A level that loses its loss is retired, and
  // the seed is trained again without it.
  void add_loss(std::int64_t cell_id, const SyntheticCell& cell, int seed) {
    const bool lost = std::any_of(cell.levels.begin(), cell.levels.end(), [&](const auto& level) {
      return level.nan_in_seed == seed;
    });
    if (lost) add_loss_launch(cell_id, cell, seed, true);
    add_loss_launch(cell_id, cell, seed, false);
  }

  void add_loss_launch(std::int64_t cell_id, const SyntheticCell& cell, int seed, bool ends) {
    const std::int64_t launch = add_launch(cell_id, LaunchKind::Loss, seed - 1, true);
    data_.launches.back().rounds_planned = kLossRounds;
    const std::vector<std::int64_t> variants = level_variants(cell_id);
    // Of its own, so that a cell's times do not depend on its loss launches.
    std::mt19937_64 random(plan_.seed * 1000 + static_cast<std::uint64_t>(10 * cell_id + seed));
    normal_.reset();
    const double common = 0.05 * normal_(random);
    std::vector<double> shift;
    for (const SyntheticLevel& level : cell.levels)
      shift.push_back(common + level.loss_shift + level.loss_sd * normal_(random));
    const int rounds = ends ? kLossRounds / 3 : kLossRounds;
    for (int round = 0; round < rounds; ++round) {
      const double share = (round + 0.5) / kLossRounds;
      const double batch = 0.04 * normal_(random); // the same batches for every variant
      for (std::size_t i = 0; i < cell.levels.size(); ++i) {
        const int gone = cell.levels[i].nan_in_seed;
        if (gone != 0 && gone <= seed && !(ends && gone == seed)) continue;
        add_loss_visit(launch,
                       variants[i],
                       round,
                       static_cast<int>(i),
                       training_loss(share) + batch + share * shift[i]);
      }
    }
    for (std::size_t i = 0; i < cell.levels.size(); ++i)
      if (ends && cell.levels[i].nan_in_seed == seed)
        retire_for_loss(launch, variants[i], cell.levels[i].name, rounds, seed);
  }

  std::vector<std::int64_t> level_variants(std::int64_t cell) const {
    std::vector<std::int64_t> ids;
    for (const VariantRow& variant : data_.variants)
      if (variant.cell == cell && variant.role != Role::Control) ids.push_back(variant.id);
    return ids;
  }

  void retire_for_loss(
      std::int64_t launch, std::int64_t variant, const std::string& name, int round, int seed) {
    const std::string why = fmt::format(
        "loss of variant '{0}' is nan in round {1}, at step {2} of training with seed {3}",
        name,
        round,
        round * kLossSteps + 1,
        seed);
    data_.events.push_back(
        {launch, round, "2026-11-21T00:00:30Z", "retired", name + ": " + why, variant, kCauseLoss});
    data_.launches.back().state = LaunchState::Failed;
    data_.launches.back().reason = fmt::format("variant '{}' was retired: {}", name, why);
  }

  void
  add_loss_visit(std::int64_t launch, std::int64_t variant, int round, int position, double loss) {
    VisitRow visit;
    visit.id = static_cast<std::int64_t>(data_.visits.size()) + 1;
    visit.launch = launch;
    visit.variant = variant;
    visit.round = round;
    visit.position = position;
    visit.steps = kLossSteps;
    visit.wall_ns = 150'000'000;
    visit.tokens = 2560;
    visit.loss = loss;
    visit.sample_ns.assign(kLossSteps, visit.wall_ns / kLossSteps);
    data_.visits.push_back(std::move(visit));
  }

  void add_visit(std::int64_t launch,
                 std::size_t variant,
                 int round,
                 int position,
                 const SyntheticCell& cell,
                 double log_time,
                 double disturbed) {
    VisitRow visit;
    visit.id = static_cast<std::int64_t>(data_.visits.size()) + 1;
    visit.launch = launch;
    visit.variant = variants_[variant].id;
    visit.warmup = round < 0;
    visit.round = round + 3; // three warm-up rounds come first
    visit.position = position;
    visit.steps = 1;
    double noise = cell.noise.value_or(plan_.noise) * normal();
    if (uniform() < plan_.tail_share) noise += plan_.tail_size * uniform();
    visit.wall_ns = std::llround(cell.unit_ns * std::exp(log_time + noise));
    if (cell.device_times)
      visit.device_ns = std::llround(0.8 * cell.unit_ns * std::exp(log_time + 0.1 * noise));
    visit.tokens = 256;
    visit.loss = 3.5;
    visit.covariates.steal_share = uniform() < disturbed ? 0.25 : 0.0;
    visit.covariates.run_delay_share = 0.01;
    visit.covariates.load1 = 1.2;
    visit.sample_ns = {visit.wall_ns};
    data_.visits.push_back(std::move(visit));
  }

  const SyntheticPlan& plan_;
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
  LedgerData data_;
  std::vector<VariantRow> variants_; // of the cell being built
};

} // namespace

Identity synthetic_identity() {
  return {.build = "b1d0",
          .libtorch = "2.11.0",
          .cuda = "",
          .driver = "",
          .gpu = "",
          .gpu_uuid = "",
          .host = "synthetic",
          .boot = "boot-1",
          .cpu = "2-core test CPU",
          .kernel = "6.1",
          .cores = 2,
          .threads = 2,
          .environment = "OMP_NUM_THREADS=2\n"};
}

LedgerData synthetic_ledger(const SyntheticPlan& plan) {
  return Builder(plan).build();
}

void store(const LedgerData& data, const std::string& directory) {
  LedgerData plan = data;
  plan.launches.clear();
  seal_plan(plan);
  const std::unique_ptr<Ledger> ledger = Ledger::open(directory, plan);
  std::map<std::int64_t, std::vector<VisitRow>> visits;
  std::map<std::int64_t, std::vector<EventRow>> events;
  for (const VisitRow& visit : data.visits) visits[visit.launch].push_back(visit);
  for (const EventRow& event : data.events) events[event.launch].push_back(event);
  for (const LaunchRow& launch : data.launches) {
    const std::int64_t id = ledger->start_launch(launch);
    if (id != launch.id) internal_error("synthetic launch {} became {}", launch.id, id);
    ledger->commit_round(visits[id], events[id]);
  }
  ledger->add(data.metrics, data.gates, {});
  ledger->add(data.calibrations);
  ledger->finish();
}

} // namespace assay::synthetic
