#include "app/worker/launch.h"

#include <ATen/Parallel.h>
#include <c10/core/Allocator.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <new>
#include <numeric>
#include <optional>
#include <random>

#include "app/worker/identity.h"
#include "core/roofline.h"
#include "core/statistics.h"
#include "core/text.h"
#include "core/trace_file.h"
#include "model/device_peaks.h"
#include "model/gates.h"
#include "model/global_state.h"
#include "model/peak_memory.h"
#include "model/segments.h"

namespace assay::worker {

namespace {

using nlohmann::json;

constexpr std::size_t kParityUnits = 4; // optimizer steps that a bitwise gate compares
constexpr int kParityDraws = 400;       // batches looked at for rows of several documents
constexpr int kEvaluationWarmSteps =
    8; // train steps before evaluations are timed: the EMA leaves the weights

json covariates_to_json(const Covariates& c) {
  json out = json::object();
  const auto put = [&](const char* key, const auto& value) {
    if (value) out[key] = *value;
  };
  put("steal_share", c.steal_share);
  put("run_delay_share", c.run_delay_share);
  put("load1", c.load1);
  put("voluntary_switches", c.voluntary_switches);
  put("involuntary_switches", c.involuntary_switches);
  put("sm_clock_mhz", c.sm_clock_mhz);
  put("memory_clock_mhz", c.memory_clock_mhz);
  put("power_w", c.power_w);
  put("temperature_c", c.temperature_c);
  put("throttle_reasons", c.throttle_reasons);
  put("foreign_processes", c.foreign_processes);
  return out;
}

json visit_to_json(std::size_t variant,
                   std::size_t position,
                   const VisitResult& visit,
                   const Covariates& covariates) {
  json out = {{"variant", variant},
              {"position", position},
              {"steps", visit.steps},
              {"wall_ns", visit.wall_ns},
              {"tokens", visit.tokens},
              {"loss", visit.loss},
              {"skipped_steps", visit.skipped_steps},
              {"sample_ns", visit.sample_ns},
              {"covariates", covariates_to_json(covariates)}};
  if (visit.device_ns) out["device_ns"] = *visit.device_ns;
  return out;
}

json metric(
    json variant, std::string path, std::string unit, double value, std::string detail = "") {
  return {{"variant", std::move(variant)},
          {"path", std::move(path)},
          {"unit", std::move(unit)},
          {"value", value},
          {"detail", std::move(detail)}};
}

// Of the device, for the speed of light. A CPU has none: its operators are no launches.
void add_peaks(json& metrics, const TrainConfig& config) {
  if (config.device != Device::Cuda) return;
  const MeasuredPeaks peaks = measure_peaks(config.precision);
  const auto add = [&](const char* path, const char* unit, double value) {
    if (value > 0) metrics.push_back(metric(nullptr, path, unit, value));
  };
  add(kComputePeakMetric, "FLOP/s", peaks.flops_per_second);
  add(kFp32PeakMetric, "FLOP/s", peaks.fp32_flops_per_second);
  add(kFp8PeakMetric, "FLOP/s", peaks.fp8_flops_per_second);
  add(kBandwidthMetric, "bytes/s", peaks.bytes_per_second);
  add(kLaunchMetric, "s", peaks.launch_seconds);
}

// Runs `body`; running out of memory becomes the variant's retirement.
template <class Body> auto guard_memory(std::size_t variant, const std::string& name, Body body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    throw Retired{variant, "out of memory in variant '" + name + "'"};
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    if (text.find("can't allocate memory") == std::string::npos &&
        text.find("out of memory") == std::string::npos)
      throw;
    throw Retired{variant,
                  "out of memory in variant '" + name + "': " + text.substr(0, text.find('\n'))};
  }
}

// Everything by default, except that operators are recorded only where they are the trace: on the
// CPU. An array of names chooses.
CollectSet collect_set(const json& names, bool cuda) {
  CollectSet set;
  set.operators = !cuda;
  if (names.is_null()) return set;
  const std::pair<const char*, bool CollectSet::*> kParts[] = {
      {"operators", &CollectSet::operators},
      {"kernels", &CollectSet::kernels},
      {"copies", &CollectSet::copies},
      {"api", &CollectSet::api},
      {"driver", &CollectSet::driver},
      {"synchronization", &CollectSet::synchronization},
      {"overhead", &CollectSet::overhead},
      {"telemetry", &CollectSet::telemetry}};
  for (const auto& [name, member] : kParts) set.*member = false;
  for (const json& wanted : names) {
    const auto part = std::find_if(
        std::begin(kParts), std::end(kParts), [&](const auto& p) { return wanted == p.first; });
    if (part == std::end(kParts))
      bad_input("trace: nothing called {} can be collected", wanted.dump());
    set.*(part->second) = true;
  }
  return set;
}

// A level may prove itself by a counter instead of a span.
bool shows_a_level(const Optimization& optimization, const std::string& counter) {
  return std::any_of(optimization.levels.begin(),
                     optimization.levels.end(),
                     [&](const Level& level) { return level.span == counter; });
}

std::vector<std::size_t> permutation(std::size_t count, std::uint64_t seed) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937_64 generator(seed);
  for (std::size_t i = count; i > 1; --i) std::swap(order[i - 1], order[generator() % i]);
  return order;
}

} // namespace

