// How a cell measures: its groups by memory, visits, turns and loss launches.
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "core/ledger/launch_rules.h"
#include "core/text.h"
#include "experiments/evidence/cell_view.h"
#include "experiments/evidence/effect.h"
#include "experiments/evidence/loss/loss.h"
#include "experiments/plan/matrix/key_comparison.h"
#include "experiments/plan/memory_groups.h"
#include "experiments/plan/planner.h"
#include "model/config/key_variants.h"

namespace assay {

namespace {

constexpr double kMemoryShare = 0.70; // of host or device memory that replicas may take
constexpr int kRoundsCpu = 40, kRoundsGpu = 60;
// Units of a visit. A train step on the CPU passes all it uses through the caches, so none has to
// be discarded; an evaluation, and whatever follows another process, runs on what that left there.
constexpr int kCountedGpu = 4, kCountedInTurnCpu = 2, kDiscard = 1, kFewestStepsGpu = 4;
// What a loader does between two visits (it ends the documents that it began) is free: few steps of
// a visit would make it faster than it is.
constexpr int kCountedPipeline = 8;
constexpr int kMostStepsInCommon = 16;
constexpr double kAbsurdMargin = 1; // nats per token: e times the perplexity counts as none

std::int64_t host_memory() {
  return std::int64_t{::sysconf(_SC_PHYS_PAGES)} * std::int64_t{::sysconf(_SC_PAGE_SIZE)};
}

std::vector<TrainConfig> configs(const std::vector<Draft>& drafts) {
  std::vector<TrainConfig> result;
  for (const Draft& draft : drafts) result.push_back(draft.config);
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
  if (row.unit == to_string(Unit::PipelineStep)) counted = std::max(counted, kCountedPipeline);
  if (by_token(row)) counted = steps_in_common(group, counted);
  return counted + (discards || counted > 1 ? kDiscard : 0);
}

// Why variants that take other tokens in a step cannot train on the same tokens between two losses,
// or "".
std::string why_no_equal_tokens(const std::vector<Draft>& group, const LossSettings& settings) {
  const TrainConfig& baseline = group.front().config;
  const std::int64_t tokens = step_tokens(baseline) * settings.every;
  for (const Draft& draft : group) {
    const TrainConfig& own = draft.config;
    if (own.packing != baseline.packing)
      return "rows with padding have fewer tokens, and how many depends on the text";
    if (tokens % step_tokens(own) != 0)
      return fmt::format("{} steps of '{}' take {} tokens, which is no whole number of steps of "
                         "'{}'; change [quality] every",
                         settings.every,
                         group.front().level->name,
                         tokens,
                         draft.level->name);
  }
  return "";
}

// Why the losses of a cell's variants say nothing about each other, or "".
std::string
why_no_loss(const CellRow& row, const std::vector<Draft>& group, const LossSettings& settings) {
  if (by_token(row))
    if (std::string why = why_no_equal_tokens(group, settings); !why.empty()) return why;
  const bool same = std::ranges::all_of(group, [&](const Draft& draft) {
    return draft.config.data_source == group.front().config.data_source;
  });
  return same ? "" : "a loss on random tokens says nothing about the text";
}

// The one whose warm-up ends last in visits of loss launches.
RateWarmUp longest_warm_up(const std::vector<Draft>& group, const CellRow& row) {
  const TrainConfig& baseline = group.front().config;
  RateWarmUp longest{"", baseline.warmup_steps, row.loss_steps};
  for (const Draft& draft : group) {
    const TrainConfig& own = draft.config;
    const int steps =
        by_token(row)
            ? steps_of_equal_tokens(step_tokens(baseline), step_tokens(own), row.loss_steps)
            : row.loss_steps;
    const RateWarmUp its{draft.level->name, own.warmup_steps, steps};
    if (its.visits() > longest.visits()) longest = its;
  }
  return longest;
}

// Launches of a cell whose results decide.
std::vector<int> looks_up_to(int most) {
  std::vector<int> looks;
  for (const int launches : kLooks)
    if (launches < most) looks.push_back(launches);
  looks.push_back(most);
  return looks;
}

} // namespace

// Bytes that replicas may take; 0: not known.
std::int64_t Planner::memory_limit(bool gpu) const {
  const std::int64_t memory = gpu                               ? options_.device_memory_bytes
                              : options_.host_memory_bytes != 0 ? options_.host_memory_bytes
                                                                : host_memory();
  return static_cast<std::int64_t>(kMemoryShare * static_cast<double>(memory));
}

// Whether some level, the reference and its control do not fit the memory together, and each of
// them alone does.
bool Planner::are_too_large(const std::vector<Draft>& all) const {
  const std::int64_t limit = memory_limit(all.front().config.device == Device::Cuda);
  if (limit == 0 || matrix_.interleave != Interleave::Auto) return false;
  const bool pair = std::ranges::any_of(all, [&](const Draft& draft) {
    return &draft != &all.front() && group_bytes({all.front().config, draft.config}) > limit;
  });
  return pair && std::ranges::all_of(
                     all, [&](const Draft& draft) { return alone_bytes(draft.config) <= limit; });
}

// As many levels beside the reference and its control as fit the memory.
std::vector<std::vector<Draft>> Planner::groups(const MatrixCell& cell,
                                                const std::vector<Draft>& all) {
  const bool gpu = all.front().config.device == Device::Cuda;
  const std::int64_t limit = memory_limit(gpu);
  if (limit == 0 || matrix_.interleave == Interleave::Launches || are_too_large(all)) {
    for (const Draft& draft : all)
      if (const std::int64_t bytes = alone_bytes(draft.config); bytes > limit && limit > 0)
        refuse_size(cell, fmt::format("level '{}' alone", draft.level->name), bytes, gpu);
    return {all};
  }
  const std::string limit_text = human_bytes(static_cast<double>(limit));
  std::vector<std::vector<Draft>> result;
  for (const std::vector<std::size_t>& indices : memory_groups(configs(all), limit)) {
    std::vector<Draft> group;
    for (const std::size_t i : indices) group.push_back(all[i]);
    if (const std::int64_t bytes = group_bytes(configs(group)); bytes > limit)
      refuse_size(
          cell,
          fmt::format("level '{}', its reference and the control", group.back().level->name),
          bytes,
          gpu);
    result.push_back(std::move(group));
  }
  if (result.size() > 1)
    note(cell.name,
         fmt::format("split into {} groups, each with its own reference and control: all together "
                     "they need {}, and {} are to be used",
                     result.size(),
                     human_bytes(static_cast<double>(group_bytes(configs(all)))),
                     limit_text));
  return result;
}

void Planner::refuse_size(const MatrixCell& cell,
                          const std::string& what,
                          std::int64_t bytes,
                          bool gpu) {
  if (!will_run(cell)) return;
  problems_.add(
      fmt::format("{}: cell '{}' needs {} for {}; 70 % of this {}'s memory is {}. Choose a "
                  "smaller preset or fewer rows",
                  cell.where,
                  printable(cell.name),
                  human_bytes(static_cast<double>(bytes)),
                  what,
                  gpu ? "GPU" : "machine",
                  human_bytes(static_cast<double>(memory_limit(gpu)))));
}

bool Planner::will_run(const MatrixCell& cell) const {
  return options_.cells.empty() ||
         std::ranges::any_of(options_.cells,
                             [&](const std::string& name) { return is_of_cell(name, cell.name); });
}

// Visits of a token cell differ in steps, so that their tokens are alike.
void Planner::note_other_tokens(const std::vector<Draft>& group, const CellRow& row) {
  const int counted = row.visit_steps - row.discard_steps;
  const std::int64_t baseline = step_tokens(group.front().config), tokens = counted * baseline;
  for (const Draft& draft : group) {
    const std::int64_t own = step_tokens(draft.config),
                       other = own * steps_of_equal_tokens(baseline, own, counted);
    if (other != tokens)
      note(row.name,
           fmt::format("a visit of '{}' counts {} tokens, the baseline's {}",
                       draft.level->name,
                       other,
                       tokens));
  }
}

void Planner::take_turns(const MatrixCell& cell, const std::vector<Draft>& all, CellRow& row) {
  const bool large = are_too_large(all);
  row.apart = large || matrix_.interleave == Interleave::Launches;
  std::string why = why_own_processes(cell, all);
  row.turns = row.apart || !why.empty() || matrix_.interleave == Interleave::Turns;
  if (!row.turns) return;
  if (large)
    why = "a level, its baseline and the control do not fit the memory together";
  else if (row.apart || why.empty())
    why =
        fmt::format("[measure] interleave = \"{}\" asks for it", row.apart ? "launches" : "turns");
  note(cell.name,
       fmt::format("each variant runs in a process of its own{}, since {}",
                   row.apart ? ", one process after the other, so that intervals contain what "
                               "drifts meanwhile"
                             : "",
                   why));
}

void Planner::visit_shape(const MatrixCell& cell, const std::vector<Draft>& group, CellRow& row) {
  const bool gpu = group.front().config.device == Device::Cuda;
  row.rounds = cell.rounds.value_or(matrix_.rounds.value_or(gpu ? kRoundsGpu : kRoundsCpu));
  row.visit_steps =
      cell.visit_steps.value_or(matrix_.visit_steps.value_or(default_visit_steps(group, row)));
  row.discard_steps = cell.discard_steps.value_or(
      matrix_.discard_steps.value_or(row.visit_steps == 1 ? 0 : kDiscard));
  row.launches = cell.launches.value_or(matrix_.launches);
  if (row.launches == kAutoLaunches) {
    row.looks = looks_up_to(matrix_.max_launches);
    row.launches = row.looks.back();
  }
  // Stages of steps with other tokens do not add up to a difference.
  row.traced_rounds = by_token(row) ? 0 : matrix_.traced_rounds;
  row.energy_rounds = matrix_.energy_rounds;
  const auto has_ranks = [](const auto& variant) { return variant.config.ranks > 1; };
  if (row.energy_rounds > 0 && std::ranges::any_of(group, has_ranks)) {
    row.energy_rounds = 0;
    note(row.name, "no energy launch: several ranks are not measured");
  }
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
void Planner::loss_shape(const MatrixCell& cell,
                         const Optimization& optimization,
                         const std::vector<Draft>& group,
                         CellRow& row) {
  const bool by_default = optimization.equivalence != Equivalence::Bitwise;
  const std::optional<LossSettings>& settings =
      cell.quality || !by_default ? cell.quality : matrix_.quality;
  if (!settings || settings->seeds == 0) return;
  if (const std::string why = why_no_loss(row, group, *settings); !why.empty()) {
    if (!cell.quality) return note(row.name, "no loss launches: " + why);
    return problems_.add(fmt::format(
        "{}: cell '{}': no loss launches: {}", cell.place({"quality"}), printable(row.name), why));
  }
  row.loss_seeds = settings->seeds;
  row.loss_rounds = settings->steps / settings->every;
  row.loss_steps = settings->every;
  row.loss_margin = settings->margin;
  row.loss_target = settings->target;
  if (const std::string why = why_no_loss_counts(row, longest_warm_up(group, row)); !why.empty())
    problems_.add(fmt::format("{}: cell '{}': [quality]: {}; raise `steps`, or lower `every` or "
                              "warmup_steps",
                              cell.place({"quality"}),
                              printable(row.name),
                              why));
  const auto vocabulary = static_cast<double>(group.front().config.vocab_size);
  if (vocabulary > 0 && row.loss_target >= std::log(vocabulary))
    problems_.add(
        fmt::format("{}: cell '{}': [quality]: target = {} nats per token is reached "
                    "without any training: a guess among {} tokens loses {:.4g}; choose a "
                    "lower one",
                    cell.place({"quality"}),
                    printable(row.name),
                    row.loss_target,
                    vocabulary,
                    std::log(vocabulary)));
  if (static_cast<std::size_t>(row.loss_seeds) < kFewestSeeds)
    note(row.name,
         fmt::format("[quality]: seeds = {} decides nothing about quality; {} are the fewest that "
                     "can",
                     row.loss_seeds,
                     kFewestSeeds));
  if (row.loss_margin >= kAbsurdMargin)
    note(row.name,
         fmt::format("[quality]: margin = {} nats per token lets nearly any training pass",
                     row.loss_margin));
}

} // namespace assay
