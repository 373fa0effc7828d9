#include "tests/ui/small_ledger.h"

#include <cmath>
#include <map>
#include <random>

#include "core/ledger/plan_json.h"

namespace assay {
namespace {

constexpr int kRounds = 24, kWarmup = 3;

void add_cell(LedgerData& data,
              const std::string& name,
              const std::vector<std::string>& levels,
              const std::string& unit) {
  const auto cell = static_cast<std::int64_t>(data.cells.size() + 1);
  const std::string config = R"({"eval_interval":100})";
  data.cells.push_back({cell, name, name, unit, config, kRounds, 1, 0});
  OptimizationRow row{name, "summary of " + name, "bitwise", unit, "visit", "equal", {}, {}};
  for (const std::string& level : levels) {
    row.levels.push_back({level, "the level " + level, name + "/" + level});
    data.variants.push_back({static_cast<std::int64_t>(data.variants.size() + 1),
                             cell,
                             level,
                             level,
                             level == levels[0] ? Role::Reference : Role::Level,
                             config});
  }
  data.variants.push_back({static_cast<std::int64_t>(data.variants.size() + 1),
                           cell,
                           "control",
                           levels[0],
                           Role::Control,
                           config});
  data.optimizations.push_back(row);
}

Identity identity() {
  Identity who;
  who.build = "0a1b2c3d4e5f";
  who.libtorch = "2.11.0";
  who.host = "testhost";
  who.boot = "b0";
  who.cpu = "AMD EPYC 9B14";
  who.kernel = "Linux 6.1";
  who.cores = who.threads = 2;
  return who;
}

LaunchRow& add_launch(LedgerData& data, std::int64_t cell, LaunchKind kind, int index) {
  LaunchRow launch;
  launch.id = static_cast<std::int64_t>(data.launches.size() + 1);
  launch.cell = cell;
  launch.kind = kind;
  launch.index = index;
  launch.state = LaunchState::Complete;
  launch.started_utc = launch.ended_utc = "2026-01-01T00:00:00Z";
  launch.rounds_planned = kind == LaunchKind::Timed ? kRounds : 0;
  launch.identity = identity();
  data.launches.push_back(launch);
  return data.launches.back();
}

void add_parity(LedgerData& data, std::int64_t cell, bool passes) {
  const std::int64_t launch = add_launch(data, cell, LaunchKind::Parity, 0).id;
  for (const VariantRow& variant : data.variants) {
    if (variant.cell != cell || variant.role == Role::Control) continue;
    const std::string span =
        data.optimizations[static_cast<std::size_t>(cell - 1)].name + "/" + variant.level;
    data.metrics.push_back({launch, variant.id, "engaged/" + span, "count", 4, ""});
    if (variant.role == Role::Level)
      data.gates.push_back({launch,
                            variant.id,
                            "bitwise/weights",
                            passes,
                            passes ? 0.0 : 0.25,
                            0,
                            passes ? "" : "first in h.0"});
  }
}

void add_memory(LedgerData& data, std::int64_t cell) {
  for (int index = 0; index < 3; ++index) {
    const std::int64_t launch = add_launch(data, cell, LaunchKind::Memory, index).id;
    for (const VariantRow& variant : data.variants)
      if (variant.cell == cell)
        data.metrics.push_back({launch,
                                variant.id,
                                "memory/peak_bytes",
                                "bytes",
                                variant.role == Role::Level ? 80e6 : 100e6,
                                ""});
  }
}

void add_timed(LedgerData& data, std::int64_t cell, int index, double theta, std::mt19937& random) {
  const std::int64_t launch = add_launch(data, cell, LaunchKind::Timed, index).id;
  std::normal_distribution<double> noise(0, 0.01);
  for (int round = 0; round < kRounds + kWarmup; ++round) {
    int position = 0;
    for (const VariantRow& variant : data.variants) {
      if (variant.cell != cell) continue;
      VisitRow visit;
      visit.id = static_cast<std::int64_t>(data.visits.size() + 1);
      visit.launch = launch;
      visit.variant = variant.id;
      visit.round = round;
      visit.position = position++;
      visit.warmup = round < kWarmup;
      visit.steps = 1;
      visit.tokens = 1024;
      visit.wall_ns =
          std::llround(20e6 * std::exp((variant.role == Role::Level ? theta : 0) + noise(random)));
      visit.sample_ns = {visit.wall_ns};
      visit.covariates.load1 = 1.0;
      data.visits.push_back(visit);
    }
  }
}

} // namespace

LedgerData planned_only() {
  LedgerData data;
  data.spec = {"00112233445566aa",
               "small plan",
               7,
               "# matrix",
               "{}",
               "assay run small.toml --out results/small",
               "2026-01-01T00:00:00Z",
               5,
               0.05,
               0.01,
               0.8};
  add_cell(data, "varlen", {"mask_dense", "varlen"}, "train_step");
  add_cell(data, "bf16_guard", {"always", "if_needed"}, "train_step");
  ClaimRow claim;
  claim.id = "varlen-throughput";
  claim.optimization = "varlen";
  claim.from = "mask_dense";
  claim.to = "varlen";
  claim.text = "10-15 % more tokens a second";
  claim.source = "seed 3";
  claim.metric = "throughput";
  claim.lo = 0.10;
  claim.hi = 0.15;
  claim.conditions = "documents of very different length";
  claim.requires_json = "{}";
  data.claims.push_back(claim);
  return data;
}

LedgerData finished(const SmallPlan& plan) {
  LedgerData data = planned_only();
  data.spec.launches = plan.launches;
  std::mt19937 random(3);
  const std::map<std::int64_t, double> thetas{{1, plan.varlen}, {2, plan.guard}};
  for (const auto& [cell, theta] : thetas) {
    add_parity(data, cell, plan.parity_passes || cell != 1);
    add_memory(data, cell);
    for (int index = 0; index < plan.launches; ++index) add_timed(data, cell, index, theta, random);
  }
  return data;
}

void store(const LedgerData& data, const std::string& directory) {
  LedgerData plan = data;
  plan.launches.clear();
  seal_plan(plan);
  const auto ledger = Ledger::open(directory, plan);
  for (const LaunchRow& launch : data.launches) {
    const std::int64_t id = ledger->start_launch(launch);
    ledger->set_identity(id, launch.identity, "");
    std::map<int, std::vector<VisitRow>> rounds;
    for (VisitRow visit : data.visits)
      if (visit.launch == launch.id) {
        visit.launch = id;
        rounds[visit.round].push_back(visit);
      }
    for (const auto& [round, visits] : rounds) ledger->commit_round(visits, {});
    std::vector<MetricRow> metrics;
    std::vector<GateRow> gates;
    for (MetricRow metric : data.metrics)
      if (metric.launch == launch.id) metric.launch = id, metrics.push_back(metric);
    for (GateRow gate : data.gates)
      if (gate.launch == launch.id) gate.launch = id, gates.push_back(gate);
    ledger->add(metrics, gates, {});
    ledger->end_launch(id, launch.state, launch.reason, launch.steady);
  }
  ledger->finish();
}

} // namespace assay
