#include "experiments/plan/plan.h"

#include <unistd.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <set>

#include "core/file_kind.h"
#include "core/ledger/launch_rules.h"
#include "core/ledger/plan_json.h"
#include "core/text.h"
#include "experiments/analysis/claims.h"
#include "experiments/evidence/cell_view.h"
#include "experiments/evidence/effect.h"
#include "experiments/evidence/loss/loss.h"
#include "experiments/plan/claims_file.h"
#include "experiments/plan/drafts.h"
#include "experiments/plan/key_comparison.h"
#include "experiments/plan/memory_groups.h"
#include "model/config/key_variants.h"
#include "model/config/optimization.h"
#include "model/config/step_cost.h"

namespace assay {

namespace {

constexpr double kMemoryShare = 0.70; // of host or device memory that replicas may take
constexpr int kRoundsCpu = 40, kRoundsGpu = 60;
// Units of a visit. A train step on the CPU passes all it uses through the caches, so none has to
// be discarded; an evaluation, and whatever follows another process, runs on what that left there.
constexpr int kCountedGpu = 4, kCountedInTurnCpu = 2, kDiscard = 1, kFewestStepsGpu = 4;
constexpr int kMostStepsInCommon = 16;
constexpr double kAbsurdMargin = 1; // nats per token: e times the perplexity counts as none
constexpr double kSesoiCpu = 0.01, kSesoiGpu = 0.005;

// What fewer timed launches than kFullLaunches cannot give.
std::string too_few_text(int launches) {
  const std::string count = fmt::format("{} launch{}", launches, launches == 1 ? "" : "es");
  if (launches < kProvisionalLaunches)
    return fmt::format("{} can never give a verdict (NO_EFFECT needs {}, FASTER or SLOWER {})",
                       count,
                       kProvisionalLaunches,
                       kFullLaunches);
  return fmt::format("{} can never give FASTER or SLOWER ({} needed); NO_EFFECT needs {}",
                     count,
                     kFullLaunches,
                     kProvisionalLaunches);
}

struct Problems {
  std::vector<std::string> messages;
  void add(const std::string& message) {
    if (std::find(messages.begin(), messages.end(), message) == messages.end())
      messages.push_back(message);
  }
};

std::int64_t host_memory() {
  return std::int64_t{::sysconf(_SC_PHYS_PAGES)} * std::int64_t{::sysconf(_SC_PAGE_SIZE)};
}

OptimizationRow copy_row(const Optimization& row) {
  OptimizationRow copy{row.name,
                       row.summary,
                       std::string(to_string(row.equivalence)),
                       std::string(to_string(row.unit)),
                       row.of_table ? kScopeOfTable : kScopeOfKeys,
                       row.equality,
                       {},
                       row.also_compare,
                       row.design ? std::string(to_string(*row.design)) : ""};
  for (const Level& level : row.levels)
    copy.levels.push_back({level.name, level.summary, level.span});
  for (const DesignContrast& contrast : row.contrasts) {
    ContrastRow& out = copy.contrasts.emplace_back(
        ContrastRow{contrast.name, std::string(to_string(contrast.kind)), {}});
    for (const DesignTerm& term : contrast.terms)
      out.terms.push_back({row.levels[term.from].name, row.levels[term.to].name, term.weight});
  }
  return copy;
}

StepCostRow cost_row(std::int64_t variant, const TrainConfig& resolved) {
  const StepShape shape = step_shape(resolved);
  return {variant, step_tokens(resolved), counts_all_launches(shape), step_cost(shape)};
}

// Builds the rows of a plan cell by cell.
class Planner {
public:
  Planner(const Matrix& matrix, const PlanOptions& options) : matrix_(matrix), options_(options) {}

  Result<Plan> run() {
    for (const MatrixCell& cell : matrix_.cells) add_cell(cell);
    add_claims();
    if (!problems_.messages.empty()) return fail("{}", fmt::join(problems_.messages, "\n"));
    finish_spec();
    return std::move(plan_);
  }

private:
  void add_cell(const MatrixCell& cell);
  const Optimization* checked_row(const MatrixCell& cell);
  const Optimization* row_of_variants(const MatrixCell& cell);
  void check_data(const TrainConfig& config, const MatrixCell& cell);
  void lacks(const std::string& what) {
    if (std::find(plan_.lacks.begin(), plan_.lacks.end(), what) == plan_.lacks.end())
      plan_.lacks.push_back(what);
  }
  std::vector<std::vector<Draft>> groups(const MatrixCell& cell, const std::vector<Draft>& all);
  void write_cell(const MatrixCell& cell,
                  const Optimization& row,
                  const std::string& name,
                  const std::vector<Draft>& group);
  void visit_shape(const MatrixCell& cell, const std::vector<Draft>& group, CellRow& row);
  bool takes_turns(const MatrixCell& cell, const std::vector<Draft>& all);
  void note_other_tokens(const std::vector<Draft>& group, const CellRow& row);
  void loss_shape(const MatrixCell& cell, const Optimization& optimization, CellRow& row);
  void add_claims();
  void add_key_claim(ClaimRow claim);
  void finish_spec();

