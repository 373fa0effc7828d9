#include "experiments/engine/launch_requests.h"

#include "core/ledger/launch_rules.h"
#include "core/ledger/stored_config.h"
#include "experiments/evidence/cell_view.h"
#include "experiments/evidence/loss/loss.h"

namespace assay {

using nlohmann::json;

namespace {

int loss_steps(const LedgerData& data, const CellRow& cell, const VariantRow& variant) {
  const StepCostRow* baseline = data.cost(variants_of(data, cell.id).front()->id);
  return loss_visit_steps(cell, baseline, data.cost(variant.id));
}

// Timed and loss launches have initial weights and documents of their own, so that an interval over
// launches includes the variation of data. A loss launch ends with its schedule, so that its last
// losses are those of a finished training.
std::string
launch_config(const LedgerData& data, const VariantRow& variant, const LaunchTask& task) {
  if (task.kind != LaunchKind::Timed && task.kind != LaunchKind::Loss) return variant.config_json;
  const CellRow& cell = data.cell(task.cell);
  json config = stored_config(variant.config_json);
  config["seed"] = launch_seed(config.at("seed").get<std::uint64_t>(), task.index);
  if (task.kind == LaunchKind::Loss)
    config["steps"] = cell.loss_rounds * loss_steps(data, cell, variant);
  return config.dump();
}

LaunchVariant participant(const VariantRow& v) {
  return {v.id, v.name, v.level, v.role, v.config_json, v.environment, v.worker};
}

// The variants of a launch. Only times, memory and energy are measured against a second copy of the
// reference.
std::vector<LaunchVariant> participants(const LedgerData& data, const LaunchTask& task) {
  const auto excluded = excluded_variants(data, task.cell, task.kind);
  std::vector<LaunchVariant> result;
  for (const VariantRow* v : variants_of(data, task.cell)) {
    if (excluded.contains(v->id)) continue;
    if (v->role == Role::Control && task.kind != LaunchKind::Timed &&
        task.kind != LaunchKind::Memory && task.kind != LaunchKind::Energy)
      continue;
    LaunchVariant& added = result.emplace_back(participant(*v));
    added.config_json = launch_config(data, *v, task);
  }
  return result;
}

// What every launch of a cell has; seed and variants are the launch's own. What is expected of the
// variants is said where no row of the registry says it.
LaunchRequest request_of_cell(const LedgerData& data, const CellRow& cell, std::string_view kind) {
  const OptimizationRow* row = optimization_of(data, cell);
  LaunchRequest request;
  request.kind = kind;
  request.unit = cell.unit;
  request.optimization = cell.optimization;
  request.expect = compares_keys(row) ? row->equivalence : "";
  request.visit_steps = cell.visit_steps;
  request.discard_steps = cell.discard_steps;
  return request;
}

} // namespace

LaunchRequest
launch_request_of(const LedgerData& data, const Schedule& schedule, const LaunchTask& task) {
  const CellRow& cell = data.cell(task.cell);
  LaunchRequest request = request_of_cell(data, cell, to_string(task.kind));
  request.seed = schedule.launch_seed(cell.name, request.kind, task.index, task.attempt);
  if (task.kind == LaunchKind::Loss) { // it trains, whatever the cell times
    if (!by_token(cell)) request.unit = "train_step";
    request.visit_steps = cell.loss_steps;
    request.discard_steps = 0;
  }
  if (task.kind == LaunchKind::Energy) request.kind = to_string(LaunchKind::Timed); // to a worker
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
  LaunchRequest request = request_of_cell(data, cell, kind);
  request.seed = data.spec.seed;
  request.variants = {participant(*variants_of(data, cell.id).front())};
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
