// The rounds of a launch: all processes in turns, or one after the other.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include "core/ledger/covariates.h"
#include "core/ledger/stored_config.h"
#include "core/statistics/statistics.h"
#include "core/text.h"
#include "experiments/engine/launch_end.h"
#include "experiments/engine/launch_runner.h"
#include "experiments/evidence/cell_view.h"
#include "experiments/plan/trace_size.h"

namespace assay {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

namespace {

constexpr double kRoundTimeoutFactor = 50; // times the median round

bool on_gpu(const CellRow& cell) {
  return stored_config(cell.config_json).value("device", "") == "cuda";
}

} // namespace

// By the timed launches, so that the shortest visit takes kEnergySeconds.
void LaunchRunner::lengthen_visits() {
  const LedgerData measured = context_.ledger.read();
  const std::vector<CellView> views = cell_views(measured);
  const auto view =
      std::ranges::find(views, cell_.id, [](const CellView& v) { return v.cell->id; });
  std::optional<double> shortest; // ns
  for (const VariantRow* variant : view->variants) {
    std::vector<double> walls;
    for (const LaunchRow* launch : view->counted)
      for (const VisitRow* visit : view->visits(launch->id, variant->id))
        if (!visit->warmup) walls.push_back(static_cast<double>(visit->wall_ns));
    if (walls.empty()) continue;
    const double typical = median(std::move(walls));
    shortest = std::min(shortest.value_or(typical), typical);
  }
  if (!shortest) return; // nothing is timed: its visits tell little, and the report says how long
  const double counted = request_.visit_steps - request_.discard_steps;
  request_.visit_steps =
      request_.discard_steps +
      static_cast<int>(std::ceil(std::max(1.0, 1.05 * kEnergySeconds * 1e9 / *shortest) * counted));
}

// Counted rounds of this launch; 0 for gates and memory.
int LaunchRunner::rounds_wanted() const {
  if (task_.kind == LaunchKind::Timed) return cell_.rounds;
  if (task_.kind == LaunchKind::Loss) return cell_.loss_rounds;
  if (task_.kind == LaunchKind::Energy) return cell_.energy_rounds;
  return task_.kind == LaunchKind::Traced ? cell_.traced_rounds : 0;
}

void LaunchRunner::rounds() {
  WarmUp warmup(on_gpu(cell_));
  for (int round = 0; timed_rounds_ < rounds_wanted(); ++round) {
    one_round(round, warmup);
    if (energy_unread_) return;
    const bool more = timed_rounds_ < rounds_wanted();
    if (const std::string why = context_.stopped(); more && !why.empty())
      throw End::stopped(why + place_text(round));
  }
}

void LaunchRunner::one_round(int round, WarmUp& warmup) {
  const RoundKind kind = next_round(warmup);
  const std::vector<VisitRow> visits = visits_of_round(round, kind);
  const std::vector<EventRow> events = warm_up(warmup, kind, visits, round);
  context_.ledger.commit_round(visits, events);
  store_readings();
  outcome_.events.insert(outcome_.events.end(), events.begin(), events.end());
  count_round(kind, visits);
  context_.on_round({timed_rounds_,
                     next_round(warmup) == RoundKind::WarmUp,
                     round + 1,
                     outcome_.disturbed_rounds});
}

std::vector<VisitRow> LaunchRunner::visits_of_round(int round, RoundKind kind) {
  const std::vector<std::size_t> order = context_.schedule.order(
      cell_.name, task_.index, task_.attempt, round, request_.variants.size());
  warmup_round_ = kind == RoundKind::Counted ? 0 : round + 1;
  const auto start = Clock::now();
  std::vector<VisitRow> visits;
  if (processes_.size() == 1) {
    visits = visits_in(processes_.front(), round, order, kind);
  } else {
    for (std::size_t position = 0; position < order.size(); ++position) {
      visits.push_back(visits_in(process_of(order[position]), round, {0}, kind).front());
      visits.back().position = static_cast<int>(position);
    }
  }
  round_seconds_.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  for (VisitRow& visit : visits) visit.warmup = kind != RoundKind::Counted;
  return visits;
}

std::vector<VisitRow> LaunchRunner::visits_in(Process& process,
                                              int round,
                                              const std::vector<std::size_t>& order,
                                              RoundKind kind) {
  const bool hold = processes_.size() > 1 && !cell_.apart;
  const json event =
      ask(process, round_request(round, order, tracing(kind), hold), "round", round_timeout());
  return require(parse_round(event, outcome_.row.id, round, order, process.request.variants),
                 End::failed);
}

LaunchRunner::RoundKind LaunchRunner::next_round(const WarmUp& warmup) const {
  if (task_.kind == LaunchKind::Energy) // visits are longer than any warm-up
    return warm_rounds_ == 0 ? RoundKind::WarmUp : RoundKind::Counted;
  const bool times = task_.kind != LaunchKind::Loss; // losses count from the first step on
  if (times && warmup.state() == WarmUp::State::Warming) return RoundKind::WarmUp;
  const bool traced = task_.kind == LaunchKind::Traced;
  return traced && traced_warm_rounds_ < kTracedWarmRounds ? RoundKind::TracerWarmUp
                                                           : RoundKind::Counted;
}

Tracing LaunchRunner::tracing(RoundKind kind) const {
  if (kind == RoundKind::TracerWarmUp) return Tracing::WarmUp;
  return kind == RoundKind::Counted && task_.kind == LaunchKind::Traced ? Tracing::Counted
                                                                        : Tracing::Off;
}

// The rule that ends the warm-up. Visits of an energy launch are longer than any.
std::vector<EventRow> LaunchRunner::warm_up(WarmUp& warmup,
                                            RoundKind kind,
                                            const std::vector<VisitRow>& visits,
                                            int round) {
  if (task_.kind == LaunchKind::Energy) {
    energy_unread_ = std::ranges::none_of(
        visits, [](const VisitRow& visit) { return visit.covariates.energy_j.has_value(); });
    if (!energy_unread_) return {};
    return {{outcome_.row.id,
             round,
             utc_now(),
             "no_energy",
             "neither the driver nor the kernel gives the energy that the device drew"}};
  }
  if (kind != RoundKind::WarmUp || warmup.state() != WarmUp::State::Warming ||
      warmup.add(visits) == WarmUp::State::Warming)
    return {};
  outcome_.row.steady = outcome_.row.steady && warmup.state() == WarmUp::State::Steady;
  return {{outcome_.row.id, round, utc_now(), "warmup_end", warmup.detail()}};
}

void LaunchRunner::count_round(RoundKind kind, const std::vector<VisitRow>& visits) {
  if (kind == RoundKind::WarmUp) ++warm_rounds_;
  if (kind == RoundKind::TracerWarmUp) ++traced_warm_rounds_;
  if (kind != RoundKind::Counted) return;
  ++timed_rounds_;
  outcome_.counted_rounds = timed_rounds_;
  outcome_.disturbed_rounds +=
      std::any_of(visits.begin(), visits.end(), [&](const VisitRow& visit) {
        return !disturbance(visit.covariates, context_.data.spec.limits).empty();
      });
}

double LaunchRunner::round_timeout() const {
  if (round_seconds_.empty()) return context_.options.setup_timeout_seconds;
  return std::max(context_.options.least_round_timeout_seconds,
                  kRoundTimeoutFactor * median(round_seconds_));
}

// " after round 3 of 36", or " after warm-up round 7": `round` counts both kinds from 0.
std::string LaunchRunner::place_text(int round) const {
  if (timed_rounds_ == 0) return fmt::format(" after warm-up round {}", round + 1);
  return fmt::format(" after round {} of {}", timed_rounds_, rounds_wanted());
}

// The round that the worker runs: "round 3 of 36", "warm-up round 7".
std::string LaunchRunner::round_text() const {
  if (warmup_round_ > 0) return fmt::format("warm-up round {}", warmup_round_);
  return fmt::format("round {} of {}", timed_rounds_ + 1, rounds_wanted());
}

// A round is in the ledger whole, so all are stored at the end. The first process decides how many
// rounds warm up; the others run as many, so that equal rounds have equal batches.
void LaunchRunner::one_after_the_other() {
  const std::vector<std::size_t> order =
      context_.schedule.order(cell_.name, task_.index, task_.attempt, 0, request_.variants.size());
  std::vector<RoundKind> kinds;
  std::vector<std::vector<VisitRow>> rounds; // by round, in the order of the processes
  for (const std::size_t variant : order) {
    Process& process = process_of(variant);
    start(process);
    if (has_rounds())
      all_rounds_of(process, kinds, rounds);
    else
      check(process);
    finish(process);
    process.worker.reset();
  }
  timed_rounds_ = 0;
  for (std::size_t round = 0; round < rounds.size(); ++round) {
    context_.ledger.commit_round(rounds[round], {});
    count_round(kinds[round], rounds[round]);
  }
}

void LaunchRunner::all_rounds_of(Process& process,
                                 std::vector<RoundKind>& kinds,
                                 std::vector<std::vector<VisitRow>>& rounds) {
  const bool first = kinds.empty();
  const auto done = first ? 0 : std::ssize(rounds.front()); // processes
  const auto all = std::ssize(processes_);
  WarmUp warmup(on_gpu(cell_));
  timed_rounds_ = warm_rounds_ = traced_warm_rounds_ = 0;
  for (int round = 0; timed_rounds_ < rounds_wanted() && !energy_unread_; ++round) {
    const auto place = static_cast<std::size_t>(round);
    if (first) {
      kinds.push_back(next_round(warmup));
      rounds.emplace_back();
    }
    const RoundKind kind = kinds.at(place);
    warmup_round_ = kind == RoundKind::Counted ? 0 : round + 1;
    const auto start = Clock::now();
    VisitRow visit = visits_in(process, round, {0}, kind).front();
    round_seconds_.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    visit.position = static_cast<int>(done);
    visit.warmup = kind != RoundKind::Counted;
    rounds[place].push_back(visit);
    for (const EventRow& event : warm_up(warmup, kind, {visit}, round)) add_event(event);
    ++(kind == RoundKind::Counted        ? timed_rounds_
       : kind == RoundKind::TracerWarmUp ? traced_warm_rounds_
                                         : warm_rounds_);
    context_.on_round({static_cast<int>((done * rounds_wanted() + timed_rounds_) / all),
                       kind != RoundKind::Counted,
                       static_cast<int>((done * std::ssize(kinds) + round + 1 + all - 1) / all),
                       0});
    const bool more = timed_rounds_ < rounds_wanted() || done + 1 < all;
    if (const std::string why = context_.stopped(); more && !why.empty())
      throw End::stopped(
          fmt::format("{}{} of process {} of {}", why, place_text(round), done + 1, all));
  }
  const bool warmed = std::ranges::count(kinds, RoundKind::WarmUp) > 0;
  if (warmed && task_.kind != LaunchKind::Energy && warmup.state() != WarmUp::State::Steady)
    outcome_.row.steady = false; // it took the first process's rounds, and needed more
}

} // namespace assay
