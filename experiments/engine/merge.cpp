#include "experiments/engine/merge.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "core/ledger/ledger.h"
#include "experiments/engine/data_fingerprint.h"

namespace assay {

namespace fs = std::filesystem;

namespace {

// A launch with what belongs to it.
struct Bundle {
  std::string directory; // where its traces lie
  LaunchRow launch;
  std::vector<VisitRow> visits;
  std::vector<MetricRow> metrics;
  std::vector<GateRow> gates;
  std::vector<EventRow> events;

  std::size_t rows() const { return visits.size() + metrics.size() + gates.size() + events.size(); }
};

std::string launch_key(const Bundle& b) {
  const LaunchRow& l = b.launch;
  std::string key = fmt::format("{}|{}|{}|{}|{}|{}|{}|{}",
                                l.started_utc,
                                l.cell,
                                to_string(l.kind),
                                l.index,
                                l.attempt,
                                l.identity.host,
                                l.identity.boot,
                                l.identity.build);
  // Two hosts may share a name; their first round's times do not agree to the nanosecond.
  for (const VisitRow& visit : b.visits)
    if (visit.round == 0) key += fmt::format("|{}:{}", visit.variant, visit.wall_ns);
  return key;
}

std::vector<Bundle> bundles(const LedgerData& data, const std::string& directory) {
  std::map<std::int64_t, Bundle> by_launch;
  for (const LaunchRow& row : data.launches) by_launch[row.id].launch = row;
  for (const VisitRow& row : data.visits) by_launch[row.launch].visits.push_back(row);
  for (const MetricRow& row : data.metrics) by_launch[row.launch].metrics.push_back(row);
  for (const GateRow& row : data.gates) by_launch[row.launch].gates.push_back(row);
  for (const EventRow& row : data.events) by_launch[row.launch].events.push_back(row);
  std::vector<Bundle> result;
  for (auto& [id, bundle] : by_launch) {
    bundle.directory = directory;
    result.push_back(std::move(bundle));
  }
  return result;
}

// traces/<launch>.<rank>.<variant>.sqlite under the launch's number in the merged results.
void copy_traces(const Bundle& bundle, std::int64_t launch, const std::string& output) {
  const fs::path from = fs::path(bundle.directory) / "traces", to = fs::path(output) / "traces";
  if (bundle.launch.kind != LaunchKind::Traced || !fs::is_directory(from)) return;
  const std::string prefix = fmt::format("{}.", bundle.launch.id);
  for (const fs::directory_entry& entry : fs::directory_iterator(from)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix)) continue;
    fs::create_directories(to);
    fs::copy_file(entry.path(), to / fmt::format("{}.{}", launch, name.substr(prefix.size())));
  }
}

void write(Ledger& ledger, Bundle& bundle, const std::string& output) {
  const std::int64_t id = ledger.start_launch(bundle.launch);
  for (VisitRow& row : bundle.visits) row.launch = id;
  for (MetricRow& row : bundle.metrics) row.launch = id;
  for (GateRow& row : bundle.gates) row.launch = id;
  for (EventRow& row : bundle.events) row.launch = id;
  ledger.commit_round(bundle.visits, {});
  ledger.add(bundle.metrics, bundle.gates, bundle.events);
  copy_traces(bundle, id, output);
}

std::string build_of(const LedgerData& data) {
  for (const LaunchRow& launch : data.launches)
    if (!launch.identity.build.empty()) return launch.identity.build;
  return "";
}

// What made the inputs: one command, or all of them.
std::string commands_of(const std::vector<LedgerData>& all) {
  std::set<std::string> commands;
  for (const LedgerData& data : all) commands.insert(data.spec.command);
  return fmt::format("{}", fmt::join(commands, "; "));
}

Result<std::vector<LedgerData>> read_inputs(const std::vector<std::string>& inputs) {
  if (inputs.size() < 2) return fail("merge needs at least two results directories");
  std::vector<LedgerData> all;
  std::string build, build_from;
  std::map<std::string, std::pair<std::string, std::string>> seen; // data: fingerprint, directory
  for (const std::string& directory : inputs) {
    Result<LedgerData> data = read_ledger(directory);
    if (!data) return data.error();
    if (!all.empty() && data->spec.hash != all.front().spec.hash)
      return fail(
          "{} holds plan '{}' ({}), {} holds '{}' ({}): only results of one plan can be merged",
          inputs.front(),
          all.front().spec.name,
          all.front().spec.hash,
          directory,
          data->spec.name,
          data->spec.hash);
    const std::string own = build_of(*data);
    if (!build.empty() && !own.empty() && own != build)
      return fail(
          "{} was measured by build {}, {} by build {}: launches of two builds are never mixed",
          build_from,
          build,
          directory,
          own);
    if (build.empty() && !own.empty()) build = own, build_from = directory;
    for (const auto& [name, fingerprint] : data_fingerprints(*data)) {
      const auto& [first, from] = seen.try_emplace(name, fingerprint, directory).first->second;
      if (first != fingerprint)
        return fail("{} was measured over data '{}' of fingerprint {}, {} over {}: launches over "
                    "other data are never mixed",
                    from,
                    name,
                    first,
                    directory,
                    fingerprint);
    }
    all.push_back(std::move(*data));
  }
  return all;
}

} // namespace

Result<MergeSummary> merge_ledgers(const std::vector<std::string>& inputs,
                                   const std::string& output) {
  if (fs::exists(output))
    return fail("{}: exists already; name a new directory for the merged results", output);
  Result<std::vector<LedgerData>> all = read_inputs(inputs);
  if (!all) return all.error();
  MergeSummary summary;
  std::map<std::string, Bundle>
      kept; // by start time, so that the result does not depend on the order of inputs
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    for (Bundle& bundle : bundles((*all)[i], inputs[i])) {
      const auto [place, fresh] = kept.try_emplace(launch_key(bundle), bundle);
      if (!fresh) ++summary.duplicates;
      if (!fresh && bundle.rows() > place->second.rows()) place->second = std::move(bundle);
    }
  }
  // Written beside and renamed when whole.
  std::string target = output;
  while (target.size() > 1 && target.back() == '/') target.pop_back();
  const std::string fresh = target + ".new";
  fs::remove_all(fresh);
  {
    LedgerData plan = all->front();
    plan.launches.clear();
    plan.spec.command = commands_of(*all);
    const std::unique_ptr<Ledger> ledger = Ledger::open(fresh, plan);
    for (auto& [key, bundle] : kept) write(*ledger, bundle, fresh);
    ledger->finish();
  }
  fs::rename(fresh, target);
  summary.launches = static_cast<int>(kept.size());
  return summary;
}

} // namespace assay
