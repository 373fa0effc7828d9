#include "experiments/attribution/trace_diff.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "core/trace/kernel_name.h"
#include "experiments/attribution/kernel_class.h"
#include "experiments/attribution/stage_timeline.h"

namespace assay {

namespace {

struct Side { // of one row: means over a round's steps, by round
  std::vector<double> ns, calls;
};
struct Sides {
  Side a, b;
};
using RowKey = std::pair<std::string, Stage>;
using Rows = std::map<RowKey, Sides>;

// Adds to one side of the rows, keyed by the trace's own name ids so that names are compared once.
class Collector {
public:
  Collector(Rows& rows, Side Sides::*side, const Trace& trace, std::size_t rounds)
      : rows_(rows), side_(side), trace_(trace), rounds_(rounds) {}

  void add(NameId name, Stage stage, const TracePairs::Place& place, double ns, double calls) {
    if (place.round < 0) return;
    Side*& side = known_[{name, stage}];
    if (side == nullptr) side = &make(name, stage);
    side->ns[static_cast<std::size_t>(place.round)] += place.weight * ns;
    side->calls[static_cast<std::size_t>(place.round)] += place.weight * calls;
  }

private:
  Side& make(NameId name, Stage stage) {
    Sides& sides = rows_[{trace_.name(name), stage}];
    for (Side* side : {&sides.a, &sides.b}) {
      side->ns.resize(rounds_);
      side->calls.resize(rounds_);
    }
    return sides.*side_;
  }

