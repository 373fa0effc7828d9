// The untimed launches: parity (gates, what engaged, peaks of the device) and memory.
#include <algorithm>
#include <map>

#include "app/worker/launch/guard_memory.h"
#include "app/worker/launch/launch.h"
#include "core/ledger/memory_parts.h"
#include "core/protocol/visit_json.h"
#include "core/statistics/roofline.h"
#include "model/gates/gates.h"
#include "model/graph/graph_room.h"
#include "model/layout/segments.h"
#include "model/memory/allocation_log.h"
#include "model/memory/peak_memory.h"
#include "model/training/device_peaks.h"

namespace assay::worker {

using nlohmann::json;

namespace {

constexpr std::size_t kParityUnits = 4; // optimizer steps that a bitwise gate compares
// Looked at for rows of several documents: batches at least, and tokens.
constexpr std::int64_t kParityDraws = 400, kParityTokens = std::int64_t{1} << 22;

// Of the device in the number format of a variant, for its roofline. A CPU has none: its operators
// are no launches.
void add_peaks(json& metrics, std::size_t variant, const MeasuredPeaks& peaks) {
  const auto add = [&](const char* path, const char* unit, double value) {
    if (value > 0) metrics.push_back(metric_json(variant, path, unit, value));
  };
  add(kComputePeakMetric, "FLOP/s", peaks.flops_per_second);
  add(kFp32PeakMetric, "FLOP/s", peaks.fp32_flops_per_second);
  add(kFp8PeakMetric, "FLOP/s", peaks.fp8_flops_per_second);
  add(kBandwidthMetric, "bytes/s", peaks.bytes_per_second);
  add(kLaunchMetric, "s", peaks.launch_seconds);
}

// A level may prove itself by a counter instead of a span.
bool shows_a_level(const Optimization& optimization, const std::string& counter) {
  return std::any_of(optimization.levels.begin(),
                     optimization.levels.end(),
                     [&](const Level& level) { return level.span == counter; });
}

// Where the bytes at the peak come from: "memory/at_peak/PHASE/MODULE".
void add_parts(json& metrics, std::size_t variant, const std::vector<MemoryPart>& parts) {
  for (const MemoryPart& part : parts)
    metrics.push_back(metric_json(variant,
                                  memory_part_metric(part.phase, part.module),
                                  "bytes",
                                  static_cast<double>(part.bytes)));
}

void add_curve(json& metrics, std::size_t variant, const MemoryCurve& curve) {
  if (curve.bytes.empty()) return;
  json stages = json::array();
  for (const MemoryCurve::Stage& stage : curve.stages)
    stages.push_back({stage.name, stage.from_ns, stage.to_ns});
  const json detail = {{"ns", curve.ns}, {"bytes", curve.bytes}, {"stages", stages}};
  metrics.push_back(metric_json(variant,
                                std::string(kMemoryCurveMetric),
                                "bytes",
                                static_cast<double>(std::ranges::max(curve.bytes)),
                                detail.dump()));
}

} // namespace

// Batches whose rows hold several documents, as far as the corpus has such: isolation cannot be
// shown on a single one. Each of several ranks has its own.
std::vector<Batch> Launch::parity_batches(std::size_t variant) {
  const std::size_t ranks = ranks_ == nullptr ? 1 : static_cast<std::size_t>(ranks_->place().size);
  const std::size_t own = ranks_ == nullptr ? 0 : static_cast<std::size_t>(ranks_->place().rank);
  // A loader that is made anew begins the document under way again: one that is longer than a phase
  // keeps it at its place. The same shapes come from one that goes on.
  std::unique_ptr<DataStream> going_on;
  if (TrainConfig config = variants_[variant].config;
      config.loader_reshape == LoaderReshape::Recreate && config.phase_batches > 0) {
    config.loader_reshape = LoaderReshape::Resize;
    going_on = std::make_unique<DataStream>(source_, config, Split::Train);
  }
  DataStream& data = going_on ? *going_on : train_data(variant);
  std::vector<Batch> batches;
  std::size_t taken = 0;
  std::int64_t tokens = 0;
  for (std::int64_t drawn = 0; taken < ranks * kParityUnits; ++drawn) {
    Batch batch = data.next();
    const bool several = batch.documents.cu_host.size() > batch.rows.cu_host.size();
    tokens += batch.token_count();
    if (!several && (drawn < kParityDraws || tokens < kParityTokens)) continue;
    if (taken++ % ranks != own) continue;
    prepare(batch, variants_[variant].config);
    batches.push_back(std::move(batch));
  }
  return batches;
}

json Launch::parity() {
  json gates = json::array(), metrics = json::array();
  const auto drawn = for_every_variant([&](std::size_t i) {
    return guard_memory(i, variants_[i].name, [&] { return parity_batches(i); });
  });
  for (std::size_t i = 0; i < variants_.size(); ++i) {
    const VariantSpec& spec = variants_[i];
    const std::vector<Batch>& batches = drawn[i];
    if (spec.role == "control") continue;
    guard_memory(i, spec.name, [&] {
      if (spec.role == "level") {
        for (const GateResult& gate :
             run_gates(optimization_, reference(), spec.config, batches, group(), drawn.front()))
          gates.push_back({{"variant", i},
                           {"name", gate.name},
                           {"passed", gate.passed},
                           {"value", gate.value},
                           {"bound", gate.bound},
                           {"detail", gate.detail}});
      }
      const auto load = [&] {
        if (times_loader()) (void)next_train_data(i);
      };
      const CodePath seen = record_code_path(optimization_, spec.config, batches, group(), load);
      for (const auto& [name, count] : seen.spans)
        metrics.push_back(metric_json(i, "engaged/" + name, "spans", static_cast<double>(count)));
      for (const auto& [name, count] : seen.counters) {
        metrics.push_back(metric_json(i, name, "count", static_cast<double>(count)));
        if (shows_a_level(optimization_, name))
          metrics.push_back(metric_json(i, "engaged/" + name, "count", static_cast<double>(count)));
      }
      for (const auto& [name, count] : seen.operators)
        metrics.push_back(metric_json(i, "ops/" + name, "calls", static_cast<double>(count)));
    });
  }
  std::map<Precision, MeasuredPeaks> peaks;
  for (std::size_t i = 0; i < variants_.size(); ++i) {
    const TrainConfig& config = variants_[i].config;
    if (config.device != Device::Cuda || variants_[i].role == "control") continue;
    if (!peaks.contains(config.precision))
      peaks[config.precision] = measure_peaks(config.precision);
    add_peaks(metrics, i, peaks[config.precision]);
  }
  return {{"event", "parity"}, {"gates", gates}, {"metrics", metrics}};
}

// Every variant takes the same units, and all of them twice: what LibTorch keeps for the whole
// process (workspaces, handles) is then there before the first figure counts, and no variant pays
// for another's. The control is measured as well: it must need the bytes of its reference.
json Launch::memory() {
  json metrics = json::array();
  const auto first = for_every_variant([&](std::size_t i) { return next_train_data(i); });
  const auto units = for_every_variant([&](std::size_t i) { return next_units(i); });
  for (const bool counted : {false, true})
    for (std::size_t i = 0; i < variants_.size(); ++i)
      guard_memory(i, variants_[i].name, [&] {
        json measured = measure_memory(i, first[i], units[i]);
        if (counted) metrics.insert(metrics.end(), measured.begin(), measured.end());
      });
  return {{"event", "memory"}, {"metrics", metrics}};
}

// The replica is built after what counts its bytes.
json Launch::measure_memory(std::size_t variant,
                            const UnitData& first,
                            const std::vector<UnitData>& units) {
  const TrainConfig& config = variants_[variant].config;
  AllocationLog log(std::ssize(config.pattern));
  const SpanSinkGuard spans(log);
  PeakMemory peak(config.device, &log);
  const std::unique_ptr<Trainer> trainer = make_trainer(variant);
  for (const Parameter& parameter : trainer->parameters())
    log.watch(parameter.name, parameter.tensor);
  for (std::int64_t step = 0; step < trainer->warm_up_steps(); ++step) (void)trainer->step(first);
  (void)run_visit(*trainer, unit_ == "evaluation", prepared(units), 0);
  peak.restart();
  log.restart();
  (void)run_visit(*trainer, unit_ == "evaluation", prepared(units), 0);
  // A replay allocates nothing: it writes to the graphs' own memory.
  const std::int64_t graphs = trainer->graph_counts() ? graph_pool_bytes() : 0;
  json metrics = json::array();
  metrics.push_back(metric_json(variant,
                                "memory/peak_bytes",
                                "bytes",
                                static_cast<double>(peak.peak_bytes() + graphs),
                                log.highest_in(graphs)));
  metrics.push_back(
      metric_json(variant, "memory/start_bytes", "bytes", static_cast<double>(peak.start_bytes())));
  add_parts(metrics, variant, log.parts(trainer->lasting_tensors(), graphs));
  add_curve(metrics, variant, log.curve(graphs));
  return metrics;
}

} // namespace assay::worker