Launch::Launch(const json& message, CovariateSampler sampler, std::string gpu_uuid, Ranks* ranks)
    : kind_(message.at("kind")), unit_(message.at("unit")),
      optimization_(
          value_or_throw(optimizations().lookup(message.at("optimization").get<std::string>()))),
      visit_steps_(message.value("visit_steps", 1)),
      discard_steps_(message.value("discard_steps", 0)), seed_(message.at("seed")),
      gpu_uuid_(std::move(gpu_uuid)), sampler_(std::move(sampler)), ranks_(ranks) {
  for (const json& item : message.at("variants")) {
    VariantSpec spec{item.at("name"),
                     item.at("level"),
                     item.at("role"),
                     value_or_throw(config_from_json(item.at("config")))};
    spec.config = value_or_throw(resolve(spec.config));
    variants_.push_back(std::move(spec));
  }
  if (variants_.empty()) bad_input("a launch needs at least one variant");
  source_ = open_data(reference());
  train_data_ = std::make_unique<DataStream>(source_, reference(), Split::Train);
  held_out_data_ = std::make_unique<DataStream>(source_, reference(), Split::HeldOut);
  if (kind_ == "traced") start_tracer(message.at("trace")); // before the first CUDA context
  build_replicas();
}

void Launch::start_tracer(const json& trace) {
  const std::filesystem::path directory = trace.at("directory").get<std::string>();
  const auto launch = trace.at("launch").get<std::int64_t>();
  const int rank = ranks_ == nullptr ? 0 : ranks_->place().rank;
  TracerOptions options;
  for (const VariantSpec& spec : variants_)
    options.paths.push_back((directory / trace_file_name(launch, rank, spec.name)).string());
  options.cuda = reference().device == Device::Cuda;
  options.collect = collect_set(trace.value("collect", json()), options.cuda);
  options.gpu_uuid = gpu_uuid_;
  const std::string tracer = trace.value("tracer", "assay");
  if (tracer != "assay" && tracer != "kineto")
    bad_input("unknown tracer '{}'; this worker has assay and kineto", printable(tracer));
  tracer_ = tracer == "assay" ? make_tracer(options) : make_kineto_tracer(options);
  const CudaVersions cuda_versions = options.cuda ? worker::cuda_versions() : CudaVersions{};
  for (std::size_t i = 0; i < variants_.size(); ++i)
    for (const auto& [key, value] : std::initializer_list<std::pair<const char*, std::string>>{
             {"launch", std::to_string(launch)},
             {"rank", std::to_string(rank)},
             {"cell", trace.value("cell", "")},
             {"variant", variants_[i].name},
             {"level", variants_[i].level},
             {"optimization", optimization_->name},
             {"unit", unit_},
             {"device", options.cuda ? "cuda" : "cpu"},
             {"gpu_uuid", gpu_uuid_},
             {"cuda_runtime_version", cuda_versions.runtime},
             {"cuda_driver_version", cuda_versions.driver},
             {"program", "assay-worker"},
             {"seed", std::to_string(seed_)},
             {"config", to_json(variants_[i].config).dump()}})
      tracer_->describe(i, key, value);
}