  const Matrix& matrix_;
  const PlanOptions& options_;
  Problems problems_;
  Plan plan_;
  std::deque<Optimization> own_rows_; // of cells with variants
  bool any_gpu_ = false;
};

void Planner::add_cell(const MatrixCell& cell) {
  const Optimization* row = checked_row(cell);
  if (row == nullptr) return;
  const Result<Drafts> drafted = drafts(matrix_.base, cell, *row, options_.device_capability);
  if (!drafted) return problems_.add(drafted.error().message);
  const std::vector<Draft>& all = drafted->levels;
  if (all.size() < 2) {
    problems_.add(fmt::format("{}: cell '{}' names no level beside the reference '{}'",
                              cell.place({"levels", "reference"}),
                              printable(cell.name),
                              all.front().level->name));
    return;
  }
  if (!row->of_table)
    for (const std::string& problem :
         wrong_variants(cell, all, matrix_.interleave == Interleave::Twin))
      problems_.add(problem);
  if (!drafted->fallbacks.empty())
    plan_.notes.push_back(
        fmt::format("cell '{}': {}", cell.name, fallbacks_text(drafted->fallbacks)));
  check_data(all.front().config, cell);
  const auto split = groups(cell, all);
  if (cell.design && split.size() > 1)
    return problems_.add(fmt::format(
        "{}: cell '{}': a {} measures all {} variants in one round, and they do not fit the memory "
        "together ({} groups would); take fewer steps, a smaller preset or fewer rows",
        cell.place({"design"}),
        printable(cell.name),
        to_string(*cell.design),
        all.size(),
        split.size()));
  for (std::size_t i = 0; i < split.size(); ++i)
    write_cell(cell,
               *row,
               split.size() == 1 ? cell.name : fmt::format("{}/group{}", cell.name, i + 1),
               split[i]);
}

// The row that a cell's variants are; nullptr where they make none.
const Optimization* Planner::row_of_variants(const MatrixCell& cell) {
  Result<Optimization> row = assay::row_of_variants(cell);
  if (!row) {
    problems_.add(row.error().message);
    return nullptr;
  }
  own_rows_.push_back(std::move(*row));
  return &own_rows_.back();
}

const Optimization* Planner::checked_row(const MatrixCell& cell) {
  if (!cell.variants.empty() || cell.design) return row_of_variants(cell);
  const Result<const Optimization*> row = optimizations().lookup(cell.optimization);
  if (!row) {
    problems_.add(fmt::format(
        "{}: {}; `assay list` shows all", cell.place({"optimization"}), row.error().message));
    return nullptr;
  }
  const std::set<std::string> switched = switched_keys(**row);
  for (const ConfigValue& value : cell.set)
    if (switched.contains(value.key))
      problems_.add(
          fmt::format("{}: '{}' is what optimization '{}' switches; remove it, or choose `levels`",
                      value.where,
                      value.key,
                      cell.optimization));
  std::vector<std::string> names;
  for (const Level& level : (*row)->levels) names.push_back(level.name);
  bool known = true;
  const auto check_level = [&](const std::string& level, const std::string& key) {
    if ((*row)->level(level) != nullptr) return;
    known = false;
    problems_.add(fmt::format("{}: unknown level '{}' of optimization '{}'{}; it has: {}",
                              cell.place({key}),
                              printable(level),
                              cell.optimization,
                              did_you_mean(level, names),
                              fmt::join(names, ", ")));
  };
  if (!cell.reference.empty()) check_level(cell.reference, "reference");
  for (const std::string& level : cell.levels) check_level(level, "levels/" + level);
  return known ? *row : nullptr;
}

// Where the matrix gives the path of the training data, or "".
std::string place_of_data(const Matrix& matrix, const MatrixCell& cell) {
  for (const std::vector<ConfigValue>* values : {&cell.set, &matrix.base})
    for (const ConfigValue& value : *values)
      if (value.key == "data" && value.where.starts_with(matrix.file + ":")) return value.where;
  return "";
}

// What is wrong with the training data, or "".
std::string wrong_data(const std::string& data, const std::string& place) {
  if (data.empty()) return "no training data: give --data PATH, or `data` under [base]";
  const std::string path = printable(data),
                    of = "the training data" + (place.empty() ? "" : ", " + place);
  std::error_code ignored;
  if (const std::string why = why_unreachable(data); !why.empty())
    return fmt::format("{}: {} ({})", path, why, of);
  if (!std::filesystem::exists(data, ignored))
    return fmt::format("{}: no such file or directory ({})", path, of);
  if (const std::string why = why_no_plain_file(data);
      !why.empty() && !std::filesystem::is_directory(data, ignored))
    return fmt::format("{}: {}; training data are files or a directory", path, why);
  return "";
}

void Planner::check_data(const TrainConfig& config, const MatrixCell& cell) {
  const std::string wrong = wrong_data(config.data, place_of_data(matrix_, cell));
  if (config.data.empty() && !options_.needs_data)
    lacks("training data: --data PATH");
  else if (!wrong.empty())
    problems_.add(wrong);
  if (std::error_code ignored;
      config.tokenizer != "bytes" && !std::filesystem::exists(config.tokenizer, ignored)) {
    const std::string remedy =
        "make it with `assay tokenizer train`, or --set base.tokenizer=bytes";
    if (options_.needs_data)
      problems_.add(
          fmt::format("{}: no such file (the tokenizer): {}", printable(config.tokenizer), remedy));
    else
      lacks(fmt::format("the tokenizer {}: {}", printable(config.tokenizer), remedy));
  }
}

std::vector<TrainConfig> configs(const std::vector<Draft>& drafts) {
  std::vector<TrainConfig> result;
  for (const Draft& draft : drafts) result.push_back(draft.config);
  return result;
}

// As many levels beside the reference and its control as fit the memory.
std::vector<std::vector<Draft>> Planner::groups(const MatrixCell& cell,
                                                const std::vector<Draft>& all) {
  const bool gpu = all.front().config.device == Device::Cuda;
  const std::int64_t memory = gpu                               ? options_.device_memory_bytes
                              : options_.host_memory_bytes != 0 ? options_.host_memory_bytes
                                                                : host_memory();
  if (memory == 0) return {all};
  const auto limit = static_cast<std::int64_t>(kMemoryShare * static_cast<double>(memory));
  const std::string limit_text = human_bytes(static_cast<double>(limit));
  std::vector<std::vector<Draft>> result;
  for (const std::vector<std::size_t>& indices : memory_groups(configs(all), limit)) {
    std::vector<Draft> group;
    for (const std::size_t i : indices) group.push_back(all[i]);
    if (const std::int64_t bytes = group_bytes(configs(group)); bytes > limit)
      problems_.add(
          fmt::format("{}: cell '{}' needs {} for level '{}', its reference and the control; 70 % "
                      "of this {}'s memory is {}. Choose a smaller preset or fewer rows",
                      cell.where,
                      printable(cell.name),
                      human_bytes(static_cast<double>(bytes)),
                      group.back().level->name,
                      gpu ? "GPU" : "machine",
                      limit_text));
    result.push_back(std::move(group));
  }
  if (result.size() > 1)
    plan_.notes.push_back(
        fmt::format("cell '{}' is split into {} groups, each with its own reference and control: "
                    "all together they need {}, and {} are to be used",
                    cell.name,
                    result.size(),
                    human_bytes(static_cast<double>(group_bytes(configs(all)))),
                    limit_text));
  return result;
}

// The fewest steps of the baseline, from `least`, whose tokens every variant takes in whole steps;
// `least` where that would take many.
int steps_in_common(const std::vector<Draft>& group, int least) {
  const std::int64_t tokens = step_tokens(group.front().config);
  for (int steps = least; steps < least + kMostStepsInCommon; ++steps)
    if (std::ranges::all_of(group, [&](const Draft& draft) {
          return tokens * steps % step_tokens(draft.config) == 0;
        }))
      return steps;
  return least;
}

// K of a visit of the baseline, where the matrix does not say.
int default_visit_steps(const std::vector<Draft>& group, const CellRow& row) {
  const bool gpu = group.front().config.device == Device::Cuda;
  const bool discards = gpu || row.turns || row.unit == "evaluation";
  int counted = gpu ? kCountedGpu : row.turns ? kCountedInTurnCpu : 1;
  if (by_token(row)) counted = steps_in_common(group, counted);
  return counted + (discards || counted > 1 ? kDiscard : 0);
}

// Visits of a token cell differ in steps, so that their tokens are alike.
void Planner::note_other_tokens(const std::vector<Draft>& group, const CellRow& row) {
  const int counted = row.visit_steps - row.discard_steps;
  const std::int64_t baseline = step_tokens(group.front().config), tokens = counted * baseline;
  for (const Draft& draft : group) {
    const std::int64_t own = step_tokens(draft.config),
                       other = own * steps_of_equal_tokens(baseline, own, counted);
    if (other != tokens)
      plan_.notes.push_back(
          fmt::format("cell '{}': a visit of '{}' counts {} tokens, the baseline's {}",
                      row.name,
                      draft.level->name,
                      other,
                      tokens));
  }
}

bool Planner::takes_turns(const MatrixCell& cell, const std::vector<Draft>& all) {
  const std::string why = why_own_processes(cell, all);
  if (why.empty()) return matrix_.interleave == Interleave::Turns;
  plan_.notes.push_back(fmt::format(
      "cell '{}': each variant runs in a process of its own, since {}", cell.name, why));
  return true;
}

void Planner::visit_shape(const MatrixCell& cell, const std::vector<Draft>& group, CellRow& row) {
  const bool gpu = group.front().config.device == Device::Cuda;
  row.rounds = cell.rounds.value_or(matrix_.rounds.value_or(gpu ? kRoundsGpu : kRoundsCpu));
  row.visit_steps =
      cell.visit_steps.value_or(matrix_.visit_steps.value_or(default_visit_steps(group, row)));
  row.discard_steps = cell.discard_steps.value_or(
      matrix_.discard_steps.value_or(row.visit_steps == 1 ? 0 : kDiscard));
  row.launches = cell.launches.value_or(matrix_.launches);
  // Stages of steps with other tokens do not add up to a difference.
  row.traced_rounds = by_token(row) ? 0 : matrix_.traced_rounds;
  if (row.discard_steps >= row.visit_steps)
    problems_.add(
        fmt::format("{}: cell '{}': discard_steps = {} leaves nothing of visit_steps = {}",
                    cell.place({"discard_steps", "visit_steps"}),
                    printable(cell.name),
                    row.discard_steps,
                    row.visit_steps));
  if (gpu && (row.visit_steps < kFewestStepsGpu || row.discard_steps < 1))
    problems_.add(fmt::format("{}: cell '{}': a visit on a GPU takes at least {} steps with the "
                              "first discarded; leave visit_steps and discard_steps out",
                              cell.place({"visit_steps", "discard_steps"}),
                              printable(cell.name),
                              kFewestStepsGpu));
}

// Levels that are equal bit by bit lose the same, so such a cell trains for it only if it asks.
void Planner::loss_shape(const MatrixCell& cell, const Optimization& optimization, CellRow& row) {
  const bool by_default = optimization.equivalence != Equivalence::Bitwise;
  const std::optional<LossSettings>& settings =
      cell.quality || !by_default ? cell.quality : matrix_.quality;
  if (!settings || settings->seeds == 0) return;
  if (by_token(row)) {
    const std::string why = fmt::format(
        "cell '{}': no loss launches: after equal steps its variants have trained on other tokens",
        printable(row.name));
    return cell.quality ? problems_.add(cell.place({"quality"}) + ": " + why)
                        : plan_.notes.push_back(why);
  }
  row.loss_seeds = settings->seeds;
  row.loss_rounds = settings->steps / settings->every;
  row.loss_steps = settings->every;
  row.loss_margin = settings->margin;
  if (const std::string why = why_no_loss_counts(row); !why.empty())
    problems_.add(fmt::format("{}: cell '{}': [quality]: {}; raise `steps`, or lower `every` or "
                              "warmup_steps",
                              cell.place({"quality"}),
                              printable(row.name),
                              why));
  const auto note = [&](const std::string& text) {
    plan_.notes.push_back(fmt::format("cell '{}': [quality]: {}", row.name, text));
  };
  if (static_cast<std::size_t>(row.loss_seeds) < kFewestSeeds)
    note(fmt::format("seeds = {} decides nothing about quality; {} are the fewest that can",
                     row.loss_seeds,
                     kFewestSeeds));
  if (row.loss_margin >= kAbsurdMargin)
    note(fmt::format("margin = {} nats per token lets nearly any training pass", row.loss_margin));
}

void Planner::write_cell(const MatrixCell& cell,
                         const Optimization& row,
                         const std::string& name,
                         const std::vector<Draft>& group) {
  LedgerData& ledger = plan_.ledger;
  for (const CellRow& other : ledger.cells)
    if (other.name == name) {
      problems_.add(fmt::format("{}: two cells are named '{}'; give each its own `name`",
                                cell.place({"name", "optimization"}),
                                printable(name)));
      return;
    }
  if (std::none_of(ledger.optimizations.begin(),
                   ledger.optimizations.end(),
                   [&](const OptimizationRow& o) { return o.name == row.name; }))
    ledger.optimizations.push_back(copy_row(row));
  const bool gpu = group.front().config.device == Device::Cuda;
  any_gpu_ = any_gpu_ || gpu;
  CellRow out;
  out.turns = takes_turns(cell, group);
  out.id = static_cast<std::int64_t>(ledger.cells.size()) + 1;
  out.name = name;
  out.optimization = row.name;
  out.unit = to_string(row.unit);
  out.config_json = to_json(group.front().config).dump();
  visit_shape(cell, group, out);
  if (by_token(out)) note_other_tokens(group, out);
  loss_shape(cell, row, out);
  const auto add = [&](const std::string& variant, const Draft& draft, Role role) {
    const auto id = static_cast<std::int64_t>(ledger.variants.size()) + 1;
    const MatrixVariant* described = variant_of(cell, draft);
    ledger.variants.push_back({id,
                               out.id,
                               variant,
                               draft.level->name,
                               role,
                               to_json(draft.config).dump(),
                               described == nullptr ? "" : described->environment,
                               described == nullptr ? "" : described->worker});
    ledger.costs.push_back(cost_row(id, draft.config));
  };
  for (const Draft& draft : group)
    add(draft.level->name, draft, &draft == &group.front() ? Role::Reference : Role::Level);
  add("control", group.front(), Role::Control);
  if (out.launches < kFullLaunches)
    plan_.notes.push_back(fmt::format("cell '{}': {}", out.name, too_few_text(out.launches)));
  ledger.cells.push_back(std::move(out));
}

// Claims of the plan's optimizations, in their present version.
void Planner::add_claims() {
  std::vector<std::string> files;
  for (const std::string& file : matrix_.claim_files) {
    Result<std::string> path = claims_path(file, matrix_.file, options_.claims_directory);
    if (!path)
      return problems_.add(fmt::format("{}: {}", matrix_.claims_where, path.error().message));
    files.push_back(*path);
  }
  Result<std::vector<ClaimRow>> claims = load_claim_files(files);
  if (!claims) return problems_.add(claims.error().message);
  for (ClaimRow& claim : *claims) {
    if (names_keys(claim)) {
      add_key_claim(std::move(claim));
      continue;
    }
    const bool planned =
        std::any_of(plan_.ledger.optimizations.begin(),
                    plan_.ledger.optimizations.end(),
                    [&](const OptimizationRow& o) { return o.name == claim.optimization; });
    if (planned) plan_.ledger.claims.push_back(std::move(claim));
  }
}

// Where a cell compares one of its keys at all, so that a near miss is seen.
void Planner::add_key_claim(ClaimRow claim) {
  const KeyClaimFit fit = key_claim_fit(plan_.ledger, claim);
  if (fit.concerned == nullptr) return;
  if (!fit.tested && claim.unmet.empty())
    plan_.notes.push_back(fmt::format("no cell tests claim '{}': {}", claim.id, fit.miss));
  claim.optimization = fit.concerned->optimization;
  plan_.ledger.claims.push_back(std::move(claim));
}

void Planner::finish_spec() {
  SpecRow& spec = plan_.ledger.spec;
  spec.name = matrix_.name;
  spec.seed = matrix_.seed;
  spec.matrix_toml = matrix_.text;
  spec.command = options_.command;
  spec.directory = options_.directory;
  spec.created_utc = utc_now();
  spec.launches = matrix_.launches;
  spec.alpha = matrix_.alpha;
  spec.power = matrix_.power;
  spec.limits = matrix_.limits;
  spec.sesoi = matrix_.sesoi.value_or(any_gpu_ ? kSesoiGpu : kSesoiCpu);
  seal_plan(plan_.ledger);
  plan_.budget_seconds = matrix_.budget_seconds;
  plan_.trace_budget_bytes = matrix_.trace_budget_bytes;
}

} // namespace

Result<Plan> make_plan(const Matrix& matrix, const PlanOptions& options) {
  return Planner(matrix, options).run();
}

} // namespace assay
