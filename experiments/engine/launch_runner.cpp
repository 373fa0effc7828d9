#include "experiments/engine/launch_runner.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <utility>

#include "core/ledger/covariates.h"
#include "core/ledger/launch_rules.h"
#include "core/text.h"
#include "experiments/engine/data_fingerprint.h"
#include "experiments/engine/launch_end.h"
#include "experiments/engine/launch_requests.h"
#include "experiments/engine/stop_signal.h"
#include "experiments/evidence/owed/redo.h"

namespace assay {

using nlohmann::json;

namespace {

constexpr double kExitTimeoutSeconds = 30;

bool has_any_results(const LedgerData& data) {
  return std::ranges::any_of(data.launches,
                             [](const LaunchRow& launch) { return has_results(launch.state); });
}

} // namespace

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
      store_readings();
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

json LaunchRunner::ask(Process& process, const json& request, const char* event, double timeout) {
  const std::string op = request.at("op");
  // A round is finished after the first signal and after the limit; gates and memory, which can
  // take a minute, are cut off.
  const bool in_round = op == "round" || op == "finish", cut = op == "parity" || op == "memory";
  StopSignal::acknowledge_with(in_round && has_rounds() ? context_.options.acknowledge_in_round
                                                        : context_.options.acknowledge);
  WorkerReply reply = process.worker->ask(request, event, WorkerProcess::Seconds(timeout), [&] {
    return cut ? !context_.stopped().empty() : StopSignal::count() >= (in_round ? 2 : 1);
  });
  switch (reply.kind) {
  case WorkerReply::Kind::Answer:
    return std::move(reply.event);
  case WorkerReply::Kind::BadInput:
    // Beside results, other cells may have data that can be read.
    if (!built_ && !has_any_results(context_.data)) throw End::bad_input(reply.message);
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
  const std::string how = process.worker->finish(WorkerProcess::Seconds(kExitTimeoutSeconds));
  if (how.empty()) return;
  if (StopSignal::count() > 1) throw End::stopped("interrupted"); // finish() has killed the worker
  throw End::failed("the worker " + how + " at its end");
}

void LaunchRunner::store_readings() {
  if (const std::optional<RunMonitor>& monitor = context_.options.monitor)
    context_.ledger.add(outcome_.row.id, monitor->meters, monitor->take());
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
void LaunchRunner::close(End end) {
  // Results may move: what the ledger keeps names no place of this machine.
  end.reason = paths_within(std::move(end.reason), context_.results_directory);
  const bool stored = !cell_.apart || processes_.size() == 1; // processes apart store at the end
  const bool enough = stored && task_.kind == LaunchKind::Timed && task_.repeats == 0 &&
                      enough_rounds(timed_rounds_, cell_.rounds);
  if (end.why == End::Why::Stopped)
    add_event({outcome_.row.id, timed_rounds_, utc_now(), "stopped", end.reason});
  store_readings();
  outcome_.row.state = enough ? LaunchState::Partial : LaunchState::Failed;
  outcome_.row.reason = end.reason;
  context_.ledger.end_launch(outcome_.row.id, outcome_.row.state, end.reason, outcome_.row.steady);
}

} // namespace assay
