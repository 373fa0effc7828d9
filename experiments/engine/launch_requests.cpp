#include "experiments/engine/launch_requests.h"

#include "core/ledger/launch_rules.h"
#include "core/ledger/stored_config.h"
#include "experiments/evidence/loss/loss.h"

namespace assay {

using nlohmann::json;

namespace {

// Timed and loss launches have initial weights and documents of their own, so that an interval over
// launches includes the variation of data. A loss launch ends with its schedule, so that its last
// losses are those of a finished training.
std::string
launch_config(const std::string& config_json, const CellRow& cell, const LaunchTask& task) {
  if (task.kind != LaunchKind::Timed && task.kind != LaunchKind::Loss) return config_json;
  json config = stored_config(config_json);
  config["seed"] = launch_seed(config.at("seed").get<std::uint64_t>(), task.index);
  if (task.kind == LaunchKind::Loss) config["steps"] = loss_training_steps(cell);
  return config.dump();
}

// The variants of a launch. Only times and memory are measured against a second copy of the
// reference.
std::vector<LaunchVariant> participants(const LedgerData& data, const LaunchTask& task) {
  const auto excluded = excluded_variants(data, task.cell, task.kind);
  std::vector<LaunchVariant> result;
  for (const VariantRow* v : variants_of(data, task.cell)) {
    if (excluded.contains(v->id)) continue;
    if (v->role == Role::Control && task.kind != LaunchKind::Timed &&
        task.kind != LaunchKind::Memory)
      continue;
    result.push_back({v->id,
                      v->name,
                      v->level,
                      v->role,
                      launch_config(v->config_json, data.cell(task.cell), task),
                      v->environment,
                      v->worker});
  }
  return result;
}

// What is expected of a cell's variants; "" where a row of the table says so.
std::string expected_of_keys(const LedgerData& data, const CellRow& cell) {
  for (const OptimizationRow& row : data.optimizations)
    if (row.name == cell.optimization && row.scope == kScopeOfKeys) return row.equivalence;
  return "";
}

} // namespace

LaunchRequest
launch_request_of(const LedgerData& data, const Schedule& schedule, const LaunchTask& task) {
  const CellRow& cell = data.cell(task.cell);
  LaunchRequest request;
  request.kind = to_string(task.kind);
  request.seed = schedule.launch_seed(cell.name, request.kind, task.index, task.attempt);
  request.unit = cell.unit;
  request.optimization = cell.optimization;
  request.expect = expected_of_keys(data, cell);
  request.visit_steps = cell.visit_steps;
  request.discard_steps = cell.discard_steps;
  if (task.kind == LaunchKind::Loss) { // it trains, whatever the cell times
    request.unit = "train_step";
    request.visit_steps = cell.loss_steps;
    request.discard_steps = 0;
  }
  request.variants = participants(data, task);
  request.build_order = schedule.build_order(cell.name, task.index, request.variants.size());
  return request;
}

LaunchRequest
request_of_variant(const LedgerData& data, const LaunchRequest& all, std::size_t variant) {
  LaunchRequest own = all;
  own.variants = {all.variants[variant]};
  own.build_order.clear();
  const StepCostRow *baseline = data.cost(all.variants.front().id),
                    *cost = data.cost(own.variants.front().id);
  if (all.unit == "token" && baseline != nullptr && cost != nullptr)
    own.visit_steps =
        all.discard_steps +
        steps_of_equal_tokens(baseline->tokens, cost->tokens, all.visit_steps - all.discard_steps);
  return own;
}

LaunchRequest
reference_request(const LedgerData& data, const CellRow& cell, std::string_view kind) {
  const VariantRow& reference = *variants_of(data, cell.id).front();
  LaunchRequest request;
  request.kind = kind;
  request.seed = data.spec.seed;
  request.unit = cell.unit;
  request.optimization = cell.optimization;
  request.expect = expected_of_keys(data, cell);
  request.visit_steps = cell.visit_steps;
  request.discard_steps = cell.discard_steps;
  request.variants = {{reference.id,
                       reference.name,
                       reference.level,
                       reference.role,
                       reference.config_json,
                       reference.environment,
                       reference.worker}};
  return request;
}

std::unique_ptr<WorkerProcess>
start_worker(const RunOptions& options, const LaunchVariant& variant, const std::string& log) {
  return std::make_unique<WorkerProcess>(variant.worker.empty() ? options.worker_path
                                                                : variant.worker,
                                         options.worker_arguments,
                                         log,
                                         variant.environment);
}

} // namespace assay
