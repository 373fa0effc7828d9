#include "experiments/engine/merge.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "core/files/atomic_file.h"
#include "core/files/output_target.h"
#include "core/files/rename_new.h"
#include "core/ledger/directory_lock.h"
#include "core/ledger/ledger.h"
#include "core/ledger/ledger_schema.h"
#include "core/system_call.h"
#include "core/trace/trace_file.h"
#include "experiments/engine/data_fingerprint.h"
#include "experiments/evidence/cell_view.h"
#include "experiments/evidence/owed/continuation.h"
#include "experiments/evidence/owed/plan_state.h"

namespace assay {

namespace fs = std::filesystem;

namespace {

// A launch with what belongs to it.
struct Bundle {
  std::string directory; // where its traces are
  std::vector<std::pair<std::size_t, std::int64_t>>
      known_as; // input and id there, of all its copies
  LaunchRow launch;
  std::vector<VisitRow> visits;
  std::vector<MetricRow> metrics;
  std::vector<GateRow> gates;
  std::vector<EventRow> events;
  std::vector<MeterRow> meters; // that the readings count
  std::vector<MeterReading> readings;

  std::size_t rows() const {
    return visits.size() + metrics.size() + gates.size() + events.size() + readings.size();
  }
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

std::vector<Bundle>
bundles(const LedgerData& data, const std::string& directory, std::size_t input) {
  std::map<std::int64_t, Bundle> by_launch;
  for (const LaunchRow& row : data.launches) by_launch[row.id].launch = row;
  for (const VisitRow& row : data.visits) by_launch[row.launch].visits.push_back(row);
  for (const MetricRow& row : data.metrics) by_launch[row.launch].metrics.push_back(row);
  for (const GateRow& row : data.gates) by_launch[row.launch].gates.push_back(row);
  for (const EventRow& row : data.events) by_launch[row.launch].events.push_back(row);
  Meters meters = value_or_throw(read_meters(directory));
  std::vector<Bundle> result;
  for (auto& [id, bundle] : by_launch) {
    bundle.readings = std::move(meters.readings[id]);
    if (!bundle.readings.empty()) bundle.meters = meters.meters;
    bundle.directory = directory;
    bundle.known_as = {{input, id}};
    result.push_back(std::move(bundle));
  }
  return result;
}

// Complete files of traces/<launch>.<rank>.<variant>.sqlite, by what follows the launch's number.
std::map<std::string, fs::path> traces_of(const Bundle& bundle) {
  std::map<std::string, fs::path> result;
  const fs::path directory = fs::path(bundle.directory) / kTraceFolder;
  if (bundle.launch.kind != LaunchKind::Traced || !fs::is_directory(directory)) return result;
  const std::string prefix = fmt::format("{}.", bundle.launch.id);
  for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(prefix) && name.ends_with(".sqlite"))
      result[name.substr(prefix.size())] = entry.path();
  }
  return result;
}

// The library reports a full disk as an error of the device.
void copy_to(const fs::path& file, const fs::path& target) {
  std::error_code error, unknown;
  fs::copy_file(file, target, error);
  if (!error) return;
  const bool full =
      error == std::errc::io_error &&
      fs::space(target.parent_path(), unknown).available < fs::file_size(file, unknown);
  const int code = full ? ENOSPC : error.value();
  bad_input("cannot write {}: {}; {}", target.string(), system_cause(code), write_remedy(code));
}

void copy_traces(const Bundle& bundle, std::int64_t launch, const std::string& output) {
  const fs::path to = fs::path(output) / kTraceFolder;
  for (const auto& [name, file] : traces_of(bundle)) {
    fs::create_directories(to);
    copy_to(file, to / fmt::format("{}.{}", launch, name));
  }
}

// Of two copies of a launch the one with more rows, then the one with more traces.
bool holds_more(const Bundle& a, const Bundle& b) {
  if (a.rows() != b.rows()) return a.rows() > b.rows();
  return traces_of(a).size() > traces_of(b).size();
}

// Launches get new numbers; the one that a launch repeats was started, and written, before it.
struct Written {
  std::map<std::pair<std::size_t, std::int64_t>, std::int64_t> ids;
  std::map<std::tuple<std::int64_t, LaunchKind, int>, int> attempts; // of a cell, kind and index
};

void write(Ledger& ledger, Bundle& bundle, const std::string& output, Written& written) {
  LaunchRow launch = bundle.launch;
  const auto repeated = written.ids.find({bundle.known_as.front().first, launch.repeats});
  launch.repeats = repeated == written.ids.end() ? 0 : repeated->second;
  launch.attempt = written.attempts[{launch.cell, launch.kind, launch.index}]++;
  const std::int64_t id = ledger.start_launch(launch);
  for (const auto& name : bundle.known_as) written.ids[name] = id;
  for (VisitRow& row : bundle.visits) row.launch = id;
  for (MetricRow& row : bundle.metrics) row.launch = id;
  for (GateRow& row : bundle.gates) row.launch = id;
  for (EventRow& row : bundle.events) row.launch = id;
  ledger.commit_round(bundle.visits, {});
  ledger.add(bundle.metrics, bundle.gates, bundle.events);
  ledger.add(id, bundle.meters, bundle.readings);
  copy_traces(bundle, id, output);
}

// What made the inputs: one command, or all of them.
std::string commands_of(const std::vector<LedgerData>& all) {
  std::set<std::string> commands;
  for (const LedgerData& data : all) commands.insert(data.spec.command);
  return fmt::format("{}", fmt::join(commands, "; "));
}

Result<std::vector<LedgerData>> read_inputs(const std::vector<std::string>& inputs) {
  if (inputs.size() < 2)
    return fail("merge needs at least two results directories of the same plan: "
                "`assay merge results/a results/b --out results/both`");
  std::vector<LedgerData> all;
  std::string build, build_from;
  std::map<std::string, std::pair<std::string, std::string>> seen; // data: fingerprint, directory
  for (const std::string& directory : inputs) {
    if (const std::string holder = lock_holder(directory); !holder.empty())
      return fail("{}: {} is writing it; merge it when that has ended", directory, holder);
    Result<LedgerData> data = read_ledger(directory);
    if (!data) return data.error();
    if (!all.empty() && data->spec.hash != all.front().spec.hash)
      return fail("{} contains plan '{}' ({}), {} contains '{}' ({}): only results of one plan can "
                  "be merged",
                  inputs.front(),
                  all.front().spec.name,
                  all.front().spec.hash,
                  directory,
                  data->spec.name,
                  data->spec.hash);
    const std::string own = measured_build(*data);
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

// Judged as a sample, or as the training of a seed.
bool is_judged(const LaunchRow& launch) {
  return launch.kind == LaunchKind::Loss ? launch.state == LaunchState::Complete
                                         : is_counted(launch);
}

// Launches of one number have the same seed, data and order: a second one is no new sample, and
// would let a person add measurements until the verdict pleases.
void refuse_launches_measured_twice(const std::vector<LedgerData>& all,
                                    const std::map<std::string, Bundle>& kept) {
  struct Twice {
    const Bundle *first, *second;
    std::set<int> indices;
  };
  std::map<std::tuple<std::int64_t, LaunchKind, int>, const Bundle*> seen;
  std::map<std::pair<std::int64_t, LaunchKind>, Twice> twice;
  for (const auto& [key, bundle] : kept) {
    const LaunchRow& launch = bundle.launch;
    const bool replaced =
        std::any_of(bundle.known_as.begin(), bundle.known_as.end(), [&](const auto& name) {
          return all[name.first].superseded(name.second);
        });
    if (!is_judged(launch) || replaced) continue;
    const auto [first, is_new] =
        seen.try_emplace({launch.cell, launch.kind, launch.index}, &bundle);
    if (is_new) continue;
    const Bundle *a = first->second, *b = &bundle;
    if (b->known_as < a->known_as) std::swap(a, b); // in the order of the inputs
    twice.try_emplace({launch.cell, launch.kind}, Twice{a, b, {}})
        .first->second.indices.insert(launch.index);
  }
  if (twice.empty()) return;
  std::vector<std::string> places;
  for (const auto& [where, one] : twice)
    places.push_back(fmt::format("cell '{}', {}: {} and {}",
                                 all.front().cell(where.first).name,
                                 numbered_launches_text(where.second, one.indices),
                                 one.first->directory,
                                 one.second->directory));
  bad_input("these launches were measured twice, with the same seed, data and order, so they are "
            "not independent samples: {}. Merge results of different cells (`assay run --cell`); "
            "for a larger sample, raise `launches` in the matrix and measure it anew",
            fmt::join(places, "; "));
}

// The same for what is measured once a cell and refuses nothing: the first counts. Returns how many
// are left out. Parity launches stay, since each proves its own machine.
int leave_out_second_samples(std::map<std::string, Bundle>& kept) {
  std::set<std::tuple<std::int64_t, LaunchKind, int>> seen;
  return static_cast<int>(std::erase_if(kept, [&](const auto& entry) {
    const LaunchRow& launch = entry.second.launch;
    const bool once = launch.kind == LaunchKind::Memory || launch.kind == LaunchKind::Energy;
    return once && launch.state == LaunchState::Complete &&
           !seen.insert({launch.cell, launch.kind, launch.index}).second;
  }));
}

// A new directory beside the target, which takes its place when it is whole. What a killed merge
// leaves is hidden and marked, so that no command takes it for results.
// Parents that it had to make stay, empty, where a merge fails.
class FreshDirectory {
public:
  explicit FreshDirectory(const fs::path& target) : target_(target) {
    const fs::path parent = target.parent_path().empty() ? fs::path(".") : target.parent_path();
    std::error_code error;
    fs::create_directories(parent, error);
    std::string name = (parent / ("." + target.filename().string() + ".merge-XXXXXX")).string();
    if (error || ::mkdtemp(name.data()) == nullptr)
      bad_input("{}: its folder {} cannot be written: {}; name another one with --out",
                target.string(),
                parent.string(),
                system_cause(error ? error.value() : errno));
    path_ = name;
    ::chmod(path_.c_str(), 0755);
  }
  ~FreshDirectory() {
    std::error_code ignored; // the error under way is more specific
    if (!placed_) fs::remove_all(path_, ignored);
  }
  FreshDirectory(const FreshDirectory&) = delete;
  FreshDirectory& operator=(const FreshDirectory&) = delete;
  std::string path() const { return path_.string(); }

  void mark() const {
    write_file_atomically((path_ / ledger_schema::kUnfinishedName).string(), "");
  }
  // Fails where something is at the target by now: a rename would replace an empty directory.
  void place() {
    fs::remove(path_ / ledger_schema::kUnfinishedName);
    if (const int error = rename_new(path_, target_); error != 0)
      bad_input("{}: cannot be made: {}", target_.string(), system_cause(error));
    placed_ = true;
  }

private:
  fs::path target_, path_;
  bool placed_ = false;
};

fs::path target_of(const std::string& output) {
  if (output.empty()) bad_input("--out is empty; name a new directory for the merged results");
  fs::path target = output;
  if (target.filename().empty()) target = target.parent_path(); // "all/"
  std::error_code error;
  if (fs::exists(fs::symlink_status(target, error)) || target.filename().empty())
    bad_input("{}: exists already; name a new directory for the merged results", output);
  return target;
}

MergeSummary merge(const std::vector<std::string>& inputs, const std::string& output) {
  const fs::path target = target_of(output);
  const std::vector<LedgerData> all = value_or_throw(read_inputs(inputs));
  MergeSummary summary;
  std::map<std::string, Bundle>
      kept; // by start time, so that the result does not depend on the order of inputs
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    for (Bundle& bundle : bundles(all[i], inputs[i], i)) {
      const auto [place, is_new] = kept.try_emplace(launch_key(bundle), bundle);
      if (is_new) continue;
      ++summary.duplicates;
      Bundle& known = place->second;
      if (holds_more(bundle, known)) std::swap(bundle, known);
      known.known_as.insert(known.known_as.end(), bundle.known_as.begin(), bundle.known_as.end());
    }
  }
  refuse_launches_measured_twice(all, kept);
  summary.duplicates += leave_out_second_samples(kept);
  FreshDirectory fresh(target);
  {
    LedgerData plan = all.front();
    plan.launches.clear();
    plan.spec.command = commands_of(all);
    for (const LedgerData& data : all) {
      if (data.spec.directory != plan.spec.directory) plan.spec.directory.clear();
      plan.spec.created_utc = std::min(plan.spec.created_utc, data.spec.created_utc);
    }
    fresh.mark();
    const std::unique_ptr<Ledger> ledger = Ledger::open(fresh.path(), plan);
    for (const LedgerData& data : all) ledger->add(data.calibrations);
    Written written;
    for (auto& [key, bundle] : kept) write(*ledger, bundle, fresh.path(), written);
    ledger->finish();
  }
  fresh.place();
  summary.launches = static_cast<int>(kept.size());
  return summary;
}

} // namespace

Result<MergeSummary> merge_ledgers(const std::vector<std::string>& inputs,
                                   const std::string& output) {
  try {
    return merge(inputs, output);
  } catch (const fs::filesystem_error& error) {
    return fail("{}: {}", error.path1().string(), system_cause(error.code().value()));
  } catch (const Failure& failure) {
    if (failure.kind() != Failure::Kind::BadInput) throw;
    return Error{failure.what()};
  }
}

} // namespace assay
