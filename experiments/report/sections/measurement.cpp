// The figures of one comparison beside its effect, its parity gates and its excluded pairs.
#include <algorithm>
#include <utility>
#include <vector>

#include "core/text.h"
#include "experiments/analysis/wording.h"
#include "experiments/report/sections/lines.h"
#include "experiments/report/sections/list.h"

namespace assay {

namespace {

std::string memory_line(const Comparison& comparison) {
  if (!comparison.memory) return "not measured";
  const MemoryEffect& memory = *comparison.memory;
  const std::string cause = memory_cause_text(memory);
  return fmt::format("{} -> {} ({}{}, {}){}",
                     human_bytes(memory.a_bytes),
                     human_bytes(memory.b_bytes),
                     memory_text(memory),
                     memory.exact && memory.launches > 1 ? ", the same in every launch" : "",
                     launch_count_text(static_cast<std::size_t>(memory.launches)),
                     cause.empty() ? "" : ": " + cause);
}

std::string joules_text(double joules) {
  constexpr std::pair<double, const char*> kUnits[] = {{1e3, "kJ"}, {1, "J"}, {1e-3, "mJ"}};
  for (const auto& [size, unit] : kUnits)
    if (joules >= size) return fmt::format("{:.3g} {}", joules / size, unit);
  return fmt::format("{:.3g} uJ", joules * 1e6);
}

} // namespace

std::string energy_line(const CellReport& cell, const Comparison& comparison) {
  if (!comparison.energy) return cell.no_energy;
  const EnergyEffect& energy = *comparison.energy;
  const std::size_t rounds = energy.log_ratio.by_launch.size();
  const bool by_token = cell.cell.unit != "token" && energy.a_token_j > 0 && energy.b_token_j > 0;
  return fmt::format("{} -> {} per {}{} ({}; {} round{} of one launch, visits of {:.3g} s or more)",
                     joules_text(energy.a_j),
                     joules_text(energy.b_j),
                     unit_text(cell.cell),
                     by_token ? fmt::format(", {} -> {} per token",
                                            joules_text(energy.a_token_j),
                                            joules_text(energy.b_token_j))
                              : "",
                     at_95_text(energy.log_ratio),
                     rounds,
                     rounds == 1 ? "" : "s",
                     energy.seconds);
}

std::vector<std::pair<std::string, std::string>> to_loss_lines(const Comparison& comparison) {
  if (!comparison.time_to_loss) return {};
  const TimeToLoss& to = *comparison.time_to_loss;
  const std::string label = fmt::format("to loss {:.4g}", to.target);
  if (to.seeds == 0) return {{label, "no loss launch is complete"}};
  if (to.a_at_once + to.b_at_once > 0)
    return {{label,
             fmt::format("reached within the first {:.4g} steps, which one mean covers, by the "
                         "baseline in {} and by the candidate in {} of {} seeds: no steps are "
                         "compared; declare a lower target",
                         to.first_steps,
                         to.a_at_once,
                         to.b_at_once,
                         to.seeds)}};
  if (!to.steps)
    return {{label,
             fmt::format("reached by the baseline in {} and by the candidate in {} of {} seeds; "
                         "steps are compared where both reach it in all",
                         to.a_reached,
                         to.b_reached,
                         to.seeds)}};
  const auto tokens = static_cast<double>(to.tokens_per_step);
  const auto amount = [&](double steps) {
    return tokens > 0 ? token_count_text(steps * tokens) : fmt::format("{:.4g}", steps);
  };
  std::vector<std::pair<std::string, std::string>> lines{
      {(tokens > 0 ? "tokens " : "steps ") + label,
       fmt::format("{} -> {}, {} over {} seeds",
                   amount(to.a_steps),
                   amount(to.b_steps),
                   at_95_text(*to.steps),
                   to.seeds)}};
  if (to.time)
    lines.emplace_back("time " + label,
                       fmt::format("{} -> {}, {}",
                                   human_seconds(to.a_seconds),
                                   human_seconds(to.b_seconds),
                                   at_95_text(*to.time)));
  return lines;
}

namespace {

std::string pairs_line(const Comparison& comparison) {
  const PairSet& pairs = comparison.pairs;
  std::string text = excluded_text(pairs);
  if (text.empty()) return fmt::format("{}, none excluded", pairs.pairs);
  if (pairs.disturbed_a + pairs.disturbed_b > 0)
    text += fmt::format(
        " (disturbed visits: baseline {}, candidate {})", pairs.disturbed_a, pairs.disturbed_b);
  return text;
}

std::string first_step_line(const Comparison& comparison) {
  std::string text;
  const auto add = [&](const char* side, const std::optional<FirstStep>& first) {
    if (first)
      text += fmt::format("{}{} {}, {} times the median",
                          text.empty() ? "" : "; ",
                          side,
                          human_seconds(first->ns / 1e9),
                          three_digits(first->times));
  };
  add("baseline", comparison.a_first);
  add("candidate", comparison.b_first);
  return text.empty() ? "" : text + " (of launches in which it ran first; counted nowhere)";
}

// A reason that the verdict's list already has is not told again.
std::string quality_line(const Comparison& comparison) {
  const std::string word(to_string(comparison.verdict.quality));
  const Reason& why = comparison.evidence.quality_reason;
  const auto& told = comparison.verdict.reasons;
  const bool known = std::any_of(
      told.begin(), told.end(), [&](const Reason& reason) { return reason.text == why.text; });
  return known || why.text.empty() ? word : word + ": " + why.text;
}

// Every part of the verdict, of which the table has the one that decides.
std::string verdict_line(const Verdict& verdict) {
  std::string text = fmt::format("validity {}, speed {}, quality {}, claim {}",
                                 to_string(verdict.validity),
                                 to_string(verdict.speed),
                                 to_string(verdict.quality),
                                 to_string(verdict.claim));
  for (const Tag tag : verdict.tags) text += fmt::format(", {}", to_string(tag));
  return text;
}

std::string side_of(const Comparison& comparison, std::int64_t variant) {
  if (variant == comparison.a_id) return comparison.a;
  return variant == comparison.b_id ? comparison.b : "launch";
}

} // namespace

Section measurement_section(const ComparisonPlace& place) {
  const Comparison& comparison = place.comparison();
  Section section{
      .id = "measurement", .title = "Measurement", .depth = Depth::Detail, .columns = {{""}, {""}}};
  const auto add = [&](const char* label, const std::string& text) {
    if (!text.empty()) section.rows.push_back({{label, text}, place.cell().cell.name});
  };
  add("verdict", verdict_line(comparison.verdict));
  if (comparison.effect) {
    const Effect& effect = *comparison.effect;
    const std::size_t launches = effect.launches.size();
    add("effect",
        at_95_text(effect.theta) +
            (launches > 1 ? " over " + launch_count_text(launches) : std::string()));
    add("by total time", at_95_text(effect.total_time));
    add("smallest detectable effect", mde_text(comparison.effect));
  }
  if (comparison.device) add("by CUDA events", at_95_text(*comparison.device));
  if (comparison.effect_all) {
    add("pairs", pairs_line(comparison));
    if (comparison.pairs.all_excluded() > 0)
      add("with all pairs", at_95_text(comparison.effect_all->theta));
  }
  if (comparison.position)
    add("order effect", "running second changes the time by " + at_95_text(*comparison.position));
  add("first step", first_step_line(comparison));
  add("peak memory", memory_line(comparison));
  add("energy", energy_line(place.cell(), comparison));
  add("quality", quality_line(comparison));
  for (const auto& [label, text] : to_loss_lines(comparison)) add(label.c_str(), text);
  add("code path", comparison.evidence.engaged);
  add("ran", comparison.evidence.ran);
  return section;
}

Section gates_section(const ComparisonPlace& place) {
  const Comparison& comparison = place.comparison();
  Section section{.id = "gates", .title = "Parity gates", .depth = Depth::Record};
  section.columns = {{"gate"},
                     {"variant"},
                     {"result", false, true},
                     {"difference", true},
                     {"allowed", true},
                     {"detail"}};
  for (const GateRow& gate : comparison.evidence.gates)
    section.rows.push_back({{gate.name,
                             side_of(comparison, gate.variant),
                             gate.passed ? "passed" : "FAILED",
                             fmt::format("{:.4g}", gate.value),
                             fmt::format("{:.4g}", gate.bound),
                             gate.detail},
                            place.cell().cell.name,
                            gate.passed ? Tone::Good : Tone::Bad});
  return section;
}

Section excluded_pairs_section(const ComparisonPlace& place) {
  Section section{.id = "excluded_pairs", .title = "Disturbed pairs", .depth = Depth::Record};
  section.columns = {{"launch", true}, {"round", true}, {"reason"}};
  section.names = 2;
  for (const LaunchPairs& launch : place.comparison().pairs.launches) {
    const std::string left_out = launch.counts() ? "" : "; the launch is left out";
    for (const Pair& pair : launch.pairs)
      if (!pair.excluded.empty())
        section.rows.push_back(
            {{std::to_string(launch.index), std::to_string(pair.round), pair.excluded + left_out},
             place.cell().cell.name});
  }
  return section;
}

} // namespace assay
