#include "experiments/engine/launch_runner.h"

#include <algorithm>
#include <filesystem>

#include "core/ledger/covariates.h"
#include "core/ledger/launch_rules.h"
#include "core/ledger/stored_config.h"
#include "core/statistics/statistics.h"
#include "core/text.h"
#include "experiments/engine/data_fingerprint.h"
#include "experiments/engine/stop_signal.h"
#include "experiments/evidence/redo.h"

namespace assay {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

namespace {

constexpr double kRoundTimeoutFactor = 50; // times the median round
constexpr double kExitTimeoutSeconds = 30;
constexpr int kTracedWarmRounds = 2; // traced and not counted: the tracer's own first use

// Timed and loss launches have initial weights and documents of their own, so that an interval over
// launches includes the variation of data. A loss launch ends with its schedule, so that its last
// losses are those of a finished training.
std::string
launch_config(const std::string& config_json, const CellRow& cell, const LaunchTask& task) {
  if (task.kind != LaunchKind::Timed && task.kind != LaunchKind::Loss) return config_json;
  json config = stored_config(config_json);
  config["seed"] = launch_seed(config.at("seed").get<std::uint64_t>(), task.index);
  if (task.kind == LaunchKind::Loss) config["steps"] = cell.loss_rounds * cell.loss_steps;
  return config.dump();
}

// The variants of a launch. Only times and memory are measured against a second copy of the
// reference.
std::vector<LaunchVariant> participants(const LedgerData& data, const LaunchTask& task) {
  const auto excluded = excluded_variants(data, task.cell, task.kind);
  std::vector<LaunchVariant> result;
  for (const VariantRow* v : variants_of(data, task.cell)) {
    if (excluded.contains(v->id)) continue;
    if (v->role == Role::Control && task.kind != LaunchKind::Timed &&
        task.kind != LaunchKind::Memory)
      continue;
    result.push_back({v->id,
                      v->name,
                      v->level,
                      v->role,
                      launch_config(v->config_json, data.cell(task.cell), task)});
  }
  return result;
}

bool on_gpu(const CellRow& cell) {
  return stored_config(cell.config_json).value("device", "") == "cuda";
}

// A value the protocol promises, or the end of the launch.
template <class T> T require(Result<T> result, auto make_end) {
  if (!result) throw make_end(result.error().message);
  return std::move(*result);
}

// What is expected of a cell's variants; "" where a row of the table says so.
std::string expected_of_keys(const LedgerData& data, const CellRow& cell) {
  for (const OptimizationRow& row : data.optimizations)
    if (row.name == cell.optimization && row.scope == kScopeOfKeys) return row.equivalence;
  return "";
}

} // namespace

LaunchRequest
reference_request(const LedgerData& data, const CellRow& cell, std::string_view kind) {
  const VariantRow& reference = *variants_of(data, cell.id).front();
  LaunchRequest request;
  request.kind = kind;
  request.seed = data.spec.seed;
  request.unit = cell.unit;
  request.optimization = cell.optimization;
  request.expect = expected_of_keys(data, cell);
  request.visit_steps = cell.visit_steps;
  request.discard_steps = cell.discard_steps;
  request.variants = {
      {reference.id, reference.name, reference.level, reference.role, reference.config_json}};
  return request;
}

struct LaunchRunner::End {
  enum class Why { Failed, Retired, Stopped, BadInput } why;
  std::string reason;