  Rows& rows_;
  Side Sides::*side_;
  const Trace& trace_;
  std::size_t rounds_;
  std::map<std::pair<NameId, Stage>, Side*> known_;
};

void collect_device(Collector& into,
                    const Trace& trace,
                    const TiledTrace& tiled,
                    const std::vector<TracePairs::Place>& places) {
  for (const DeviceShare& share : tiled.shares)
    into.add(trace.device[share.event].name,
             share.stage,
             places[share.step],
             static_cast<double>(share.ns),
             0);
  for (std::size_t i = 0; i < tiled.owners.size(); ++i)
    if (const DeviceOwner& owner = tiled.owners[i]; owner.step >= 0)
      into.add(
          trace.device[i].name, owner.stage, places[static_cast<std::size_t>(owner.step)], 0, 1);
}

// Duration of each operator without those that it encloses on its thread.
std::vector<std::int64_t> own_times(const std::vector<HostEvent>& operators) {
  std::vector<std::size_t> order(operators.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t x, std::size_t y) {
    const HostEvent &p = operators[x], &q = operators[y];
    return std::tie(p.thread, p.start, p.depth) < std::tie(q.thread, q.start, q.depth);
  });
  std::vector<std::int64_t> own(operators.size());
  std::vector<std::size_t> open;
  for (const std::size_t i : order) {
    const HostEvent& call = operators[i];
    own[i] = std::max<std::int64_t>(0, call.end - call.start);
    while (!open.empty() && (operators[open.back()].thread != call.thread ||
                             operators[open.back()].depth >= call.depth))
      open.pop_back();
    if (!open.empty()) own[open.back()] = std::max<std::int64_t>(0, own[open.back()] - own[i]);
    open.push_back(i);
  }
  return own;
}

// Each operator in the stage that its step's thread is in, also those of autograd's threads.
void collect_operators(Collector& into,
                       const Trace& trace,
                       const std::vector<TracePairs::Place>& places) {
  const std::vector<std::int64_t> own = own_times(trace.operators);
  std::map<std::int64_t, StageTimeline> timelines;
  for (std::size_t i = 0; i < trace.operators.size(); ++i) {
    const HostEvent& call = trace.operators[i];
    const std::int64_t step = step_at(trace.steps, call.start);
    if (step < 0) continue;
    const std::int64_t thread = trace.steps[static_cast<std::size_t>(step)].global_tid;
    const StageTimeline& timeline = timelines.try_emplace(thread, trace, thread).first->second;
    into.add(call.name,
             timeline.at(call.start).value_or(Stage::HostGap),
             places[static_cast<std::size_t>(step)],
             static_cast<double>(own[i]),
             1);
  }
}

struct Tested { // a row present on both sides
  std::size_t row = 0;
  double p = 1;
};

DiffRow
make_row(const RowKey& key, const Sides& sides, std::vector<Tested>& tested, std::size_t at) {
  DiffRow row;
  row.name = key.first;
  row.short_name = short_kernel_name(key.first);
  row.kernel_class = kernel_class(key.first);
  row.stage = key.second;
  row.a_ns = mean(sides.a.ns);
  row.b_ns = mean(sides.b.ns);
  row.calls_a = mean(sides.a.calls);
  row.calls_b = mean(sides.b.calls);
  std::vector<double> deltas(sides.a.ns.size());
  for (std::size_t i = 0; i < deltas.size(); ++i) deltas[i] = sides.b.ns[i] - sides.a.ns[i];
  row.delta_ns = mean(deltas);
  row.interval = t_interval(deltas, kShownAlpha);
  if (row.calls_a == 0 && row.a_ns == 0)
    row.status = DiffStatus::Added;
  else if (row.calls_b == 0 && row.b_ns == 0)
    row.status = DiffStatus::Removed;
  else if (const std::optional<double> p = t_test_p(deltas))
    tested.push_back({at, *p});
  return row;
}

bool is_same(const DiffRow& row, double step_ns) {
  const double limit = std::max(kSameShareOfRow * row.a_ns, kSameShareOfStep * step_ns);
  return row.interval && row.interval->lower > -limit && row.interval->upper < limit;
}

// Same comes first: a difference that is sure and too small to matter is no finding.
void judge_rows(std::vector<DiffRow>& rows, const std::vector<Tested>& tested, double step_ns) {
  std::vector<double> p_values;
  for (const Tested& test : tested) p_values.push_back(test.p);
  const std::vector<bool> differs = benjamini_hochberg(p_values, kFalseDiscoveryRate);
  for (std::size_t i = 0; i < tested.size(); ++i) {
    DiffRow& row = rows[tested[i].row];
    if (is_same(row, step_ns))
      row.status = DiffStatus::Same;
    else if (differs[i])
      row.status = row.delta_ns < 0 ? DiffStatus::Faster : DiffStatus::Slower;
    else
      row.status = DiffStatus::Unclear;
  }
}

std::vector<DiffRow> finish(const Rows& sides, double step_ns) {
  std::vector<DiffRow> rows;
  std::vector<Tested> tested;
  for (const auto& [key, both] : sides) rows.push_back(make_row(key, both, tested, rows.size()));
  judge_rows(rows, tested, step_ns);
  std::stable_sort(rows.begin(), rows.end(), [](const DiffRow& x, const DiffRow& y) {
    return std::abs(x.delta_ns) > std::abs(y.delta_ns);
  });
  return rows;
}

} // namespace

std::vector<DiffRow> diff_device(const Trace& a,
                                 const TiledTrace& tiled_a,
                                 const Trace& b,
                                 const TiledTrace& tiled_b,
                                 const TracePairs& pairs,
                                 double step_ns) {
  Rows rows;
  Collector of_a(rows, &Sides::a, a, pairs.rounds.size());
  Collector of_b(rows, &Sides::b, b, pairs.rounds.size());
  collect_device(of_a, a, tiled_a, pairs.places_a);
  collect_device(of_b, b, tiled_b, pairs.places_b);
  return finish(rows, step_ns);
}

std::vector<DiffRow>
diff_operators(const Trace& a, const Trace& b, const TracePairs& pairs, double step_ns) {
  Rows rows;
  Collector of_a(rows, &Sides::a, a, pairs.rounds.size());
  Collector of_b(rows, &Sides::b, b, pairs.rounds.size());
  collect_operators(of_a, a, pairs.places_a);
  collect_operators(of_b, b, pairs.places_b);
  return finish(rows, step_ns);
}

} // namespace assay
