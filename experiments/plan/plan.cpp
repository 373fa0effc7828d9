#include "experiments/plan/plan.h"

#include <algorithm>

#include "core/ledger/launch_rules.h"
#include "core/ledger/storage/plan_json.h"
#include "core/text.h"
#include "experiments/analysis/report_lines.h"
#include "experiments/analysis/wording.h"
#include "experiments/evidence/cell_view.h"
#include "experiments/evidence/effect.h"
#include "experiments/plan/matrix/key_comparison.h"
#include "experiments/plan/planner.h"
#include "model/config/cost/step_cost.h"
#include "model/config/key_variants.h"

namespace assay {

namespace {

constexpr double kSesoiCpu = 0.01, kSesoiGpu = 0.005;

// What fewer timed launches than kFullLaunches cannot give.
std::string too_few_text(int launches) {
  const std::string count = launch_count_text(static_cast<std::size_t>(launches));
  if (launches < kProvisionalLaunches)
    return fmt::format(
        "{} can never give a verdict on the time (NO_EFFECT needs {}, FASTER or SLOWER {})",
        count,
        kProvisionalLaunches,
        kFullLaunches);
  return fmt::format("{} can never give FASTER or SLOWER ({} needed); NO_EFFECT needs {}",
                     count,
                     kFullLaunches,
                     kProvisionalLaunches);
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

// What a reader could take for the kernels' time: variants that differ in a level which on a CPU
// runs the code of another one.
std::vector<std::string> borrowed_on_cpu(const std::vector<Draft>& drafts) {
  std::vector<std::string> texts;
  for (const Optimization& row : optimizations().all())
    for (const Level& level : row.levels) {
      const auto has = [&](const Draft& draft) {
        return draft.config.device == Device::Cpu && has_level(draft.config, level) &&
               (row.family.empty() || row.family == draft.config.family);
      };
      if (!level.on_cpu.empty() && std::ranges::any_of(drafts, has) &&
          !std::ranges::all_of(drafts, has))
        texts.push_back(fmt::format("{} = {} runs the code of {} on a CPU; its kernels need a GPU",
                                    row.name,
                                    level.name,
                                    level.on_cpu));
    }
  return texts;
}

} // namespace

Result<Plan> Planner::run() {
  for (const MatrixCell& cell : matrix_.cells) add_cell(cell);
  add_claims();
  note_unused_keys();
  if (!problems_.messages.empty()) return fail("{}", fmt::join(problems_.messages, "\n"));
  finish_spec();
  return std::move(plan_);
}

// Keys of [base] that every cell's optimization switches.
void Planner::note_unused_keys() {
  const auto switches = [](const MatrixCell& cell, const std::string& key) {
    const Optimization* row = optimizations().find(cell.optimization);
    return row != nullptr && switched_keys(*row).contains(key);
  };
  for (const ConfigValue& value : matrix_.base)
    if (!matrix_.cells.empty() && std::ranges::all_of(matrix_.cells, [&](const MatrixCell& cell) {
          return switches(cell, value.key);
        }))
      note("", fmt::format("no cell uses base.{}: its optimization switches it", value.key));
}

std::vector<std::string> Planner::wrong_names() {
  for (MatrixCell cell : matrix_.cells)
    if (!cell.optimization.empty() && cell.variants.empty() && !cell.design)
      (void)checked_row(cell);
  return std::move(problems_.messages);
}

// Its names are wrong, or what a level makes of it: its data are checked all the same.
void Planner::refuse_cell(const MatrixCell& cell, const std::string& problems) {
  problems_.add(problems);
  if (const auto config = config_of_cell(matrix_.base, cell)) check_data(*config, cell);
}

void Planner::add_cell(MatrixCell cell) {
  const std::size_t before = problems_.messages.size();
  const Optimization* row = checked_row(cell);
  if (row == nullptr) return refuse_cell(cell, "");
  const bool known = problems_.messages.size() == before;
  const Result<Drafts> drafted = drafts(matrix_.base, cell, *row, options_.device_capability);
  if (!drafted) return refuse_cell(cell, drafted.error().message);
  const std::vector<Draft>& all = drafted->levels;
  if (all.size() < 2)
    return refuse_cell(cell,
                       known ? fmt::format("{}: cell '{}' names no level beside the reference '{}'",
                                           cell.place({"levels", "reference"}),
                                           printable(cell.name),
                                           all.front().level->name)
                             : "");
  if (!row->of_table)
    for (const std::string& problem :
         wrong_variants(cell, all, matrix_.interleave == Interleave::Twin))
      problems_.add(problem);
  for (const Fallback& fallback : drafted->fallbacks) note(cell.name, fallback_text(fallback));
  if (std::ranges::any_of(all, [](const Draft& draft) {
        return draft.config.device == Device::Cpu && draft.config.precision == Precision::Fp8;
      }))
    note(cell.name, "a CPU emulates FP8, so its times do not apply to a GPU");
  for (const std::string& text : borrowed_on_cpu(all)) note(cell.name, text);
  check_data(all.front().config, cell);
  const auto split = groups(cell, all);
  if (cell.design && split.size() > 1)
    return problems_.add(fmt::format(
        "{}: cell '{}': a {} measures all {} variants in one round, and they do not fit the memory "
        "together ({} groups would); take fewer steps, a smaller preset, fewer rows, or "
        "[measure] interleave = \"launches\"",
        cell.place({"design"}),
        printable(cell.name),
        to_string(*cell.design),
        all.size(),
        split.size()));
  for (std::size_t i = 0; i < split.size(); ++i)
    write_cell(cell, *row, split.size() == 1 ? cell.name : group_name(cell.name, i + 1), split[i]);
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
  take_turns(cell, group, out);
  out.id = static_cast<std::int64_t>(ledger.cells.size()) + 1;
  out.name = name;
  out.optimization = row.name;
  out.unit = to_string(row.unit);
  out.config_json = to_json(group.front().config).dump();
  visit_shape(cell, group, out);
  if (by_token(out)) note_other_tokens(group, out);
  loss_shape(cell, row, group, out);
  const auto add = [&](const std::string& variant, const Draft& draft, Role role) {
    const auto id = static_cast<std::int64_t>(ledger.variants.size()) + 1;
    const MatrixVariant* described = variant_of(cell, draft);
    if (described != nullptr && role != Role::Control) check_worker(cell, *described);
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
  add(std::string(to_string(Role::Control)), group.front(), Role::Control);
  ledger.cells.push_back(std::move(out));
}

void Planner::finish_spec() {
  SpecRow& spec = plan_.ledger.spec;
  spec.name = matrix_.name;
  spec.seed = matrix_.seed;
  spec.matrix_toml = matrix_.text;
  spec.command = options_.command;
  spec.directory = options_.directory;
  spec.created_utc = utc_now();
  spec.launches = matrix_.launches == kAutoLaunches ? matrix_.max_launches : matrix_.launches;
  spec.alpha = matrix_.alpha;
  spec.power = matrix_.power;
  spec.limits = matrix_.limits;
  spec.sesoi = matrix_.sesoi.value_or(any_gpu_ ? kSesoiGpu : kSesoiCpu);
  seal_plan(plan_.ledger);
  plan_.budget_seconds = matrix_.budget_seconds;
  plan_.trace_budget_bytes = matrix_.trace_budget_bytes;
}

std::vector<std::string> note_texts(const Plan& plan, const std::vector<std::string>& cells) {
  std::vector<NoteRow> all = plan.ledger.notes;
  for (const CellRow& cell : plan.ledger.cells) // of a result the report says so itself
    if (cell.launches < kFullLaunches) all.push_back({cell.name, too_few_text(cell.launches)});
  std::erase_if(all, [&](const NoteRow& note) {
    return !cells.empty() && !note.cell.empty() &&
           std::ranges::none_of(cells, [&](const std::string& cell) {
             return is_of_cell(cell, note.cell) || is_of_cell(note.cell, cell);
           });
  });
  return note_lines(all);
}

Result<Plan> make_plan(const Matrix& matrix, const PlanOptions& options) {
  return Planner(matrix, options).run();
}

Result<Plan> make_plan(const MatrixText& from, const PlanOptions& options) {
  std::vector<std::string> problems;
  const Result<Matrix> matrix = read_matrix(from, problems);
  if (!matrix) return matrix.error();
  if (problems.empty()) return make_plan(*matrix, options);
  for (std::string& problem : Planner(*matrix, options).wrong_names())
    problems.push_back(std::move(problem));
  return fail("{}", fmt::join(problems, "\n"));
}

} // namespace assay
