// What tracing costs: one worker process a tracer, each with the same training, stepping in turns
// in a fresh random order every round; the ratio of a round's step times to the untraced process of
// the same round. `off again` is a second untraced process: the noise of the method. Then the
// tracers stay attached and idle for as many rounds, then they are stopped for as many (residue).
// With --soak one tracer runs alone for that long, to show that nothing is lost.
//   bench_trace_cost --worker build/bin/assay-worker --data build/corpus --set device=cuda --set
//   preset=base …
#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "core/protocol/protocol.h"
#include "core/result.h"
#include "core/statistics/statistics.h"
#include "core/text.h"
#include "core/trace/trace_file.h"
#include "experiments/engine/worker_process.h"
#include "experiments/export/export_chrome.h"
#include "model/config/train_config.h"

namespace assay {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

struct Options {
  std::string worker, out = "results/trace-cost", json_path;
  std::vector<std::string> set, modes{"off", "off again", "assay", "assay + operators"};
  int rounds = 30, visit_steps = 5, warmup = 5;
  double soak_seconds = 0;
};

class Mode {
public:
  Mode(const std::string& name, const Options& options, const TrainConfig& config, int index)
      : name_(name), traced_(!name.starts_with("off")),
        process_(options.worker, {"engine"}, options.out + "/logs/" + file_name() + ".log") {
    LaunchRequest launch;
    launch.kind = traced_ ? "traced" : "timed";
    launch.seed = 1;
    launch.unit = "train_step";
    launch.optimization = "planted_slowdown";
    launch.visit_steps = options.visit_steps;
    launch.discard_steps = 1;
    launch.variants = {{1, file_name(), "off", Role::Reference, to_json(config).dump()}};
    launch.results_directory = options.out;
    launch.launch = index;
    launch.cell = "trace cost";
    json request = launch_request(launch);
    if (traced_) {
      request["trace"]["tracer"] = name.starts_with("kineto") ? "kineto" : "assay";
      request["trace"]["collect"] = collected(name);
    }
    identity_ = ask(hello_request(), "hello").at("identity");
    ask(request, "built");
    trace_path_ = options.out + "/" + trace_file_name(index, 0, file_name());
  }

  // Nanoseconds a step.
  double round(int round, bool trace) {
    const json event =
        ask(round_request(round, {0}, trace && traced_ ? Tracing::Counted : Tracing::Off), "round");
    const json& visit = event.at("visits").at(0);
    return visit.at("wall_ns").get<double>() / visit.at("steps").get<double>();
  }

  json finish() {
    const json bye = ask(plain_request("finish"), "bye");
    if (const std::string how = process_.finish(WorkerProcess::Seconds(60)); !how.empty())
      internal_error("{}: {}", name_, how);
    return bye.at("metrics");
  }

  // Ends tracing; the process stays and can be timed without it.
  json stop_trace() { return ask(plain_request("stop_trace"), "trace_stopped").at("metrics"); }

  const std::string& name() const { return name_; }
  const std::string& trace_path() const { return trace_path_; }
  const json& identity() const { return identity_; } // machine, GPU, driver and build
  bool traced() const { return traced_; }

private:
  // "assay": the default set; "assay + operators"; "assay: kernels copies": only these.
  static json collected(const std::string& name) {
    json set = json::array();
    if (const std::size_t colon = name.find(':'); colon != std::string::npos) {
      std::istringstream words(name.substr(colon + 1));
      for (std::string word; words >> word;) set.push_back(word);
      return set;
    }
    set = {"kernels", "copies", "api", "telemetry"};
    if (name.ends_with("operators")) set.push_back("operators");
    return set;
  }
  std::string file_name() const {
    std::string text = name_;
    for (char& c : text)
      if (c == ' ' || c == '+' || c == ':') c = '_';
    return text;
  }
  json ask(const json& request, const char* event) {
    WorkerReply reply = process_.ask(request, event, WorkerProcess::Seconds(300));
    if (reply.kind != WorkerReply::Kind::Answer)
      bad_input("{}: {}",
                name_,
                reply.message.empty() ? reply.event.value("reason", "interrupted") : reply.message);
    return std::move(reply.event);
  }

