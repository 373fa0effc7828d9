#include "experiments/evidence/owed/plan_state.h"

#include <algorithm>

#include "core/ledger/looks.h"
#include "core/ledger/untraced.h"
#include "core/text.h"
#include "experiments/evidence/cell_view.h"
#include "experiments/evidence/owed/redo.h"

namespace assay {

namespace {

struct Slot {
  const CellRow* cell;
  LaunchKind kind;
  int index;
};

enum class SlotState { Missing, Done, Partial, GivenUp };

void add_by_index(const LedgerData& data, LaunchKind kind, auto count, std::vector<Slot>& slots) {
  int most = 0;
  for (const CellRow& cell : data.cells) most = std::max(most, count(cell));
  for (int index = 1; index <= most; ++index)
    for (const CellRow& cell : data.cells)
      if (index <= count(cell)) slots.push_back({&cell, kind, index});
}

std::vector<Slot> all_slots(const LedgerData& data) {
  std::vector<Slot> slots;
  for (const LaunchKind kind : {LaunchKind::Parity, LaunchKind::Memory})
    for (const CellRow& cell : data.cells) slots.push_back({&cell, kind, 1});
  add_by_index(
      data, LaunchKind::Timed, [&](const CellRow& c) { return data.planned_launches(c); }, slots);
  add_by_index(
      data, LaunchKind::Loss, [](const CellRow& c) { return c.loss_seeds; }, slots);
  for (const CellRow& cell : data.cells)
    if (cell.energy_rounds > 0) slots.push_back({&cell, LaunchKind::Energy, 1});
  for (const CellRow& cell : data.cells)
    if (cell.traced_rounds > 0) slots.push_back({&cell, LaunchKind::Traced, 1});
  return slots;
}

bool fills(const LaunchRow& launch, const Slot& slot) {
  return launch.cell == slot.cell->id && launch.kind == slot.kind && launch.index == slot.index;
}

// Stopped from outside, closed to go on without a variant, or a disturbed repetition: no failure of
// the launch.
bool ended_by_event(const LedgerData& data, std::int64_t launch) {
  return std::any_of(data.events.begin(), data.events.end(), [&](const EventRow& e) {
    return e.launch == launch &&
           (e.kind == "stopped" || e.kind == "retired" || e.kind == "set_aside");
  });
}

// The worker refused what it read: another attempt would read the same.
bool ended_by_bad_input(const LedgerData& data, std::int64_t launch) {
  return std::any_of(data.events.begin(), data.events.end(), [&](const EventRow& e) {
    return e.launch == launch && e.kind == "bad_input";
  });
}

SlotState state_of(const LaunchRow& launch) {
  return launch.state == LaunchState::Complete ? SlotState::Done : SlotState::Partial;
}

bool counts(const LaunchRow& launch) {
  return launch.state == LaunchState::Complete || is_counted(launch); // a timed one may be partial
}

// The launch of the slot that is to be measured again, or nullptr.
const LaunchRow* to_repeat(const LedgerData& data, const Slot& slot) {
  for (const LaunchRow& launch : data.launches)
    if (fills(launch, slot) && counts(launch) && redo_is_asked(data, launch)) return &launch;
  return nullptr;
}

SlotState slot_state(const LedgerData& data, const Slot& slot, std::int64_t since) {
  int failures = 0;
  for (const LaunchRow& launch : data.launches) {
    if (!fills(launch, slot)) continue;
    if (counts(launch) && !data.superseded(launch.id)) {
      if (!redo_is_asked(data, launch)) return state_of(launch);
      failures = 0; // those before it are not of its repetition
    }
    if (launch.state == LaunchState::Failed && launch.id > since &&
        !ended_by_event(data, launch.id))
      failures += ended_by_bad_input(data, launch.id) ? kAttempts : 1;
  }
  return failures < kAttempts ? SlotState::Missing : SlotState::GivenUp;
}

std::string last_reason(const LedgerData& data, const Slot& slot) {
  std::string reason;
  for (const LaunchRow& launch : data.launches)
    if (fills(launch, slot) && !launch.reason.empty()) reason = launch.reason;
  return reason;
}

// Failed launches of the slot that ended for the reason which stands for all of them.
void add_told(const LedgerData& data, const Slot& slot, std::set<std::int64_t>& launches) {
  const std::string reason = last_reason(data, slot);
  for (const LaunchRow& launch : data.launches)
    if (fills(launch, slot) && launch.reason == reason) launches.insert(launch.id);
}

// A level left this very seed, so the reference has to complete it.
bool reference_is_asked(const LedgerData& data, const Slot& slot) {
  return std::any_of(data.launches.begin(), data.launches.end(), [&](const LaunchRow& launch) {
    return fills(launch, slot) &&
           std::any_of(data.events.begin(), data.events.end(), [&](const EventRow& event) {
             return event.launch == launch.id && event.kind == "retired";
           });
  });
}

// `cell_blocked`: why the cell as a whole cannot be measured, or "".
std::string
loss_blocked(const LedgerData& data, const Slot& slot, const std::string& cell_blocked) {
  if (!cell_blocked.empty()) return cell_blocked;
  const auto excluded = excluded_variants(data, slot.cell->id, LaunchKind::Loss);
  bool any_level = false;
  for (const VariantRow* variant : variants_of(data, slot.cell->id)) {
    const auto found = excluded.find(variant->id);
    if (variant->role == Role::Reference && found != excluded.end())
      return "its baseline cannot be trained: " + found->second;
    any_level = any_level || (variant->role == Role::Level && found == excluded.end());
  }
  if (any_level || reference_is_asked(data, slot)) return "";
  return "no level beside the baseline is left to train";
}

// Why each cell is blocked, asked once per cell.
class Blocked {
public:
  Blocked(const LedgerData& data, std::int64_t since) : data_(data) {
    for (const CellRow& cell : data.cells) why_[cell.id] = blocked(data, cell, since);
  }
  const std::string& cell(std::int64_t id) const { return why_.at(id); }
  bool slot(const Slot& slot) const {
    const std::string& why = cell(slot.cell->id);
    return !(slot.kind == LaunchKind::Loss ? loss_blocked(data_, slot, why) : why).empty();
  }

private:
  const LedgerData& data_;
  std::map<std::int64_t, std::string> why_;
};

// Problems of the same text take one line that names the places: "norms, rotary: no trace: …".
class ProblemLines {
public:
  void add(const std::string& place, const std::string& why) {
    const auto found = std::find_if(
        lines_.begin(), lines_.end(), [&](const auto& line) { return line.first == why; });
    if (found != lines_.end())
      found->second.push_back(place);
    else
      lines_.push_back({why, {place}});
  }
  std::vector<std::string> take() const {
    constexpr std::size_t kNamed = 4;
    std::vector<std::string> texts;
    for (const auto& [why, places] : lines_) {
      const std::size_t named = std::min(places.size(), kNamed);
      const std::vector<std::string> first(places.begin(),
                                           places.begin() + static_cast<std::ptrdiff_t>(named));
      texts.push_back(fmt::format(
          "{}{}: {}",
          fmt::join(first, ", "),
          named < places.size() ? fmt::format(" and {} more", places.size() - named) : "",
          why));
    }
    return texts;
  }

private:
  std::vector<std::pair<std::string, std::vector<std::string>>> lines_; // text, places
};

struct GivenUp {
  const CellRow* cell = nullptr;
  LaunchKind kind{};
  std::string why;
  std::set<int> indices;
};

void add_given_up(std::vector<GivenUp>& list, const Slot& slot, const std::string& why) {
  auto found = std::find_if(list.begin(), list.end(), [&](const GivenUp& known) {
    return known.cell == slot.cell && known.kind == slot.kind && known.why == why;
  });
  if (found == list.end()) found = list.insert(list.end(), {slot.cell, slot.kind, why, {}});
  found->indices.insert(slot.index);
}

void add_exclusions(const LedgerData& data, const CellRow& cell, ProblemLines& problems) {
  const auto untimed = excluded_variants(data, cell.id);
  for (const auto& [variant, reason] : untimed)
    problems.add(cell.name, fmt::format("{} is not timed: {}", data.variant(variant).name, reason));
  for (const auto& [variant, reason] : excluded_variants(data, cell.id, LaunchKind::Loss))
    if (!untimed.contains(variant))
      problems.add(cell.name,
                   fmt::format("{} is left out of further loss launches: {}",
                               data.variant(variant).name,
                               reason));
}

void add_owed(const LedgerData& data, const Slot& slot, bool given_up, PlanProgress& progress) {
  const bool again = to_repeat(data, slot) != nullptr;
  for (OwedLaunches& owed : progress.owed)
    if (owed.cell == slot.cell->id && owed.kind == slot.kind) {
      ++owed.launches;
      owed.given_up += given_up;
      owed.again += again;
      return;
    }
  const int planned = slot.kind == LaunchKind::Timed  ? data.planned_launches(*slot.cell)
                      : slot.kind == LaunchKind::Loss ? slot.cell->loss_seeds
                                                      : 1;
  progress.owed.push_back({slot.cell->id, slot.kind, 1, planned, given_up ? 1 : 0, again ? 1 : 0});
}

} // namespace

std::vector<const VariantRow*> variants_of(const LedgerData& plan, std::int64_t cell) {
  std::vector<const VariantRow*> result;
  for (const VariantRow& variant : plan.variants)
    if (variant.cell == cell) result.push_back(&variant);
  return result;
}

std::map<std::int64_t, std::string>
excluded_variants(const LedgerData& data, std::int64_t cell, LaunchKind kind) {
  std::map<std::int64_t, std::string> excluded;
  const auto of_cell = [&](std::int64_t launch) {
    return std::any_of(data.launches.begin(), data.launches.end(), [&](const LaunchRow& row) {
      return row.id == launch && row.cell == cell &&
             (row.kind != LaunchKind::Loss || kind == LaunchKind::Loss);
    });
  };
  for (const GateRow& gate : data.gates)
    if (!gate.passed && gate.variant != 0 && of_cell(gate.launch))
      excluded.emplace(gate.variant,
                       fmt::format("gate {} failed: {:.6g} (allowed {:.6g}): {}",
                                   gate.name,
                                   gate.value,
                                   gate.bound,
                                   gate.detail));
  for (const EventRow& event : data.events) {
    if (event.kind != "retired" || !of_cell(event.launch)) continue;
    if (event.variant != 0)
      excluded.emplace(event.variant, retirement_text(event, data.variant(event.variant)));
  }
  return excluded;
}

std::string blocked(const LedgerData& data, const CellRow& cell, std::int64_t since) {
  if (const Slot parity{&cell, LaunchKind::Parity, 1};
      slot_state(data, parity, since) == SlotState::GivenUp)
    return "the parity launch failed: " + one_line(last_reason(data, parity));
  const auto excluded = excluded_variants(data, cell.id);
  bool any_level = false;
  for (const VariantRow* variant : variants_of(data, cell.id)) {
    const auto found = excluded.find(variant->id);
    if (variant->role == Role::Reference && found != excluded.end())
      return "its baseline cannot be measured: " + found->second;
    any_level = any_level || (variant->role == Role::Level && found == excluded.end());
  }
  return any_level ? "" : "no level beside the baseline is left to measure";
}

std::vector<LaunchTask> missing_launches(const LedgerData& data, std::int64_t since) {
  const Blocked why(data, since);
  std::vector<LaunchTask> tasks;
  for (const Slot& slot : all_slots(data)) {
    if (slot_state(data, slot, since) != SlotState::Missing || why.slot(slot)) continue;
    const auto attempts = std::count_if(data.launches.begin(),
                                        data.launches.end(),
                                        [&](const LaunchRow& l) { return fills(l, slot); });
    const LaunchRow* repeated = to_repeat(data, slot);
    tasks.push_back({slot.cell->id,
                     slot.kind,
                     slot.index,
                     static_cast<int>(attempts),
                     repeated == nullptr ? 0 : repeated->id});
  }
  return tasks;
}

std::vector<LookTask> looks_to_take(const LedgerData& data) {
  std::vector<LookTask> tasks;
  for (const CellRow& cell : data.cells) {
    const LookState state = look_state(data, cell);
    if (state.decided || state.taken == cell.looks.size()) continue;
    const int launches = cell.looks[state.taken];
    std::int64_t last = 0;
    int done = 0;
    for (const LaunchRow& launch : data.launches) {
      if (launch.cell != cell.id || !is_counted(launch) || data.superseded(launch.id) ||
          redo_is_asked(data, launch))
        continue;
      done += launch.index <= launches;
      if (launch.index == launches) last = launch.id;
    }
    if (last != 0 && done == launches) tasks.push_back({cell.id, last, launches});
  }
  return tasks;
}

PlanProgress plan_progress(const LedgerData& data, std::int64_t since) {
  PlanProgress progress;
  ProblemLines problems;
  std::vector<GivenUp> given_up;
  const Blocked why(data, since);
  for (const CellRow& cell : data.cells) {
    if (!why.cell(cell.id).empty()) problems.add(cell.name, why.cell(cell.id));
    add_exclusions(data, cell, problems);
  }
  for (const Slot& slot : all_slots(data)) {
    ++progress.planned;
    const SlotState state = slot_state(data, slot, since);
    if (state == SlotState::Done || state == SlotState::Partial) ++progress.done;
    if (state == SlotState::Partial) ++progress.partial;
    if (state == SlotState::GivenUp) {
      ++progress.failed;
      add_owed(data, slot, true, progress);
      add_told(data, slot, progress.launches_told);
      const std::string what =
          to_repeat(data, slot) == nullptr ? "" : "could not be measured again: ";
      if (slot.kind != LaunchKind::Parity)
        add_given_up(given_up, slot, what + last_reason(data, slot));
    }
    if (state != SlotState::Missing) continue;
    const std::string untraced =
        slot.kind == LaunchKind::Traced ? left_untraced(data, slot.cell->id) : "";
    if (!untraced.empty()) problems.add(slot.cell->name, "no trace: " + untraced);
    progress.untraced += !untraced.empty();
    const bool not_run = why.slot(slot) || !untraced.empty();
    ++(not_run ? progress.not_run : progress.missing);
    if (!not_run) add_owed(data, slot, false, progress);
  }
  for (const GivenUp& failed : given_up)
    problems.add(failed.cell->name + " " + numbered_launches_text(failed.kind, failed.indices),
                 failed.why);
  progress.problems = problems.take();
  return progress;
}

std::string numbered_launches_text(LaunchKind kind, const std::set<int>& indices) {
  const bool single = kind == LaunchKind::Parity || kind == LaunchKind::Memory ||
                      kind == LaunchKind::Traced || // where there is one, as a rule
                      kind == LaunchKind::Energy;
  if (indices.empty() || (single && indices == std::set{1}))
    return fmt::format("{} launch", to_string(kind));
  std::vector<std::string> parts;
  for (auto from = indices.begin(); from != indices.end();) {
    auto to = from;
    while (std::next(to) != indices.end() && *std::next(to) == *to + 1) ++to;
    parts.push_back(from == to ? std::to_string(*from) : fmt::format("{} to {}", *from, *to));
    from = std::next(to);
  }
  return fmt::format(
      "{} launch{} {}", to_string(kind), indices.size() == 1 ? "" : "es", fmt::join(parts, ", "));
}

std::string owed_text(const OwedLaunches& owed) {
  const bool numbered = owed.kind == LaunchKind::Timed || owed.kind == LaunchKind::Loss;
  std::string text =
      numbered
          ? fmt::format("{} of {} {} launches", owed.launches, owed.planned, to_string(owed.kind))
          : fmt::format("{} launch", to_string(owed.kind));
  std::vector<std::string> remarks;
  if (owed.again > 0) remarks.push_back(fmt::format("{} to be measured again", owed.again));
  if (owed.given_up > 0)
    remarks.push_back(numbered ? fmt::format("{} failed", owed.given_up) : "failed");
  return remarks.empty() ? text : fmt::format("{} ({})", text, fmt::join(remarks, ", "));
}

} // namespace assay
