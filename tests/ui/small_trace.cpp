#include "tests/ui/small_trace.h"

#include <cmath>
#include <random>

#include "tests/ui/small_ledger.h"

namespace assay {
namespace {

constexpr std::int64_t kEpoch = 1'767'225'600'000'000'000; // 2026-01-01
constexpr std::int64_t kMain = global_tid(4242, 4242), kBackward = global_tid(4242, 4250);

// Host and device clocks of a training whose host runs ahead of its device.
class Recorder {
public:
  Recorder(TraceWriter& writer, std::uint32_t seed) : writer_(writer), random_(seed) {}

  std::int64_t now() const { return host_; }
  void wait_for_device() {
    const std::int64_t from = host_;
    host_ = std::max(host_, device_);
    batch_.api.push_back(
        {from, host_, 0, kMain, ++correlation_, writer_.intern("cudaStreamSynchronize"), 0});
  }
  void rest(std::int64_t ns) { host_ += ns; }
  void kernel(const char* op, const char* name, double us, std::int64_t thread = kMain) {
    const std::int64_t from = host_;
    host_ += 6'000;
    batch_.operators.push_back(
        {from, host_, thread, writer_.intern(op), -1, 0, thread == kBackward});
    batch_.api.push_back({from + 1'000,
                          from + 4'500,
                          0,
                          thread,
                          ++correlation_,
                          writer_.intern("cudaLaunchKernel"),
                          0});
    KernelRow row;
    row.start = std::max(device_ + 900, from + 5'500);
    row.end = row.start + std::llround(us * 1e3 * (1 + 0.01 * normal_(random_)));
    row.context = 1;
    row.stream = 7;
    row.correlation = correlation_;
    row.demangled = row.short_name = row.mangled = writer_.intern(name);
    row.registers_per_thread = 64;
    row.grid = {256, 1, 1};
    row.block = {128, 1, 1};
    device_ = row.end;
    batch_.kernels.push_back(row);
  }
  void copy(std::int64_t bytes, double us) {
    CopyRow row;
    row.start = std::max(device_, host_ + 2'000);
    row.end = row.start + std::llround(us * 1e3);
    row.context = 1;
    row.stream = 7;
    row.correlation = ++correlation_;
    row.bytes = static_cast<std::uint64_t>(bytes);
    row.copy_kind = 1;
    row.src_kind = 1;
    row.dst_kind = 2;
    batch_.api.push_back(
        {host_, host_ + 2'000, 0, kMain, correlation_, writer_.intern("cudaMemcpyAsync"), 0});
    device_ = row.end;
    host_ += 2'500;
    batch_.copies.push_back(row);
  }
  void span(const char* name, std::int64_t from) {
    batch_.ranges.push_back(
        {from, host_, 59, kMain, writer_.intern(name), writer_.intern("assay")});
  }
  void step(std::int64_t number, std::int64_t from, bool counted) {
    StepRow row;
    row.step = number;
    row.start = from;
    row.end = host_;
    row.round = static_cast<int>(number);
    row.counted = counted;
    row.tokens = 1024;
    row.global_tid = kMain;
    batch_.steps.push_back(row);
  }
  void flush() {
    writer_.append(batch_);
    batch_.clear();
  }
  TraceBatch& batch() { return batch_; }

private:
  TraceWriter& writer_;
  std::mt19937 random_;
  std::normal_distribution<double> normal_;
  std::int64_t host_ = kEpoch + 1'000'000, device_ = kEpoch;
  std::uint32_t correlation_ = 0;
  TraceBatch batch_;
};

constexpr const char* kGemm =
    "void "
    "cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_128x128_32x4_nn_align8>(Params)";

void forward(Recorder& recorder, const SmallTrace& what) {
  const std::int64_t from = recorder.now();
  for (int layer = 0; layer < what.layers; ++layer) {
    recorder.kernel(
        "aten::layer_norm", "void vectorized_layer_norm_kernel<float>(int, float*)", 40);
    recorder.kernel("aten::linear", kGemm, 220);
    if (what.fused) {
      recorder.kernel("flash::forward", kFusedKernel, 170);
    } else {
      recorder.kernel("aten::bmm", kGemm, 150);
      recorder.kernel("aten::softmax", "void softmax_warp_forward<float, float, 10>(float*)", 210);
      recorder.kernel("aten::bmm", kGemm, 140);
    }
    recorder.kernel("aten::gelu", "void vectorized_elementwise_kernel<4, GeluFunctor>(int)", 55);
  }
  recorder.span("forward", from);
}

void backward(Recorder& recorder, const SmallTrace& what) {
  const std::int64_t from = recorder.now();
  for (int layer = 0; layer < what.layers; ++layer) {
    recorder.kernel(
        "GeluBackward0", "void vectorized_elementwise_kernel<4, GeluBackward>(int)", 70, kBackward);
    recorder.kernel("AddmmBackward0", kGemm, 430, kBackward);
    recorder.kernel("SoftmaxBackward0",
                    "void softmax_warp_backward<float, float, 10>(float*)",
                    what.fused ? 120 : 260,
                    kBackward);
  }
  recorder.span("backward", from);
}

void one_step(Recorder& recorder, const SmallTrace& what, int step) {
  const std::int64_t from = recorder.now();
  recorder.rest(400'000);
  recorder.span("data_wait", from);
  const std::int64_t moved = recorder.now();
  recorder.copy(1 << 20, 120);
  recorder.span("host_to_device", moved);
  forward(recorder, what);
  backward(recorder, what);
  const std::int64_t update = recorder.now();
  const auto at = static_cast<std::size_t>(step);
  const double slower = at < what.slower_us.size() ? what.slower_us[at] : 0;
  for (int i = 0; i < 4; ++i)
    recorder.kernel(
        "aten::_foreach_add_", "void multi_tensor_apply_kernel<AdamW>(int)", 90 + slower / 4);
  recorder.span("optimizer", update);
  recorder.wait_for_device();
  recorder.rest(50'000);
  recorder.step(step, from, step >= 2);
}

void add_telemetry(TraceWriter& writer, Recorder& recorder, std::int64_t until, bool fused) {
  const std::vector<TelemetryMetric> metrics{
      {"SM clock [MHz]", "NVML", "ok"},
      {"Power [W]", "NVML", "ok"},
      {"CPU busy [%]", "HOST", "ok"},
      {"Energy [J]", "NVML", "not permitted: the driver refuses NVML_FI_DEV_ENERGY"}};
  writer.set_telemetry_metrics(metrics);
  const std::int64_t first = kEpoch + 1'000'000, spacing = (until - first) / 200;
  for (int i = 0; i < 200; ++i) {
    if (i > 90 && i < 105) continue; // the sampler slept
    const std::int64_t time = first + i * spacing;
    const double wave = std::sin(i * 0.3);
    recorder.batch().telemetry.push_back({time, writer.intern(metrics[0].name), 1950 + 20 * wave});
    recorder.batch().telemetry.push_back(
        {time, writer.intern(metrics[1].name), (fused ? 560 : 610) + 35 * wave});
    recorder.batch().telemetry.push_back({time, writer.intern(metrics[2].name), 55 + 30 * wave});
  }
  recorder.flush();
}

void set_info(TraceWriter& writer, const std::string& variant) {
  for (const auto& [key, value] : {std::pair<std::string, std::string>{"cell", "varlen"},
                                   {"variant", variant},
                                   {"device", "cuda:0"},
                                   {"gpu", "NVIDIA H200"}})
    writer.set_info(key, value);
}

} // namespace

void write_small_trace(const std::string& path, const SmallTrace& what) {
  TraceWriter writer(path, kEpoch);
  Recorder recorder(writer, what.fused ? 5 : 4);
  for (int step = 0; step < what.steps; ++step) one_step(recorder, what, step);
  recorder.flush();
  add_telemetry(writer, recorder, recorder.now(), what.fused);
  set_info(writer, what.variant);
  writer.add_audit({{"lost_records",
                     what.failed_audit ? 312.0 : 0.0,
                     0,
                     !what.failed_audit,
                     what.failed_audit ? "312 records were lost; sums are too small" : "none"}});
  writer.finish();
}

void write_large_trace(const std::string& path, std::int64_t events, const std::string& variant) {
  TraceWriter writer(path, kEpoch);
  Recorder recorder(writer, 9);
  constexpr int kSteps = 20;
  constexpr const char* kNames[] = {kGemm,
                                    kFusedKernel,
                                    "void vectorized_elementwise_kernel<4, GeluFunctor>(int)",
                                    "void softmax_warp_forward<float, float, 10>(float*)"};
  const std::int64_t kernels = events / 3 / kSteps; // each with its launch and its operator
  for (int step = 0; step < kSteps; ++step) {
    const std::int64_t from = recorder.now();
    for (std::int64_t i = 0; i < kernels; ++i)
      recorder.kernel("aten::linear", kNames[i % 4], 3 + static_cast<double>(i % 7));
    recorder.span(step % 2 == 0 ? "forward" : "backward", from);
    recorder.wait_for_device();
    recorder.step(step, from, step >= 2);
    recorder.flush();
  }
  add_telemetry(writer, recorder, recorder.now(), false);
  set_info(writer, variant);
  writer.finish();
}

LedgerData with_traced_launch(LedgerData data) {
  data.cells[0].traced_rounds = 10;
  LaunchRow launch = data.launches.front();
  launch.id = static_cast<std::int64_t>(data.launches.size() + 1);
  launch.cell = data.cells[0].id;
  launch.kind = LaunchKind::Traced;
  launch.index = 0;
  launch.state = LaunchState::Complete;
  data.launches.push_back(launch);
  return data;
}

void store_with_traces(const std::string& directory) {
  SmallPlan plan;
  plan.varlen = -0.145; // as the traces have it
  const LedgerData data = with_traced_launch(finished(plan));
  store(data, directory);
  const std::int64_t launch = data.launches.back().id;
  write_small_trace(directory + "/" + trace_file_name(launch, 0, "mask_dense"), {});
  SmallTrace b;
  b.fused = true;
  b.variant = "varlen";
  write_small_trace(directory + "/" + trace_file_name(launch, 0, "varlen"), b);
}

} // namespace assay