  std::string name_;
  bool traced_;
  WorkerProcess process_;
  std::string trace_path_;
  json identity_;
};

// Rounds of all modes in turns; step times by mode.
std::vector<std::vector<double>>
turns(std::vector<std::unique_ptr<Mode>>& modes, int rounds, int first, bool trace) {
  std::vector<std::vector<double>> times(modes.size());
  std::mt19937 generator(static_cast<unsigned>(first) + 17U);
  std::vector<std::size_t> order(modes.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  for (int r = 0; r < rounds; ++r) {
    std::shuffle(order.begin(), order.end(), generator);
    for (const std::size_t i : order) times[i].push_back(modes[i]->round(first + r, trace));
  }
  return times;
}

json ratios(const std::vector<std::unique_ptr<Mode>>& modes,
            const std::vector<std::vector<double>>& times,
            const char* phase) {
  json rows = json::array();
  fmt::print(
      "\n{}: ratio to `{}`, median of {} rounds\n", phase, modes[0]->name(), times[0].size());
  for (std::size_t i = 0; i < modes.size(); ++i) {
    std::vector<double> logs;
    for (std::size_t r = 0; r < times[i].size(); ++r)
      logs.push_back(std::log(times[i][r] / times[0][r]));
    json row = {{"phase", phase},
                {"mode", modes[i]->name()},
                {"step_ms", median(times[i]) * 1e-6},
                {"ratio", std::exp(median(logs))}};
    std::string interval = "too few rounds for an interval";
    if (const auto found = median_interval(logs, 0.05); found && i > 0) {
      row["interval_95"] = {std::exp(found->lower), std::exp(found->upper)};
      interval = fmt::format("[{:.4f}, {:.4f}]", std::exp(found->lower), std::exp(found->upper));
    }
    fmt::print("  {:<22} {:>9.3f} ms/step  x{:.4f} {}\n",
               modes[i]->name(),
               median(times[i]) * 1e-6,
               std::exp(median(logs)),
               i > 0 ? interval : "");
    rows.push_back(std::move(row));
  }
  return rows;
}

bool is_kernel(const std::string& name) {
  return !name.starts_with("Memcpy") && !name.starts_with("Memset");
}

// Kernels by name: in our trace, and as Kineto counted them over the same steps.
json compare_kernels(const std::string& trace_path, const json& kineto_metrics) {
  const Trace trace = value_or_throw(read_trace(trace_path, kTraceDevice));
  std::map<std::string, std::int64_t> ours, theirs;
  for (const DeviceEvent& event : trace.device)
    if (event.kind == DeviceKind::Kernel) ++ours[trace.name(event.name)];
  for (const json& metric : kineto_metrics)
    if (metric.at("path") == "kineto/device_events" && is_kernel(metric.at("detail")))
      theirs[metric.at("detail")] += metric.at("value").get<std::int64_t>();
  json differing = json::array();
  for (const auto& [name, count] : ours)
    if (theirs[name] != count)
      differing.push_back({{"name", name}, {"assay", count}, {"kineto", theirs[name]}});
  for (const auto& [name, count] : theirs)
    if (!ours.contains(name))
      differing.push_back({{"name", name}, {"assay", 0}, {"kineto", count}});
  std::int64_t total = 0;
  for (const auto& [name, count] : ours) total += count;
  fmt::print("kernels: {} of {} names, {} names differ from Kineto's counts\n",
             total,
             ours.size(),
             differing.size());
  return {{"kernels", total}, {"names", ours.size()}, {"differing", differing}};
}

// Events a second of our Chrome export, reading the file included, against Kineto's own save of its
// events in memory, of the same training.
json compare_exports(const Mode& ours, const json& kineto_metrics) {
  constexpr int kRuns = 5;
  double events = 0, seconds = 0;
  for (const json& metric : kineto_metrics) {
    if (metric.at("path") == "kineto/events") events = metric.at("value").get<double>();
    if (metric.at("path") == "kineto/save_seconds") seconds = metric.at("value").get<double>();
  }
  const std::string out = ours.trace_path() + ".json";
  std::vector<double> times;
  ExportSummary summary;
  for (int run = 0; run < kRuns; ++run) {
    const auto start = Clock::now();
    summary = export_chrome({ours.trace_path()}, {}, out);
    times.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  std::filesystem::remove(out);
  const double rate = static_cast<double>(summary.events) / median(times);
  const double ratio = rate / (events / seconds);
  fmt::print(
      "export of `{}`: {} events in {:.3f} s, {:.0f} events/s; Kineto saves {:.0f} in {:.3f} s: "
      "x{:.2f} (goal x2)\n",
      ours.name(),
      summary.events,
      median(times),
      rate,
      events,
      seconds,
      ratio);
  return {{"mode", ours.name()},
          {"events", summary.events},
          {"seconds", median(times)},
          {"kineto_events", events},
          {"kineto_seconds", seconds},
          {"ratio", ratio}};
}

json soak(Mode& mode, int first, double seconds) {
  const auto start = Clock::now();
  int rounds = 0;
  double steps_ms = 0;
  while (std::chrono::duration<double>(Clock::now() - start).count() < seconds)
    steps_ms += mode.round(first + rounds++, true) * 1e-6;
  fmt::print(
      "soak: {} traced visits in {:.0f} s, {:.3f} ms/step\n", rounds, seconds, steps_ms / rounds);
  return {{"seconds", seconds}, {"visits", rounds}, {"step_ms", steps_ms / rounds}};
}

int run(const Options& options) {
  TrainConfig config;
  for (const std::string& item : options.set) {
    const auto equals = item.find('=');
    if (equals == std::string::npos) bad_input("--set {}: write key=value", item);
    value_or_throw(set_key_text(config, item.substr(0, equals), item.substr(equals + 1)));
  }
  config = value_or_throw(resolve(config));
  std::filesystem::create_directories(options.out + "/logs");
  std::vector<std::unique_ptr<Mode>> modes;
  for (std::size_t i = 0; i < options.modes.size(); ++i)
    modes.push_back(
        std::make_unique<Mode>(options.modes[i], options, config, static_cast<int>(i) + 1));
  if (modes.front()->traced()) bad_input("the first of --modes is the untraced one: `off`");
  json out = {{"utc", utc_now()},
              {"identity", modes.front()->identity()},
              {"rounds", options.rounds},
              {"visit_steps", options.visit_steps},
              {"config", to_json(config)},
              {"ratios", json::array()}};
  (void)turns(modes, options.warmup, 0, false);
  int next = options.warmup;
  const auto phase = [&](const char* name, bool trace) {
    const auto times = turns(modes, options.rounds, next, trace);
    next += options.rounds;
    for (json& row : ratios(modes, times, name)) out["ratios"].push_back(std::move(row));
  };
  phase("tracing", true);
  phase("attached, not tracing", false);
  std::map<std::string, json> metrics;
  for (const auto& mode : modes) {
    // The kernels are compared over equal steps, so the soak takes another mode than `assay`.
    if (options.soak_seconds > 0 && mode->name() == "assay + operators")
      out["soak"] = soak(*mode, next, options.soak_seconds);
    if (mode->traced()) metrics[mode->name()] = mode->stop_trace();
  }
  phase("stopped", false);
  for (const auto& mode : modes) (void)mode->finish();
  for (const auto& [name, rows] : metrics)
    for (const json& row : rows)
      if (row.at("path") != "kineto/device_events") {
        out["metrics"][name].push_back(row);
        fmt::print("{:<20} {} = {} {} {}\n",
                   name,
                   row.at("path").get<std::string>(),
                   row.at("value").dump(),
                   row.at("unit").get<std::string>(),
                   row.at("detail").get<std::string>());
      }
  for (const auto& mode : modes)
    if (mode->name() == "assay" && metrics.contains("kineto"))
      out["kernels"] = compare_kernels(mode->trace_path(), metrics.at("kineto"));
  for (const auto& mode : modes)
    for (const char* suffix : {"", " + operators"})
      if (mode->name() == std::string("assay") + suffix &&
          metrics.contains(std::string("kineto") + suffix))
        out["exports"].push_back(
            compare_exports(*mode, metrics.at(std::string("kineto") + suffix)));
  if (!options.json_path.empty()) {
    std::ofstream file(options.json_path);
    file << out.dump(2) << "\n";
    if (!file.flush()) bad_input("cannot write {}", options.json_path);
  }
  return 0;
}

} // namespace
} // namespace assay

int main(int argc, char** argv) {
  assay::Options options;
  CLI::App app("cost of tracing, by processes that step in turns");
  app.add_option("--worker", options.worker, "assay-worker")->required();
  app.add_option("--set", options.set, "key=value of the training configuration");
  app.add_option("--modes", options.modes, "off, off again, assay, kineto, … + operators")
      ->delimiter(',');
  app.add_option("--rounds", options.rounds, "rounds a phase");
  app.add_option("--visit-steps", options.visit_steps, "steps a round, the first discarded");
  app.add_option("--soak", options.soak_seconds, "seconds that the tracer runs alone at the end");
  app.add_option("--out", options.out, "directory for traces and logs");
  app.add_option("--json", options.json_path, "write the figures here");
  CLI11_PARSE(app, argc, argv);
  try {
    return assay::run(options);
  } catch (const assay::Failure& failure) {
    fmt::print(stderr, "error: {}\n", failure.what());
    return 1;
  }
}
