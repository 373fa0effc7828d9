#include "experiments/plan/matrix/key_comparison.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "core/lines.h"
#include "core/text.h"
#include "model/config/key_variants.h"

namespace assay {

namespace {

using nlohmann::json;

// "lr = 0.001, NCCL_ALGO=Tree, worker builds/1f3c/assay-worker".
std::string summary_of(const MatrixVariant& variant) {
  std::vector<std::string> parts;
  for (const ConfigValue& value : variant.set)
    parts.push_back(fmt::format("{} = {}", value.key, value.value.dump()));
  for (const std::string& line : lines_of(variant.environment)) parts.push_back(line);
  if (!variant.worker.empty()) parts.push_back("worker " + variant.worker);
  return parts.empty() ? "as the cell" : fmt::format("{}", fmt::join(parts, ", "));
}

Level level_of(const MatrixVariant& variant) {
  const auto apply = [set = variant.set](TrainConfig& config) {
    for (const ConfigValue& value : set)
      (void)value_or_throw(set_key(config, value.key, value.value));
  };
  Level level{variant.name, summary_of(variant), apply, ""};
  for (const ConfigValue& value : variant.set) level.keys.insert(value.key);
  return level;
}

bool times_loader(const MatrixCell& cell) {
  const Optimization* row = optimizations().find(cell.optimization);
  return (row != nullptr ? row->unit : cell.unit.value_or(Unit::TrainStep)) == Unit::PipelineStep;
}

// Of `keys`, those that variants of the cell cannot have within one process.
std::set<std::string> keys_of_process(const MatrixCell& cell, const std::set<std::string>& keys) {
  std::set<std::string> found = process_keys(keys);
  if (times_loader(cell))
    for (const std::string& key : loader_keys(keys)) found.erase(key);
  return found;
}

bool same_process(const MatrixVariant* a, const MatrixVariant* b) {
  return a == nullptr || b == nullptr ||
         (a->environment == b->environment && a->worker == b->worker);
}

std::string wrong_key(const MatrixCell& cell, const std::string& key, const std::string& message) {
  return fmt::format("{}: cell '{}': {}", cell.place({key}), printable(cell.name), message);
}

// One side of a claim about keys, as a JSON object of the values that a plan stores.
json read_key_set(const toml::node& node,
                  const std::string& path,
                  bool testable,
                  TomlProblems& problems) {
  TomlTable side(*node.as_table(), path, problems);
  side.required("set");
  const toml::table* set = side.table("set");
  side.no_other_keys();
  json values = json::object();
  if (set == nullptr) return values;
  if (set->empty()) problems.add(&node, fmt::format("{} names no key", path));
  for (const auto& [name, value] : *set) {
    const std::string key(name.str());
    values[key] = toml_to_json(value);
    if (!testable) continue; // the names of what this build lacks are free
    TrainConfig scratch;
    if (const Result<bool> ok = set_key(scratch, key, values[key]); !ok)
      problems.add(&value, fmt::format("{}: {}", path, ok.error().message));
    else if (!same_keys({key}).empty())
      problems.add(&value,
                   fmt::format("{}: no cell compares values of '{}': they cannot differ between "
                               "variants; state that in `unmet`",
                               path,
                               key));
    else
      values[key] = to_json(scratch)[key];
  }
  return values;
}

void check_key_sets(TomlTable& table, const json& from, const json& to) {
  const auto add = [&](const std::string& key, const char* what) {
    table.problems().add(table.node("to"),
                         fmt::format("{} key '{}' {}", table.path(), printable(key), what));
  };
  for (const auto& [key, value] : from.items())
    if (!to.contains(key))
      add(key, "is in `from` alone; name its value in `to` as well");
    else if (to[key] == value)
      add(key, "has one value in `from` and `to`; a condition goes into `requires`");
  for (const auto& [key, value] : to.items())
    if (!from.contains(key)) add(key, "is in `to` alone; name its value in `from` as well");
}

std::vector<std::string> names_of(const std::vector<MatrixVariant>& sides) {
  std::vector<std::string> names;
  for (const MatrixVariant& side : sides) names.push_back(side.name);
  return names;
}

Optimization row_for(const MatrixCell& cell, std::vector<Level> levels) {
  return key_row(cell.name,
                 cell.expect.value_or(Equivalence::Objective),
                 cell.unit.value_or(Unit::TrainStep),
                 std::move(levels));
}

// What two steps both set has no value where both are on.
std::vector<std::string> shared_keys(const MatrixCell& cell) {
  std::vector<std::string> problems;
  std::map<std::string, std::string> set_by;
  for (const MatrixVariant& step : cell.steps)
    for (const ConfigValue& value : step.set)
      if (const auto [first, added] = set_by.try_emplace(value.key, step.name); !added)
        problems.push_back(
            fmt::format("{}: cell '{}': the steps '{}' and '{}' both set '{}'; a variant with both "
                        "needs one value, so make them one step",
                        value.where,
                        printable(cell.name),
                        printable(first->second),
                        printable(step.name),
                        value.key));
  return problems;
}

// Of a cell without mistakes in its names.
Optimization row_of_design(const MatrixCell& cell) {
  const DesignPlan plan = plan_design(*cell.design, names_of(cell.steps));
  std::vector<Level> levels;
  for (const DesignVariant& variant : plan.variants) {
    std::vector<ConfigValue> set;
    for (const std::size_t step : variant.steps)
      set.insert(set.end(), cell.steps[step].set.begin(), cell.steps[step].set.end());
    levels.push_back(level_of({variant.name, std::move(set), cell.where}));
  }
  Optimization row = row_for(cell, std::move(levels));
  row.summary =
      fmt::format("{} of {}", to_string(*cell.design), fmt::join(names_of(cell.steps), ", "));
  row.design = cell.design;
  row.contrasts = plan.contrasts;
  for (const auto& [from, to] : plan.pairs)
    row.also_compare.emplace_back(plan.variants[from].name, plan.variants[to].name);
  return row;
}

// Two sides of the cell, and what the file calls their difference.
struct Difference {
  const Draft *from, *to;
  std::string place, name; // "steps/amp", "step 'amp'"
};

std::vector<Difference> differences_of(const MatrixCell& cell, const std::vector<Draft>& all) {
  std::vector<Difference> found;
  if (!cell.design) {
    for (auto draft = all.begin() + 1; draft != all.end(); ++draft)
      found.push_back({&all.front(),
                       &*draft,
                       "variants/" + draft->level->name,
                       fmt::format("variant '{}'", printable(draft->level->name))});
    return found;
  }
  // One pair for each step: the first whose sides differ by that step alone.
  const DesignPlan plan = plan_design(*cell.design, names_of(cell.steps));
  std::set<std::size_t> seen;
  for (const auto& [from, to] : plan.pairs) {
    std::vector<std::size_t> added;
    std::ranges::set_difference(
        plan.variants[to].steps, plan.variants[from].steps, std::back_inserter(added));
    if (added.size() != 1 || !seen.insert(added.front()).second) continue;
    const std::string& name = cell.steps[added.front()].name;
    found.push_back(
        {&all[from], &all[to], "steps/" + name, fmt::format("step '{}'", printable(name))});
  }
  return found;
}

} // namespace

Result<Optimization> row_of_variants(const MatrixCell& cell) {
  std::vector<std::string> problems;
  if (cell.design) problems = shared_keys(cell);
  if (optimizations().find(cell.name) != nullptr)
    problems.push_back(
        wrong_key(cell, "name", "an optimization has this name; give the comparison another one"));
  std::vector<Level> levels;
  for (const MatrixVariant& variant : cell.variants) levels.push_back(level_of(variant));
  if (!cell.design && !cell.reference.empty()) {
    const auto reference = std::ranges::find(levels, cell.reference, &Level::name);
    const std::vector<std::string> names = names_of(cell.variants);
    if (reference == levels.end())
      problems.push_back(wrong_key(cell,
                                   "reference",
                                   fmt::format("no variant is named '{}'{}; it has: {}",
                                               printable(cell.reference),
                                               did_you_mean(cell.reference, names),
                                               fmt::join(names, ", "))));
    else
      std::rotate(levels.begin(), reference, reference + 1);
  }
  if (!problems.empty()) return fail("{}", fmt::join(problems, "\n"));
  return cell.design ? row_of_design(cell) : row_for(cell, std::move(levels));
}

const MatrixVariant* variant_of(const MatrixCell& cell, const Draft& draft) {
  const auto found = std::ranges::find(cell.variants, draft.level->name, &MatrixVariant::name);
  return found == cell.variants.end() ? nullptr : &*found;
}

std::string why_own_processes(const MatrixCell& cell, const std::vector<Draft>& all) {
  const Draft& baseline = all.front();
  for (auto draft = all.begin() + 1; draft != all.end(); ++draft) {
    const std::set<std::string> keys =
        keys_of_process(cell, differing_keys(baseline.config, draft->config));
    if (!keys.empty())
      return fmt::format(
          "'{}' sets another value of {}", draft->level->name, fmt::join(keys, " and "));
    const MatrixVariant *a = variant_of(cell, baseline), *b = variant_of(cell, *draft);
    if (!same_process(a, b))
      return fmt::format("'{}' {} than '{}'",
                         draft->level->name,
                         a->worker != b->worker ? "runs another worker" : "has another environment",
                         baseline.level->name);
  }
  return "";
}

// Keys that change nothing where both sides meet a condition.
struct IdleKeys {
  std::set<std::string> keys;
  bool (*idle)(const TrainConfig&);
  const char* reason;
};

const std::array<IdleKeys, 10> kIdleKeys{
    {{{"planted_document_ms", "prefetch_batches", "tokenizer_threads"},
      [](const TrainConfig& c) { return c.data_source == TokenSource::Synthetic; },
      "nothing is loaded where data_source = synthetic"},
     {{"batch_copy"},
      [](const TrainConfig& c) { return c.device == Device::Cpu; },
      "a CPU copies no batch"},
     {{"muon_form", "muon_lr", "muon_momentum"},
      [](const TrainConfig& c) { return c.optimizer != OptimizerKind::Muon; },
      "optimizer is not muon"},
     {{"init_scale", "scale_growth_interval"},
      [](const TrainConfig& c) { return c.grad_scaler == GradScaler::Off; },
      "grad_scaler is off"},
     {{"fp8_layers", "fp8_scaling"},
      [](const TrainConfig& c) { return c.precision != Precision::Fp8; },
      "precision is not fp8"},
     {{"qk_conv", "routing", "value_shift"},
      [](const TrainConfig& c) { return c.recursions == 0; }, // of other families
      "the family is not hydra"},
     {{"routing"},
      [](const TrainConfig& c) { return c.recursions <= 1 && c.mod_percent >= 100; },
      "every token takes one pass"},
     {{"ddp_bucket_mib"},
      [](const TrainConfig& c) { return c.sharding != Sharding::None; },
      "shares have no buckets"},
     {{"package"},
      [](const TrainConfig& c) { return c.eval_forward == EvalForward::Eager; },
      "eval_forward is eager"},
     {{"balance_rate", "expert_form"},
      [](const TrainConfig& c) { return c.experts == 0; },
      "the model has no mixture of experts"}}};

// Why none of the keys changes anything that runs; "" where one of them does.
std::string why_idle(const Difference& difference, const std::set<std::string>& keys) {
  std::set<std::string> idle;
  std::vector<std::string> reasons;
  for (const IdleKeys& row : kIdleKeys) {
    if (!row.idle(difference.from->config) || !row.idle(difference.to->config)) continue;
    if (std::ranges::none_of(row.keys, [&](const std::string& key) { return keys.contains(key); }))
      continue;
    idle.insert(row.keys.begin(), row.keys.end());
    reasons.emplace_back(row.reason);
  }
  return std::ranges::includes(idle, keys) ? fmt::format("{}", fmt::join(reasons, ", ")) : "";
}

std::vector<std::string>
wrong_variants(const MatrixCell& cell, const std::vector<Draft>& all, bool twin) {
  std::vector<std::string> problems;
  if (!cell.variants.empty() &&
      std::ranges::none_of(cell.variants, &std::string::empty, &MatrixVariant::worker))
    problems.push_back(wrong_key(cell,
                                 "variants",
                                 "every variant has a `worker` of its own; one at least runs this "
                                 "build's, so leave it out there"));
  for (const Difference& difference : differences_of(cell, all)) {
    const auto refuse = [&](const std::string& message) {
      problems.push_back(wrong_key(cell, difference.place, difference.name + ": " + message));
    };
    const std::set<std::string> keys =
        differing_keys(difference.from->config, difference.to->config);
    const bool own_process =
        !same_process(variant_of(cell, *difference.from), variant_of(cell, *difference.to));
    if (keys.empty() && !own_process)
      refuse(cell.design ? "changes nothing; give it another key or value"
                         : fmt::format("trains exactly as the baseline '{}' does; give it another "
                                       "key, or `env` or `worker`",
                                       difference.from->level->name));
    const std::set<std::string> same = same_keys(keys);
    std::set<std::string> one = keys_of_process(cell, keys);
    for (const std::string& key : same) one.erase(key);
    if (!same.empty())
      refuse(fmt::format("{} cannot differ within a comparison; measure two matrices instead",
                         fmt::join(same, " and ")));
    if (twin && (own_process || !one.empty()))
      refuse(fmt::format("{} cannot differ within a process; leave out interleave = \"twin\"",
                         own_process ? "environment and worker"
                                     : fmt::format("{}", fmt::join(one, " and "))));
    if (const std::set<std::string> loader = loader_keys(keys);
        !loader.empty() && !times_loader(cell))
      refuse(fmt::format("{} {} of the loader, which works beside a training step; "
                         "unit = \"pipeline_step\" times both",
                         fmt::join(loader, " and "),
                         loader.size() == 1 ? "is a key" : "are keys"));
    if (const std::string why = keys.empty() ? "" : why_idle(difference, keys); !why.empty())
      refuse(fmt::format("{} {} nothing: {}",
                         fmt::join(keys, " and "),
                         keys.size() == 1 ? "changes" : "change",
                         why));
    if (const std::set<std::string> work = batch_keys(keys);
        !work.empty() && cell.unit.value_or(Unit::TrainStep) != Unit::Token)
      refuse(
          fmt::format("another {} gives a step other tokens, so that times of steps say nothing; "
                      "unit = \"token\" compares times per token",
                      fmt::join(work, " and ")));
  }
  return problems;
}

void read_key_sets(TomlTable& table, ClaimRow& claim) {
  const toml::node &from = *table.node("from"), &to = *table.node("to");
  const bool testable = claim.unmet.empty();
  const std::size_t before = table.problems().messages.size();
  const json a = read_key_set(from, table.path() + " from", testable, table.problems()),
             b = read_key_set(to, table.path() + " to", testable, table.problems());
  if (table.problems().messages.size() == before) check_key_sets(table, a, b);
  claim.from = a.dump();
  claim.to = b.dump();
}

} // namespace assay
