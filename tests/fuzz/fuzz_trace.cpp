// A small trace with edits, read and tiled.
#include "core/trace/trace_file.h"
#include "experiments/attribution/tiling.h"
#include "experiments/demo/demo_trace.h"
#include "tests/fuzz/edited_database.h"
#include "tests/fuzz/input.h"

namespace {

using namespace assay;

std::string good_trace() {
  DemoTrace plan;
  plan.path = fuzz::folder() / "good.sqlite";
  plan.cell = "varlen";
  plan.variant = "packed";
  plan.optimization = "varlen";
  plan.warm_rounds = 1;
  plan.rounds = 2;
  plan.stages = {
      {"forward", "attention", {{"aten::mm", "void gemm_kernel(float*)", "gemm_kernel", 100}}},
      {"backward", "", {{"MmBackward0", "void gemm_kernel(float*)", "gemm_kernel", 200}}},
      {"optimizer", "", {{"aten::add_", "void add_kernel(float*)", "add_kernel", 30}}}};
  plan.copy_us = 20;
  write_demo_trace(plan);
  return plan.path;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::EditedDatabase good(good_trace());
  static const std::string path = fuzz::folder() / "edited.sqlite";
  good.write(path, data, size);
  fuzz::try_to([] {
    Result<Trace> trace = read_trace(path);
    if (trace) tile_trace(*trace);
    return trace;
  });
  return 0;
}
