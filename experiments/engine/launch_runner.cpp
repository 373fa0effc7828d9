#include "experiments/engine/launch_runner.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "core/ledger/covariates.h"
#include "core/ledger/launch_rules.h"
#include "core/ledger/stored_config.h"
#include "core/statistics/statistics.h"
#include "core/text.h"
#include "experiments/engine/data_fingerprint.h"
#include "experiments/engine/launch_requests.h"
#include "experiments/engine/stop_signal.h"
#include "experiments/evidence/cell_view.h"
#include "experiments/evidence/redo.h"
#include "experiments/plan/trace_size.h"

namespace assay {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

namespace {

constexpr double kRoundTimeoutFactor = 50; // times the median round
constexpr double kExitTimeoutSeconds = 30;

bool on_gpu(const CellRow& cell) {
  return stored_config(cell.config_json).value("device", "") == "cuda";
}

// A value the protocol promises, or the end of the launch.
template <class T> T require(Result<T> result, auto make_end) {
  if (!result) throw make_end(result.error().message);
  return std::move(*result);
}

} // namespace

struct LaunchRunner::End {
  enum class Why { Failed, Retired, Stopped, BadInput } why;
  std::string reason;

  static End failed(std::string reason) { return {Why::Failed, std::move(reason)}; }
  static End retired(std::string reason) { return {Why::Retired, std::move(reason)}; }
  static End stopped(std::string reason) { return {Why::Stopped, std::move(reason)}; }
  static End bad_input(std::string reason) { return {Why::BadInput, std::move(reason)}; }
};

LaunchRunner::LaunchRunner(LaunchContext& context, const LaunchTask& task)
    : context_(context), cell_(context.data.cell(task.cell)), task_(task),
      request_(launch_request_of(context.data, context.schedule, task)) {
  if (task.kind == LaunchKind::Energy) lengthen_visits();
  split();
  LaunchRow& row = outcome_.row;
  row.cell = task.cell;
  row.kind = task.kind;
  row.index = task.index;
  row.attempt = task.attempt;
  row.repeats = task.repeats;
  row.started_utc = utc_now();
  row.rounds_planned = rounds_wanted();
}

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

// Gates of an optimization compare its levels within a process; those of a matrix's variants look
// at each alone.
void LaunchRunner::split() {
  if (!cell_.turns || (task_.kind == LaunchKind::Parity && request_.expect.empty())) {
    processes_.push_back({.request = request_});
    for (std::size_t i = 0; i < request_.variants.size(); ++i)
      processes_.front().variants.push_back(i);
    return;
  }
  for (const std::size_t i : request_.build_order)
    processes_.push_back(
        {.request = request_of_variant(context_.data, request_, i), .variants = {i}});
}

// The process whose identity is the launch's: the reference's, or, where that has a program of its
// own, the first that runs this build's.
const LaunchRunner::Process& LaunchRunner::named_process() {
  const auto own =
      std::ranges::find_if(request_.variants, &std::string::empty, &LaunchVariant::worker);
  const auto named = own == request_.variants.end() ? request_.variants.begin() : own;
  return process_of(static_cast<std::size_t>(named - request_.variants.begin()));
}

LaunchRunner::Process& LaunchRunner::process_of(std::size_t variant) {
  return *std::ranges::find_if(processes_, [&](const Process& process) {
    return std::ranges::find(process.variants, variant) != process.variants.end();
  });
}

// Counted rounds of this launch; 0 for gates and memory.
int LaunchRunner::rounds_wanted() const {
  if (task_.kind == LaunchKind::Timed) return cell_.rounds;
  if (task_.kind == LaunchKind::Loss) return cell_.loss_rounds;
  if (task_.kind == LaunchKind::Energy) return cell_.energy_rounds;
  return task_.kind == LaunchKind::Traced ? cell_.traced_rounds : 0;
}

LaunchOutcome LaunchRunner::run() {
  outcome_.row.id = context_.ledger.start_launch(outcome_.row);
  if (task_.kind == LaunchKind::Traced)
    for (Process& process : processes_) {
      process.request.results_directory = context_.results_directory;
      process.request.launch = outcome_.row.id;
      process.request.cell = cell_.name;
    }
  if (!context_.waited.empty())
    add_event({outcome_.row.id, -1, utc_now(), "waited", context_.waited});
  if (task_.attempt > 0)
    add_event(
        {outcome_.row.id,
         -1,
         utc_now(),
         "restarted",
         fmt::format(
             "attempt {} of {} launch {}", task_.attempt + 1, to_string(task_.kind), task_.index)});
  try {
    if (cell_.apart && processes_.size() > 1) {
      one_after_the_other();
    } else {
      for (Process& process : processes_) start(process);
      converse();
    }
    if (is_more_disturbed()) {
      set_aside();
    } else {
      outcome_.row.state = LaunchState::Complete;
      context_.ledger.end_launch(outcome_.row.id, LaunchState::Complete, "", outcome_.row.steady);
    }
  } catch (const End& end) {
    close(end);
    if (end.why == End::Why::BadInput) throw Failure(Failure::Kind::BadInput, end.reason);
  }
  return std::move(outcome_);
}

// The log of a process beside others is named after its variant's number in the plan.
std::string LaunchRunner::owner_text(const Process& process) const {
  if (processes_.size() == 1) return "";
  const LaunchVariant& variant = request_.variants[process.variants.front()];
  return fmt::format("variant '{}'{}: ",
                     variant.name,
                     variant.worker.empty() ? "" : fmt::format(" ({})", variant.worker));
}

void LaunchRunner::start(Process& process) {
  const LaunchVariant& variant = request_.variants[process.variants.front()];
  const std::string own = processes_.size() == 1 ? "" : fmt::format(".{}", variant.id);
  const std::string log = (std::filesystem::path(context_.log_directory) /
                           fmt::format("launch-{}{}.log", outcome_.row.id, own))
                              .string();
  process.worker = start_worker(context_.options, variant, log);
  greet(process);
  build(process);
}

bool LaunchRunner::has_rounds() const {
  return task_.kind != LaunchKind::Parity && task_.kind != LaunchKind::Memory;
}

void LaunchRunner::check(Process& process) {
  const bool gates = task_.kind == LaunchKind::Parity;
  const char* what = gates ? "parity" : "memory";
  store_gates_and_metrics(
      process,
      ask(process, plain_request(what), what, context_.options.setup_timeout_seconds),
      gates);
}

void LaunchRunner::converse() {
  if (has_rounds())
    rounds();
  else
    for (Process& process : processes_) check(process);
  for (Process& process : processes_) finish(process);
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

json LaunchRunner::ask(Process& process, const json& request, const char* event, double timeout) {
  const std::string op = request.at("op");
  // A round is finished after the first signal and after the limit; gates and memory, which can
  // take a minute, are cut off.
  const bool in_round = op == "round" || op == "finish", cut = op == "parity" || op == "memory";
  StopSignal::acknowledge_with(in_round ? context_.options.acknowledge_in_round
                                        : context_.options.acknowledge);
  WorkerReply reply = process.worker->ask(request, event, WorkerProcess::Seconds(timeout), [&] {
    return cut ? !context_.stopped().empty() : StopSignal::count() >= (in_round ? 2 : 1);
  });
  switch (reply.kind) {
  case WorkerReply::Kind::Answer:
    return std::move(reply.event);
  case WorkerReply::Kind::BadInput:
    if (!built_) throw End::bad_input(reply.message);
    add_event({outcome_.row.id, timed_rounds_, utc_now(), "bad_input", reply.message});
    throw End::failed(reply.message);
  case WorkerReply::Kind::GivenUp:
    throw End::stopped(cut ? context_.stopped() : "interrupted");
  case WorkerReply::Kind::Failed:
    throw End::failed(owner_text(process) + reply.message);
  case WorkerReply::Kind::Retired:
    break;
  }
  const Retirement retired = require(parse_retired(reply.event), End::failed);
  const std::vector<LaunchVariant>& variants = process.request.variants;
  if (retired.variant >= variants.size())
    throw End::failed(fmt::format(
        "the worker retired variant {}, the launch has {}", retired.variant, variants.size()));
  const LaunchVariant& variant = variants[retired.variant];
  const std::string& name = variant.name;
  const std::string reason =
      printable(retired.reason) + (request.at("op") == "round" ? ", in " + round_text() : "");
  add_event({outcome_.row.id,
             timed_rounds_,
             utc_now(),
             "retired",
             name + ": " + reason,
             variant.id,
             retired.cause});
  throw End::retired(fmt::format("variant '{}' was retired: {}", name, reason));
}

void LaunchRunner::greet(Process& process) {
  const Identity identity = require(
      parse_hello(ask(process, hello_request(), "hello", context_.options.setup_timeout_seconds)),
      End::bad_input);
  const LaunchVariant& variant = process.request.variants.front();
  if (!variant.worker.empty()) check_own_build(variant, identity.build);
  if (&process != &named_process()) return;
  outcome_.row.identity = identity;
  if (!variant.worker.empty()) outcome_.row.identity.build = context_.build;
  context_.ledger.set_identity(outcome_.row.id, outcome_.row.identity, "");
  if (!variant.worker.empty()) return;
  if (!context_.build.empty() && identity.build != context_.build)
    throw End::bad_input(fmt::format(
        "the worker's build {} is not the one that measured so far ({}): launches of two "
        "builds are never mixed. Bring that build back, {}",
        identity.build,
        context_.build,
        kStartAnew));
  context_.build = identity.build;
}

// A variant's own program is the same in all launches too.
void LaunchRunner::check_own_build(const LaunchVariant& variant, const std::string& build) {
  const auto measured = std::ranges::find_if(context_.data.metrics, [&](const MetricRow& metric) {
    return metric.path == kWorkerBuildMetric && metric.variant == variant.id;
  });
  if (measured != context_.data.metrics.end() && measured->detail != build)
    throw End::bad_input(fmt::format(
        "{}: build {} is not the one that measured variant '{}' so far ({}); bring that build "
        "back, {}",
        variant.worker,
        build,
        variant.name,
        measured->detail,
        kStartAnew));
  add_data({outcome_.row.id,
            variant.id,
            kWorkerBuildMetric,
            "",
            std::numeric_limits<double>::quiet_NaN(), // the value is the text
            build});
}

void LaunchRunner::build(Process& process) {
  const Built built = require(parse_built(ask(process,
                                              launch_request(process.request),
                                              "built",
                                              context_.options.setup_timeout_seconds)),
                              End::failed);
  std::string& order = outcome_.row.build_order;
  order += (order.empty() ? "" : " ") + built.build_order;
  const bool named = &process == &named_process();
  if (named) outcome_.row.identity.threads = built.threads;
  context_.ledger.set_identity(outcome_.row.id, outcome_.row.identity, order);
  if (const auto other = other_data(context_.data, cell_, built.data)) throw End::bad_input(*other);
  built_ = true;
  if (!built.warning.empty()) context_.on_warning(built.warning);
  if (named) add_data(data_fingerprint_row(outcome_.row.id, built.data));
}

void LaunchRunner::add_data(MetricRow row) {
  context_.ledger.add({row}, {}, {});
  outcome_.data.push_back(std::move(row));
}

double LaunchRunner::round_timeout() const {
  if (round_seconds_.empty()) return context_.options.setup_timeout_seconds;
  return std::max(context_.options.least_round_timeout_seconds,
                  kRoundTimeoutFactor * median(round_seconds_));
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

void LaunchRunner::one_round(int round, WarmUp& warmup) {
  const RoundKind kind = next_round(warmup);
  const std::vector<VisitRow> visits = visits_of_round(round, kind);
  const std::vector<EventRow> events = warm_up(warmup, kind, visits, round);
  context_.ledger.commit_round(visits, events);
  outcome_.events.insert(outcome_.events.end(), events.begin(), events.end());
  count_round(kind, visits);
  context_.on_round({timed_rounds_,
                     next_round(warmup) == RoundKind::WarmUp,
                     round + 1,
                     outcome_.disturbed_rounds});
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

void LaunchRunner::store_gates_and_metrics(const Process& process, const json& event, bool gates) {
  const std::vector<LaunchVariant>& variants = process.request.variants;
  std::vector<GateRow> rows;
  if (gates) rows = require(parse_gates(event, outcome_.row.id, variants), End::failed);
  context_.ledger.add(
      require(parse_metrics(event, outcome_.row.id, variants), End::failed), rows, {});
  outcome_.gates.insert(outcome_.gates.end(), rows.begin(), rows.end());
}

// The launch's own measurements are stored by now; a bye that fails is still a failed launch.
void LaunchRunner::finish(Process& process) {
  const json bye =
      ask(process, plain_request("finish"), "bye", context_.options.setup_timeout_seconds);
  context_.ledger.add(
      require(parse_metrics(bye, outcome_.row.id, process.request.variants), End::failed), {}, {});
  if (const std::string how = process.worker->finish(WorkerProcess::Seconds(kExitTimeoutSeconds));
      !how.empty())
    throw End::failed("the worker " + how + " at its end");
}

void LaunchRunner::add_event(const EventRow& event) {
  context_.ledger.add({}, {}, {event});
  outcome_.events.push_back(event);
}

// A launch that measures another again takes its place, but not where more rounds are disturbed
// than the limit and than in the earlier one. By covariates alone, never by times.
bool LaunchRunner::is_more_disturbed() const {
  const DisturbedLaunch own{.disturbed = outcome_.disturbed_rounds,
                            .rounds = outcome_.counted_rounds};
  if (task_.repeats == 0 || !beyond_limit(own.disturbed, own.rounds, context_.data.spec.limits))
    return false;
  const std::vector<DisturbedLaunch> counted = disturbed_rounds(context_.ledger.read());
  return std::any_of(counted.begin(), counted.end(), [&](const DisturbedLaunch& earlier) {
    return earlier.launch == task_.repeats && earlier.share() < own.share();
  });
}

void LaunchRunner::set_aside() {
  outcome_.row.state = LaunchState::Failed;
  outcome_.row.reason =
      fmt::format("set aside: {} of {} rounds disturbed; the earlier launch counts",
                  outcome_.disturbed_rounds,
                  outcome_.counted_rounds);
  add_event({outcome_.row.id, timed_rounds_, utc_now(), "set_aside", outcome_.row.reason});
  context_.ledger.end_launch(
      outcome_.row.id, LaunchState::Failed, outcome_.row.reason, outcome_.row.steady);
}

// With at least half of its rounds a timed launch counts as partial, else it is to be run again. A
// repetition that ended early takes no launch's place: a person could choose by when he stops it.
void LaunchRunner::close(const End& end) {
  const bool stored = !cell_.apart || processes_.size() == 1; // processes apart store at the end
  const bool enough = stored && task_.kind == LaunchKind::Timed && task_.repeats == 0 &&
                      enough_rounds(timed_rounds_, cell_.rounds);
  if (end.why == End::Why::Stopped)
    add_event({outcome_.row.id, timed_rounds_, utc_now(), "stopped", end.reason});
  outcome_.row.state = enough ? LaunchState::Partial : LaunchState::Failed;
  outcome_.row.reason = end.reason;
  context_.ledger.end_launch(outcome_.row.id, outcome_.row.state, end.reason, outcome_.row.steady);
}

} // namespace assay
