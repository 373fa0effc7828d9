#include "experiments/demo/demo_trace.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "core/trace/trace_file.h"

namespace assay {

namespace {

constexpr std::int64_t kEpoch = 1'795'219'200'000'000'000; // 2026-11-21T00:00:00Z
constexpr std::int64_t kMicro = 1000;
constexpr std::int64_t kLaunchNs = 5 * kMicro;  // a cudaLaunchKernel
constexpr std::int64_t kLatencyNs = 2 * kMicro; // from its end to the kernel's start on an idle GPU
constexpr std::int64_t kTelemetryNs = 5'000'000;
constexpr std::uint32_t kComputeStream = 7, kCopyStream = 13;

class Writer {
public:
  explicit Writer(const DemoTrace& plan)
      : plan_(plan), file_(plan.path, kEpoch), random_(plan.seed),
        shared_(0x5eed), // the same for all variants of a launch
        main_(global_tid(plan.process, plan.process)),
        autograd_(global_tid(plan.process, plan.process + 9)) {}

  void write() {
    set_info();
    for (int round = 0; round < plan_.warm_rounds + plan_.rounds; ++round) {
      const double common = 0.01 * normal_(shared_);
      for (int place = 0; place < plan_.places; ++place) {
        now_ += 400 * kMicro; // what the engine does between visits
        if (place == plan_.place)
          visit(round, common);
        else
          now_ += visit_ns_guess();
      }
      file_.append(batch_);
      batch_.clear();
    }
    write_telemetry();
    write_audit();
    file_.finish();
  }

private:
  NameId id(std::string_view text) { return file_.intern(text); }
  std::int64_t scaled(double us) {
    return std::llround(us * factor_ * static_cast<double>(kMicro));
  }

  // How long another variant's visit takes: only a plausible gap in the time line.
  std::int64_t visit_ns_guess() const {
    double us = plan_.data_wait_us + plan_.copy_us;
    for (const DemoStage& stage : plan_.stages)
      for (const DemoKernel& kernel : stage.kernels) us += stage.repeat * kernel.us;
    return std::llround(us * plan_.visit_steps * static_cast<double>(kMicro));
  }

  void visit(int round, double common) {
    for (int position = 0; position < plan_.visit_steps; ++position) {
      factor_ = std::exp(common + plan_.noise * normal_(random_));
      StepRow row;
      row.step = steps_++;
      row.round = round;
      row.position = position;
      row.counted = round >= plan_.warm_rounds && position >= plan_.discard_steps;
      row.tokens = 4096;
      row.global_tid = main_;
      row.start = now_;
      step();
      row.end = now_;
      batch_.steps.push_back(row);
      now_ += 3 * kMicro;
    }
  }

  void step() {
    const std::int64_t start = now_;
    gpu_free_ = std::max(gpu_free_, now_);
    if (plan_.data_wait_us > 0) span("data_wait", [&] { now_ += scaled(plan_.data_wait_us); });
    if (plan_.gpu && plan_.copy_us > 0) span("host_to_device", [&] { copy_batch(); });
    for (const DemoStage& stage : plan_.stages) run_stage(stage);
    if (plan_.gpu) synchronize();
    now_ += 2 * kMicro;
    range("step", start, now_, main_);
  }

  template <class Body> void span(const std::string& name, Body body) {
    const std::int64_t start = now_ += 500;
    body();
    now_ += 500;
    range(name, start, now_, main_);
  }

  void range(const std::string& name, std::int64_t start, std::int64_t end, std::int64_t thread) {
    RangeRow row;
    row.start = start;
    row.end = end;
    row.global_tid = thread;
    row.text = id(name);
    row.domain = id("assay");
    batch_.ranges.push_back(row);
  }

  void run_stage(const DemoStage& stage) {
    span(stage.span, [&] {
      for (int layer = 0; layer < stage.repeat; ++layer) {
        const auto all = [&] {
          for (const DemoKernel& kernel : stage.kernels) run_operator(kernel, stage.span);
        };
        if (stage.inner_span.empty())
          all();
        else
          span(stage.inner_span, all);
      }
    });
  }

  // Forward operators record a sequence number, which the backward of the same call repeats; the
  // last forward call comes first in the backward pass.
  void run_operator(const DemoKernel& kernel, const std::string& stage) {
    const bool forward = stage == "forward", backward = stage == "backward";
    OperatorRow row;
    row.name = id(kernel.op);
    row.global_tid = backward ? autograd_ : main_;
    row.backward = backward;
    row.forward_thread = backward ? 1 : 0;
    if (forward) open_.push_back(row.sequence = sequence_++);
    if (backward && !open_.empty()) {
      row.sequence = open_.back();
      open_.pop_back();
    }
    row.start = now_;
    now_ += kMicro;
    if (plan_.gpu)
      launch(kernel, row.global_tid);
    else
      now_ += scaled(kernel.us);
    now_ += kMicro;
    row.end = now_;
    batch_.operators.push_back(row);
  }

  std::uint32_t call(const char* name, std::int64_t length, std::int64_t thread) {
    ApiRow row;
    row.start = now_;
    row.end = now_ += length;
    row.global_tid = thread;
    row.correlation = ++correlation_;
    row.name = id(name);
    batch_.api.push_back(row);
    return row.correlation;
  }

