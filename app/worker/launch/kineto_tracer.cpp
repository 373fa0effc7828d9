// Kineto, for comparison only: it and Assay's collectors never run in one process.
#include <torch/csrc/autograd/profiler_kineto.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <set>
#include <unistd.h>

#include "app/worker/launch/tracer.h"
#include "core/result.h"
#include "core/stopwatch.h"

namespace assay::worker {

namespace {

using nlohmann::json;
using torch::profiler::impl::ActivityType;

class KinetoTracer : public Tracer {
public:
  explicit KinetoTracer(const TracerOptions& options)
      : config_(torch::profiler::impl::ProfilerState::KINETO) {
    if (options.collect.operators) activities_.insert(ActivityType::CPU);
    if (options.cuda) activities_.insert(ActivityType::CUDA);
    if (activities_.empty()) bad_input("Kineto has nothing to record: no GPU and no operators");
  }

  void begin_visit(std::size_t, int, bool warmup) override {
    counted_ = !warmup;
    torch::autograd::profiler::prepareProfiler(config_, activities_);
    torch::autograd::profiler::enableProfiler(config_, activities_);
  }

  void unit(std::int64_t, std::int64_t, bool, std::int64_t) override {}

  // Counts a visit, and measures Kineto's own export of it.
  void end_visit() override {
    const auto result = torch::autograd::profiler::disableProfiler();
    if (!counted_) return;
    for (const auto& event : result->events()) {
      ++events_;
      if (event.deviceType() == c10::DeviceType::CUDA) ++kernels_[event.name()];
    }
    const std::filesystem::path path = std::filesystem::temp_directory_path() /
                                       ("assay-kineto-" + std::to_string(::getpid()) + ".json");
    const auto start = std::chrono::steady_clock::now();
    result->save(path.string());
    save_seconds_ += seconds_since(start);
    save_bytes_ += std::filesystem::file_size(path);
    std::filesystem::remove(path);
  }

  void describe(std::size_t, const std::string&, const std::string&) override {}

  json finish() override {
    json metrics = json::array();
    const auto add =
        [&](const char* path, const char* unit, double value, std::string detail = "") {
          metrics.push_back({{"variant", nullptr},
                             {"path", path},
                             {"unit", unit},
                             {"value", value},
                             {"detail", std::move(detail)}});
        };
    add("kineto/events", "records", static_cast<double>(events_));
    add("kineto/save_seconds", "s", save_seconds_);
    add("kineto/save_bytes", "bytes", static_cast<double>(save_bytes_));
    for (const auto& [name, count] : kernels_)
      add("kineto/device_events", "records", static_cast<double>(count), name);
    return metrics;
  }

private:
  torch::profiler::impl::ProfilerConfig config_;
  std::set<ActivityType> activities_;
  bool counted_ = false;
  std::int64_t events_ = 0;
  double save_seconds_ = 0;
  std::uintmax_t save_bytes_ = 0;
  std::map<std::string, std::int64_t> kernels_; // by name, copies and sets included
};

} // namespace

std::unique_ptr<Tracer> make_kineto_tracer(const TracerOptions& options) {
  return std::make_unique<KinetoTracer>(options);
}

} // namespace assay::worker