void Launch::build_replicas() {
  const auto start = std::chrono::steady_clock::now();
  replicas_.resize(variants_.size());
  own_step_ns_.resize(variants_.size());
  build_order_ = permutation(variants_.size(), seed_);
  if (kind_ == "timed" || kind_ == "traced" || kind_ == "loss" || kind_ == "probe") {
    for (const std::size_t i : build_order_) {
      guard_memory(i, variants_[i].name, [&] {
        const std::int64_t before = current_bytes(variants_[i].config.device);
        replicas_[i].trainer = std::make_unique<Trainer>(variants_[i].config, group());
        replicas_[i].bytes = current_bytes(variants_[i].config.device) - before;
      });
    }
    if (unit_ == "evaluation") warm_evaluation_replicas();
  }
  state_hash_ = global_state_hash();
  build_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Evaluation is timed between train steps in real use: a few steps make the EMA differ from the
// weights, and tell what a step costs, so that the effect can be stated per step as well.
void Launch::warm_evaluation_replicas() {
  std::vector<double> step_ns;
  for (int step = 0; step < kEvaluationWarmSteps; ++step) {
    const UnitData data = next_train_data(reference());
    train_data_->pause();
    for (const std::size_t i : build_order_) {
      guard_memory(i, variants_[i].name, [&] {
        const VisitResult visit = run_visit(*replicas_[i].trainer, false, {data}, 0);
        if (step >= kEvaluationWarmSteps / 2) step_ns.push_back(static_cast<double>(visit.wall_ns));
      });
    }
    train_data_->resume();
  }
  step_ns_ = median(step_ns);
}

// The micro-batches of a step. Of N ranks, rank r takes batches r, N + r, 2N + r … of the stream.
UnitData Launch::next_train_data(const TrainConfig& config) {
  const int ranks = ranks_ == nullptr ? 1 : ranks_->place().size;
  const int own = ranks_ == nullptr ? 0 : ranks_->place().rank;
  UnitData data;
  for (std::int64_t i = 0; i < config.accumulate; ++i)
    for (int rank = 0; rank < ranks; ++rank) {
      Batch batch = train_data_->next();
      if (rank != own) continue;
      prepare(batch, config);
      data.push_back(std::move(batch));
    }
  return data;
}

UnitData Launch::next_unit_data(const VariantSpec& spec) {
  if (unit_ != "evaluation") return next_train_data(spec.config);
  UnitData data;
  for (std::int64_t i = 0; i < spec.config.eval_batches; ++i) {
    data.push_back(held_out_data_->next());
    prepare(data.back(), spec.config);
  }
  return data;
}

json Launch::built() const {
  json names = json::array(), bytes = json::array();
  for (const std::size_t i : build_order_) names.push_back(variants_[i].name);
  for (const Replica& replica : replicas_) bytes.push_back(replica.bytes);
  return {{"event", "built"},
          {"build_order", names},
          {"seconds", build_seconds_},
          {"threads", at::get_num_threads()},
          {"parameters", model_size(reference()).parameters},
          {"data", source_.fingerprint()},
          {"bytes", bytes}};
}

// Ranks begin together: each has drained its device before it comes to the barrier.
VisitResult
Launch::timed_visit(std::size_t variant, const std::vector<UnitData>& units, Tracer* tracer) {
  std::optional<RankWatch::Phase> phase;
  std::function<void()> meet;
  if (ranks_ != nullptr) {
    phase.emplace(ranks_->watch(), "visit of " + variants_[variant].name, true);
    meet = [this] { ranks_->group()->barrier("visit"); };
  }
  const bool evaluation = unit_ == "evaluation";
  sampler_.begin();
  VisitResult visit =
      run_visit(*replicas_[variant].trainer, evaluation, units, discard_steps_, tracer, meet);
  // Every rank has the whole list of an evaluation; its tokens are to be counted once.
  if (evaluation && ranks_ != nullptr && ranks_->place().rank > 0) visit.tokens = 0;
  return visit;
}

// "" for a finite loss, else the words of its retirement; in a loss launch with the step that was
// reached, from 1.
std::string Launch::why_not_finite(std::size_t variant, const VisitResult& visit, int round) const {
  if (std::isfinite(visit.loss)) return "";
  std::string why = fmt::format(
      "loss of variant '{}' is {} in round {}", variants_[variant].name, visit.loss, round);
  if (kind_ != "loss") return why;
  const auto first = std::find_if(visit.step_losses.begin(),
                                  visit.step_losses.end(),
                                  [](double loss) { return !std::isfinite(loss); });
  return why + fmt::format(", at step {} of training with seed {}",
                           round * visit_steps_ + (first - visit.step_losses.begin()) + 1,
                           reference().seed);
}

// One variant's visit of a round, with what the machine did meanwhile.
std::pair<VisitResult, Covariates> Launch::observed_visit(std::size_t variant,
                                                          const std::vector<UnitData>& units,
                                                          int round,
                                                          const std::string& tracing) {
  const std::string& name = variants_[variant].name;
  Tracer* tracer = tracing.empty() ? nullptr : tracer_.get();
  if (tracer != nullptr) tracer->begin_visit(variant, round, tracing == "warm-up");
  VisitResult visit =
      guard_memory(variant, name, [&] { return timed_visit(variant, units, tracer); });
  const Covariates covariates = sampler_.end();
  if (tracer != nullptr) tracer->end_visit();
  if (kind_ == "loss") visit.loss = mean(visit.step_losses);
  if (const std::uint64_t now = global_state_hash(); now != state_hash_)
    internal_error("variant '{}' changed LibTorch's global state (hash {:x}, was {:x})",
                   name,
                   now,
                   state_hash_);
  return {std::move(visit), covariates};
}

// Every variant of the round is visited before one is retired: when several lose their loss, the
// first of them is, the reference before the levels, which are then not to blame.
json Launch::round(const json& message) {
  std::vector<UnitData> units;
  for (int i = 0; i < visit_steps_; ++i) units.push_back(next_unit_data(variants_.front()));
  train_data_->pause();
  held_out_data_->pause();
  json visits = json::array();
  std::map<std::size_t, std::string> not_finite; // by variant
  const int number = message.at("round");
  const std::string tracing = message.value("trace", "");
  if (!tracing.empty() && !tracer_) bad_input("a {} launch records no trace", kind_);
  const json& order = message.at("order");
  for (std::size_t position = 0; position < order.size(); ++position) {
    const auto variant = order[position].get<std::size_t>();
    if (variant >= replicas_.size())
      bad_input("round names variant {}, the launch has {}", variant, replicas_.size());
    const auto [visit, covariates] = observed_visit(variant, units, number, tracing);
    if (std::string why = why_not_finite(variant, visit, number); !why.empty())
      not_finite.emplace(variant, std::move(why));
    if (ranks_ != nullptr)
      own_step_ns_[variant].push_back(static_cast<double>(visit.wall_ns) / visit.steps);
    visits.push_back(visit_to_json(variant, position, visit, covariates));
  }
  if (!not_finite.empty()) throw Retired{not_finite.begin()->first, not_finite.begin()->second};
  train_data_->resume();
  held_out_data_->resume();
  return {{"event", "round"}, {"round", number}, {"visits", visits}};
}

// Batches whose rows hold several documents, as far as the corpus has such: isolation cannot be
// shown on a single one. Each of several ranks has its own.
std::vector<Batch> Launch::parity_batches() {
  const std::size_t ranks = ranks_ == nullptr ? 1 : static_cast<std::size_t>(ranks_->place().size);
  const std::size_t own = ranks_ == nullptr ? 0 : static_cast<std::size_t>(ranks_->place().rank);
  std::vector<Batch> batches;
  std::size_t taken = 0;
  for (int drawn = 0; taken < ranks * kParityUnits; ++drawn) {
    Batch batch = train_data_->next();
    const bool several = batch.documents.cu_host.size() > batch.rows.cu_host.size();
    if (!several && drawn < kParityDraws) continue;
    if (taken++ % ranks != own) continue;
    prepare(batch, reference());
    batches.push_back(std::move(batch));
  }
  return batches;
}

json Launch::parity() {
  json gates = json::array(), metrics = json::array();
  std::vector<Batch> batches = parity_batches();
  for (std::size_t i = 0; i < variants_.size(); ++i) {
    const VariantSpec& spec = variants_[i];
    if (spec.role == "control") continue;
    guard_memory(i, spec.name, [&] {
      if (spec.role == "level") {
        for (const GateResult& gate :
             run_gates(*optimization_, reference(), spec.config, batches, group()))
          gates.push_back({{"variant", i},
                           {"name", gate.name},
                           {"passed", gate.passed},
                           {"value", gate.value},
                           {"bound", gate.bound},
                           {"detail", gate.detail}});
      }
      const Instrumented seen = instrument(*optimization_, spec.config, batches, group());
      for (const auto& [name, count] : seen.spans)
        metrics.push_back(metric(i, "engaged/" + name, "spans", static_cast<double>(count)));
      for (const auto& [name, count] : seen.counters) {
        metrics.push_back(metric(i, name, "count", static_cast<double>(count)));
        if (shows_a_level(*optimization_, name))
          metrics.push_back(metric(i, "engaged/" + name, "count", static_cast<double>(count)));
      }
      for (const auto& [name, count] : seen.operators)
        metrics.push_back(metric(i, "ops/" + name, "calls", static_cast<double>(count)));
    });
  }
  add_peaks(metrics, reference());
  return {{"event", "parity"}, {"gates", gates}, {"metrics", metrics}};
}

json Launch::memory() {
  json metrics = json::array();
  for (std::size_t i = 0; i < variants_.size(); ++i) {
    const VariantSpec& spec = variants_[i];
    if (spec.role == "control") continue;
    guard_memory(i, spec.name, [&] {
      PeakMemory peak(spec.config.device); // counts from here on, so the replica is built after it
      Trainer trainer(spec.config, group());
      (void)trainer.step(next_train_data(spec.config));
      const std::vector<UnitData> units{next_unit_data(spec)};
      (void)run_visit(trainer, unit_ == "evaluation", units, 0);
      peak.restart();
      (void)run_visit(trainer, unit_ == "evaluation", units, 0);
      metrics.push_back(
          metric(i, "memory/peak_bytes", "bytes", static_cast<double>(peak.peak_bytes())));
      metrics.push_back(
          metric(i, "memory/start_bytes", "bytes", static_cast<double>(peak.start_bytes())));
    });
  }
  return {{"event", "memory"}, {"metrics", metrics}};
}

json Launch::probe() {
  std::vector<double> unit_ns;
  for (int i = 0; i < 4; ++i) {
    const std::vector<UnitData> units(static_cast<std::size_t>(visit_steps_),
                                      next_unit_data(variants_.front()));
    const VisitResult visit =
        run_visit(*replicas_.front().trainer, unit_ == "evaluation", units, discard_steps_);
    unit_ns.push_back(static_cast<double>(visit.wall_ns) / visit.steps);
  }
  return {{"event", "probe"},
          {"unit_ns", median(unit_ns)},
          {"bytes", current_bytes(reference().device)},
          {"build_seconds", build_seconds_}};
}

json Launch::stop_trace() {
  if (!tracer_) bad_input("a {} launch records no trace", kind_);
  json metrics = tracer_->finish();
  tracer_.reset();
  return {{"event", "trace_stopped"}, {"metrics", metrics}};
}

json Launch::bye() {
  json metrics = tracer_ ? tracer_->finish() : json::array();
  tracer_.reset();
  if (step_ns_ > 0)
    metrics.push_back(metric(
        nullptr, "time/step_ns", "ns", step_ns_, "median train step beside the timed evaluations"));
  if (kind_ == "loss")
    metrics.push_back(metric(nullptr,
                             kDataEpochMetric,
                             "epochs",
                             static_cast<double>(train_data_->position().epoch),
                             "of the training data, finished"));
  for (std::size_t i = 0; i < own_step_ns_.size(); ++i)
    if (!own_step_ns_[i].empty())
      metrics.push_back(metric(i,
                               fmt::format("rank/{}/step_ns", ranks_->place().rank),
                               "ns",
                               median(own_step_ns_[i]),
                               "median over this rank's visits, warm-up included"));
  return {{"event", "bye"}, {"metrics", metrics}};
}

} // namespace assay::worker
