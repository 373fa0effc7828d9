// bench_export [TRACE]: events a second of the Chrome export, plain and compressed, of a synthetic
// trace of a million events or of the given one. Prints; Kineto's own `save` of the same events is
// the yardstick (docs/results), goal 2 times.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "core/result.h"
#include "experiments/demo/demo_trace.h"
#include "experiments/export/export_chrome.h"

namespace {

using namespace assay;

constexpr int kRuns = 5;

// 80 kernels a step with operators, calls and arrows: about 560 events a step.
std::string make_trace(const std::filesystem::path& directory) {
  DemoTrace plan;
  plan.path = (directory / "bench.sqlite").string();
  plan.cell = plan.optimization = plan.variant = "bench";
  const DemoKernel kernel{"aten::mm",
                          "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_"
                          "warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas",
                          "sm90_xmma_gemm",
                          100};
  plan.stages = {{"forward", "", {kernel}, 40}, {"backward", "", {kernel}, 40}};
  plan.copy_us = 20;
  plan.rounds = 1100;
  plan.places = 1;
  write_demo_trace(plan);
  return plan.path;
}

void measure(const std::string& trace, const std::string& out) {
  std::vector<double> seconds;
  ExportSummary summary;
  for (int run = 0; run < kRuns; ++run) {
    const auto start = std::chrono::steady_clock::now();
    summary = export_chrome({trace}, {}, out);
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::sort(seconds.begin(), seconds.end());
  const double median = seconds[kRuns / 2];
  fmt::print("{:<10} {:>9} events  {:>6.3f} s [{:.3f}, {:.3f}]  {:>9.0f} events/s  {:>5.0f} MB/s  "
             "{:.0f} bytes/event\n",
             std::filesystem::path(out).extension() == ".gz" ? "gzip" : "plain",
             summary.events,
             median,
             seconds.front(),
             seconds.back(),
             static_cast<double>(summary.events) / median,
             static_cast<double>(summary.bytes) / median / 1e6,
             static_cast<double>(summary.bytes) / static_cast<double>(summary.events));
}

} // namespace

int main(int argc, char** argv) {
  const std::filesystem::path directory =
      std::filesystem::temp_directory_path() / fmt::format("assay-bench-export-{}", ::getpid());
  int exit_code = 0;
  try {
    std::filesystem::create_directories(directory);
    const std::string trace = argc > 1 ? argv[1] : make_trace(directory);
    fmt::print("Chrome export, median of {} runs [fastest, slowest]\n", kRuns);
    for (const char* name : {"out.json", "out.json.gz"})
      measure(trace, (directory / name).string());
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    exit_code = 1;
  }
  std::error_code ignored;
  std::filesystem::remove_all(directory, ignored);
  return exit_code;
}
