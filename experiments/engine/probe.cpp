#include "experiments/engine/probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "core/ledger/directory_lock.h"
#include "core/ledger/stored_config.h"
#include "core/text.h"
#include "experiments/engine/launch_requests.h"
#include "experiments/engine/stop_signal.h"
#include "experiments/engine/worker_process.h"

namespace assay {

namespace fs = std::filesystem;

namespace {

Result<ProbeResult>
probe_cell(const RunOptions& options, const LaunchRequest& request, const std::string& log) {
  const WorkerProcess::Seconds timeout(options.setup_timeout_seconds);
  const auto started = start_worker(options, request.variants.front(), log);
  WorkerProcess& worker = *started;
  WorkerReply reply = worker.ask(hello_request(), "hello", timeout);
  if (reply.kind == WorkerReply::Kind::Answer)
    reply = worker.ask(launch_request(request), "built", timeout);
  std::string warning;
  if (reply.kind == WorkerReply::Kind::Answer) {
    const Result<Built> built = parse_built(reply.event);
    if (!built) return built.error();
    warning = built->warning;
    reply = worker.ask(plain_request("probe"), "probe", timeout);
  }
  if (reply.kind == WorkerReply::Kind::Retired)
    return fail("{}", printable(reply.event.value("reason", "retired")));
  if (reply.kind != WorkerReply::Kind::Answer) return fail("{}", reply.message);
  Result<ProbeResult> result = parse_probe(reply.event);
  if (result) result->warning = warning;
  return result;
}

void add_failure(std::vector<ProbeFailure>& all, const std::string& cell, ProbeFailure failure) {
  auto known = std::ranges::find_if(all, [&](const ProbeFailure& one) {
    return one.text == failure.text && one.on_gpu == failure.on_gpu;
  });
  if (known == all.end()) known = all.insert(all.end(), std::move(failure));
  known->cells.push_back(cell);
}

} // namespace

PlanProbes probe_plan(const Plan& plan,
                      const RunOptions& options,
                      const std::string& log_directory,
                      const std::function<void(const CellRow&)>& starting) {
  make_directory(log_directory);
  PlanProbes probes;
  // By unit, configuration and process.
  std::map<std::vector<std::string>, std::optional<ProbeResult>> known;
  bool timed_on_gpu = false, failed_on_gpu = false;
  for (const CellRow& cell : plan.ledger.cells) {
    if (StopSignal::count() > 0) break;
    const bool gpu = stored_config(cell.config_json).value("device", "") == "cuda";
    if (gpu && failed_on_gpu && !timed_on_gpu) { // the machine has none, most likely
      ++probes.skipped;
      continue;
    }
    const LaunchRequest request = reference_request(plan.ledger, cell, "probe");
    const LaunchVariant& first = request.variants.front();
    const std::vector<std::string> reference{
        request.unit, first.config_json, first.environment, first.worker};
    auto probe = known.find(reference);
    if (probe == known.end()) {
      starting(cell);
      const fs::path log = fs::path(log_directory) / fmt::format("probe-{}.log", cell.id);
      const Result<ProbeResult> measured = probe_cell(options, request, log.string());
      if (!measured) add_failure(probes.failures, cell.name, {{}, measured.error().message, gpu});
      (measured ? timed_on_gpu : failed_on_gpu) |= gpu;
      probe = known.emplace(reference, measured ? std::optional(*measured) : std::nullopt).first;
    }
    if (probe->second) probes.by_cell.emplace(cell.id, *probe->second);
  }
  return probes;
}

} // namespace assay