  void launch(const DemoKernel& kernel, std::int64_t thread) {
    KernelRow row;
    row.correlation = call("cudaLaunchKernel", kLaunchNs, thread);
    row.start = std::max(gpu_free_ + 700, now_ + kLatencyNs);
    row.end = gpu_free_ = row.start + std::max<std::int64_t>(scaled(kernel.us) - 700, 500);
    row.context = 1;
    row.stream = kComputeStream;
    row.demangled = id(kernel.name);
    row.short_name = id(kernel.short_name);
    row.mangled = row.short_name;
    row.registers_per_thread = 32 + static_cast<std::uint32_t>(kernel.name.size()) % 160;
    row.grid = {static_cast<std::int32_t>(64 + kernel.name.size()), 8, 1};
    row.block = {256, 1, 1};
    row.dynamic_shared_bytes = 49'152;
    row.grid_id = row.correlation;
    batch_.kernels.push_back(row);
  }

  void copy_batch() {
    CopyRow row;
    row.correlation = call("cudaMemcpyAsync", 4 * kMicro, main_);
    row.start = std::max(gpu_free_, now_ + kLatencyNs);
    row.end = gpu_free_ = row.start + scaled(plan_.copy_us);
    row.context = 1;
    row.stream = kCopyStream;
    row.bytes = 2 << 20;
    row.copy_kind = 1;
    row.src_kind = 1;
    row.dst_kind = 2;
    batch_.copies.push_back(row);
    SetRow set;
    set.correlation = call("cudaMemsetAsync", 3 * kMicro, main_);
    set.start = std::max(gpu_free_, now_ + kLatencyNs);
    set.end = gpu_free_ = set.start + 2 * kMicro;
    set.context = 1;
    set.stream = kComputeStream;
    set.bytes = 4096;
    set.memory_kind = 2;
    batch_.sets.push_back(set);
  }

  void synchronize() {
    SyncRow row;
    row.start = now_;
    now_ += 500;
    row.correlation = call(
        "cudaStreamSynchronize", std::max<std::int64_t>(gpu_free_ - now_, 0) + 3 * kMicro, main_);
    row.end = now_;
    row.context = 1;
    row.stream = kComputeStream;
    row.sync_type = 3;
    batch_.syncs.push_back(row);
  }

  void set_info() {
    const std::pair<const char*, std::string> info[] = {{"launch", std::to_string(plan_.launch)},
                                                        {"rank", "0"},
                                                        {"cell", plan_.cell},
                                                        {"variant", plan_.variant},
                                                        {"level", plan_.variant},
                                                        {"optimization", plan_.optimization},
                                                        {"unit", plan_.unit},
                                                        {"device", plan_.gpu ? "cuda" : "cpu"},
                                                        {"program", "assay demo"},
                                                        {"seed", std::to_string(plan_.seed)}};
    for (const auto& [key, value] : info) file_.set_info(key, value);
  }

  void sample(const char* metric, std::int64_t time, double value) {
    batch_.telemetry.push_back({time, id(metric), value});
  }

  void write_telemetry() {
    std::vector<TelemetryMetric> metrics{{"CPU busy [%]", "HOST", "ok"},
                                         {"Resident memory [MiB]", "HOST", "ok"}};
    if (plan_.gpu)
      for (const char* name : {"GPU busy [%]",
                               "GPU memory used [MiB]",
                               "SM clock [MHz]",
                               "Power [W]",
                               "Temperature [C]"})
        metrics.push_back({name, "NVML", "ok"});
    if (plan_.gpu) metrics.push_back({"PCIe sent [KB/s]", "NVML", "not permitted: no permission"});
    file_.set_telemetry_metrics(metrics);
    double temperature = 41;
    for (std::int64_t time = kEpoch + kMicro; time < now_; time += kTelemetryNs) {
      sample("CPU busy [%]", time, plan_.gpu ? 51 + 2 * normal_(random_) : 97 + normal_(random_));
      sample("Resident memory [MiB]", time, 2210);
      if (!plan_.gpu) continue;
      temperature += 0.02 * (58 - temperature);
      sample("GPU busy [%]", time, std::min(100.0, 96 + normal_(random_)));
      sample("GPU memory used [MiB]", time, 18'432);
      sample("SM clock [MHz]", time, 1980 - (temperature > 55 ? 15 : 0));
      sample("Power [W]", time, 610 + 8 * normal_(random_));
      sample("Temperature [C]", time, std::floor(temperature));
    }
    file_.append(batch_);
    batch_.clear();
  }

  void write_audit() {
    file_.add_audit(
        {{"lost_records",
          0,
          0,
          true,
          "records that could not be kept: times and counts are too low"},
         {"timestamp_zero", 0, 0, true, "records whose time was lost: they belong to no stage"},
         {"launch_after_kernel",
          0,
          0,
          true,
          "kernels that start before their launch, by up to 0 ns"},
         {"step_coverage",
          0.99,
          0.95,
          true,
          "share of the steps' wall time inside recorded spans"}});
  }

  const DemoTrace& plan_;
  TraceWriter file_;
  TraceBatch batch_;
  std::mt19937_64 random_, shared_;
  std::normal_distribution<double> normal_;
  std::int64_t main_, autograd_;
  std::int64_t now_ = kEpoch + 2'000'000, gpu_free_ = kEpoch;
  std::int64_t steps_ = 0, sequence_ = 0;
  std::uint32_t correlation_ = 1000;
  std::vector<std::int64_t> open_; // sequence numbers that wait for their backward
  double factor_ = 1;              // of this step's durations
};

} // namespace

void write_demo_trace(const DemoTrace& plan) {
  Writer(plan).write();
}

} // namespace assay