  static End failed(std::string reason) { return {Why::Failed, std::move(reason)}; }
  static End retired(std::string reason) { return {Why::Retired, std::move(reason)}; }
  static End stopped(std::string reason) { return {Why::Stopped, std::move(reason)}; }
  static End bad_input(std::string reason) { return {Why::BadInput, std::move(reason)}; }
};

LaunchRunner::LaunchRunner(LaunchContext& context, const LaunchTask& task)
    : context_(context), cell_(context.data.cell(task.cell)), task_(task) {
  request_.kind = to_string(task.kind);
  request_.seed = context.schedule.launch_seed(cell_.name, request_.kind, task.index, task.attempt);
  request_.unit = cell_.unit;
  request_.optimization = cell_.optimization;
  request_.expect = expected_of_keys(context.data, cell_);
  request_.visit_steps = cell_.visit_steps;
  request_.discard_steps = cell_.discard_steps;
  if (task.kind == LaunchKind::Loss) { // it trains, whatever the cell times
    request_.unit = "train_step";
    request_.visit_steps = cell_.loss_steps;
    request_.discard_steps = 0;
  }
  request_.variants = participants(context.data, task);
  request_.build_order =
      context.schedule.build_order(cell_.name, task.index, request_.variants.size());
  LaunchRow& row = outcome_.row;
  row.cell = task.cell;
  row.kind = task.kind;
  row.index = task.index;
  row.attempt = task.attempt;
  row.repeats = task.repeats;
  row.started_utc = utc_now();
  row.rounds_planned = rounds_wanted();
}

// Counted rounds of this launch; 0 for gates and memory.
int LaunchRunner::rounds_wanted() const {
  if (task_.kind == LaunchKind::Timed) return cell_.rounds;
  if (task_.kind == LaunchKind::Loss) return cell_.loss_rounds;
  return task_.kind == LaunchKind::Traced ? cell_.traced_rounds : 0;
}

LaunchOutcome LaunchRunner::run() {
  outcome_.row.id = context_.ledger.start_launch(outcome_.row);
  if (task_.kind == LaunchKind::Traced) {
    request_.results_directory = context_.results_directory;
    request_.launch = outcome_.row.id;
    request_.cell = cell_.name;
  }
  if (!context_.waited.empty())
    add_event({outcome_.row.id, -1, utc_now(), "waited", context_.waited});
  if (task_.attempt > 0)
    add_event(
        {outcome_.row.id,
         -1,
         utc_now(),
         "restarted",
         fmt::format("attempt {} of {} launch {}", task_.attempt + 1, request_.kind, task_.index)});
  const std::string log = (std::filesystem::path(context_.log_directory) /
                           fmt::format("launch-{}.log", outcome_.row.id))
                              .string();
  try {
    WorkerProcess worker(context_.options.worker_path, context_.options.worker_arguments, log);
    converse(worker);
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

void LaunchRunner::converse(WorkerProcess& worker) {
  greet(worker);
  build(worker);
  const double timeout = context_.options.setup_timeout_seconds;
  switch (task_.kind) {
  case LaunchKind::Parity:
    store_gates_and_metrics(ask(worker, plain_request("parity"), "parity", timeout), true);
    break;
  case LaunchKind::Memory:
    store_gates_and_metrics(ask(worker, plain_request("memory"), "memory", timeout), false);
    break;
  case LaunchKind::Timed:
  case LaunchKind::Traced:
  case LaunchKind::Loss:
    rounds(worker);
    break;
  }
  finish(worker);
}

json LaunchRunner::ask(WorkerProcess& worker,
                       const json& request,
                       const char* event,
                       double timeout) {
  const std::string op = request.at("op");
  // A round is finished after the first signal and after the limit; gates and memory, which can
  // take a minute, are cut off.
  const bool in_round = op == "round" || op == "finish", cut = op == "parity" || op == "memory";
  StopSignal::acknowledge_with(in_round ? context_.options.acknowledge_in_round
                                        : context_.options.acknowledge);
  WorkerReply reply = worker.ask(request, event, WorkerProcess::Seconds(timeout), [&] {
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
    throw End::failed(reply.message);
  case WorkerReply::Kind::Retired:
    break;
  }
  const Retirement retired = require(parse_retired(reply.event), End::failed);
  if (retired.variant >= request_.variants.size())
    throw End::failed(fmt::format("the worker retired variant {}, the launch has {}",
                                  retired.variant,
                                  request_.variants.size()));
  const LaunchVariant& variant = request_.variants[retired.variant];
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

void LaunchRunner::greet(WorkerProcess& worker) {
  outcome_.row.identity = require(
      parse_hello(ask(worker, hello_request(), "hello", context_.options.setup_timeout_seconds)),
      End::bad_input);
  const Identity& identity = outcome_.row.identity;
  context_.ledger.set_identity(outcome_.row.id, identity, "");
  if (!context_.build.empty() && identity.build != context_.build)
    throw End::bad_input(fmt::format(
        "the worker's build {} is not the one that measured so far ({}): launches of two "
        "builds are never mixed. "
        "Use --fork to set the old results aside and start again, or bring that build back",
        identity.build,
        context_.build));
  context_.build = identity.build;
}

void LaunchRunner::build(WorkerProcess& worker) {
  const Built built = require(
      parse_built(
          ask(worker, launch_request(request_), "built", context_.options.setup_timeout_seconds)),
      End::failed);
  outcome_.row.build_order = built.build_order;
  outcome_.row.identity.threads = built.threads;
  context_.ledger.set_identity(outcome_.row.id, outcome_.row.identity, built.build_order);
  if (const auto other = other_data(context_.data, cell_, built.data)) throw End::bad_input(*other);
  built_ = true;
  if (!built.warning.empty()) context_.on_warning(built.warning);
  outcome_.data = {data_fingerprint_row(outcome_.row.id, built.data)};
  context_.ledger.add(outcome_.data, {}, {});
}

double LaunchRunner::round_timeout() const {
  if (round_seconds_.empty()) return context_.options.setup_timeout_seconds;
  return std::max(context_.options.least_round_timeout_seconds,
                  kRoundTimeoutFactor * median(round_seconds_));
}

void LaunchRunner::rounds(WorkerProcess& worker) {
  WarmUp warmup(on_gpu(cell_));
  for (int round = 0; timed_rounds_ < rounds_wanted(); ++round) {
    one_round(worker, round, warmup);
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

std::vector<VisitRow>
LaunchRunner::visits_of_round(WorkerProcess& worker, int round, RoundKind kind) {
  const std::vector<std::size_t> order = context_.schedule.order(
      cell_.name, task_.index, task_.attempt, round, request_.variants.size());
  warmup_round_ = kind == RoundKind::Counted ? 0 : round + 1;
  const auto start = Clock::now();
  const json event =
      ask(worker, round_request(round, order, tracing(kind)), "round", round_timeout());
  round_seconds_.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  std::vector<VisitRow> visits =
      require(parse_round(event, outcome_.row.id, round, order, request_.variants), End::failed);
  for (VisitRow& visit : visits) visit.warmup = kind != RoundKind::Counted;
  return visits;
}

void LaunchRunner::one_round(WorkerProcess& worker, int round, WarmUp& warmup) {
  const RoundKind kind = next_round(warmup);
  const std::vector<VisitRow> visits = visits_of_round(worker, round, kind);
  std::vector<EventRow> events;
  if (kind == RoundKind::WarmUp && warmup.add(visits) != WarmUp::State::Warming) {
    outcome_.row.steady = warmup.state() == WarmUp::State::Steady;
    events.push_back({outcome_.row.id, round, utc_now(), "warmup_end", warmup.detail()});
  }
  context_.ledger.commit_round(visits, events);
  outcome_.events.insert(outcome_.events.end(), events.begin(), events.end());
  count_round(kind, visits);
  context_.on_round({timed_rounds_,
                     next_round(warmup) == RoundKind::WarmUp,
                     round + 1,
                     outcome_.disturbed_rounds});
}

void LaunchRunner::count_round(RoundKind kind, const std::vector<VisitRow>& visits) {
  if (kind == RoundKind::TracerWarmUp) ++traced_warm_rounds_;
  if (kind != RoundKind::Counted) return;
  ++timed_rounds_;
  outcome_.counted_rounds = timed_rounds_;
  outcome_.disturbed_rounds +=
      std::any_of(visits.begin(), visits.end(), [&](const VisitRow& visit) {
        return !disturbance(visit.covariates, context_.data.spec.limits).empty();
      });
}

void LaunchRunner::store_gates_and_metrics(const json& event, bool gates) {
  if (gates)
    outcome_.gates = require(parse_gates(event, outcome_.row.id, request_.variants), End::failed);
  context_.ledger.add(
      require(parse_metrics(event, outcome_.row.id, request_.variants), End::failed),
      outcome_.gates,
      {});
}

// The launch's own measurements are stored by now; a bye that fails is still a failed launch.
void LaunchRunner::finish(WorkerProcess& worker) {
  const json bye =
      ask(worker, plain_request("finish"), "bye", context_.options.setup_timeout_seconds);
  context_.ledger.add(
      require(parse_metrics(bye, outcome_.row.id, request_.variants), End::failed), {}, {});
  if (const std::string how = worker.finish(WorkerProcess::Seconds(kExitTimeoutSeconds));
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
  const bool enough = task_.kind == LaunchKind::Timed && task_.repeats == 0 &&
                      enough_rounds(timed_rounds_, cell_.rounds);
  if (end.why == End::Why::Stopped)
    add_event({outcome_.row.id, timed_rounds_, utc_now(), "stopped", end.reason});
  outcome_.row.state = enough ? LaunchState::Partial : LaunchState::Failed;
  outcome_.row.reason = end.reason;
  context_.ledger.end_launch(outcome_.row.id, outcome_.row.state, end.reason, outcome_.row.steady);
}

} // namespace assay
