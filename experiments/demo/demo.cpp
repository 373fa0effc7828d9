#include "experiments/demo/demo.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "core/ledger/ledger.h"
#include "core/ledger/ledger_schema.h"
#include "core/result.h"
#include "core/trace/trace_file.h"
#include "experiments/demo/demo_trace.h"
#include "experiments/demo/staged_directory.h"
#include "experiments/demo/synthetic_ledger.h"

namespace assay {

namespace {

using synthetic::SyntheticCell;
using synthetic::SyntheticPlan;

// Of the reference's step on the demo's GPU; its traced steps take a little longer, as real ones
// do.
constexpr double kUnitUs = 11'300;
constexpr double kVarlenGain = 0.115; // log time; +12 % throughput
constexpr double kPackedGain = 0.03;
constexpr double kSwapGain = 0.25;
constexpr double kEvaluationUs = 8'400; // of the reference's evaluation on the demo's CPU
constexpr int kTracedRounds = 10;

struct Shown { // a cell, and what it is there to show
  SyntheticCell cell;
  const char* shows;
};

SyntheticCell cell_of(const char* name, const char* optimization, const char* summary) {
  SyntheticCell cell;
  cell.name = name;
  cell.optimization = optimization;
  cell.summary = summary;
  cell.unit_ns = kUnitUs * 1000;
  cell.config_json = R"({"device":"cuda","precision":"bf16","preset":"base","eval_interval":100})";
  cell.device_times = true;
  return cell;
}

SyntheticCell varlen() {
  SyntheticCell cell =
      cell_of("varlen", "varlen", "packed documents attend only inside themselves");
  cell.equivalence = "objective";
  cell.levels = {{.name = "mask_dense", .summary = "dense causal mask over the whole row"},
                 {.name = "packed", .effect = -kPackedGain, .memory_ratio = 0.97},
                 {.name = "varlen", .effect = -kVarlenGain, .memory_ratio = 0.91}};
  for (auto& level : cell.levels) level.gate = "isolation/documents";
  cell.also_compare = {{"packed", "varlen"}};
  cell.loss_seeds = 4;
  cell.levels[1].loss_sd = 0.002;
  cell.levels[2].loss_shift = -0.006;
  cell.levels[2].loss_sd = 0.003;
  cell.traced_rounds = kTracedRounds;
  return cell;
}

SyntheticCell ema_swap() {
  SyntheticCell cell =
      cell_of("ema_swap", "ema_swap", "evaluation on the EMA weights without a second copy");
  cell.unit = "evaluation";
  cell.unit_ns = kEvaluationUs * 1000;
  cell.config_json = R"({"device":"cpu","precision":"fp32","preset":"tiny","eval_interval":100})";
  cell.device_times = false;
  cell.levels = {{.name = "clone_copy"},
                 {.name = "pointer_swap", .effect = -kSwapGain, .memory_ratio = 0.96}};
  cell.traced_rounds = kTracedRounds;
  return cell;
}

SyntheticCell two(const char* name, const char* summary, double effect) {
  SyntheticCell cell = cell_of(name, name, summary);
  cell.levels = {{.name = "off"}, {.name = "on", .effect = effect}};
  return cell;
}

std::vector<Shown> shown_cells() {
  std::vector<Shown> cells{
      {varlen(), "faster, no loss for it; traced on a GPU: kernels, copies, telemetry"},
      {ema_swap(), "faster, traced on a CPU: spans and operators"}};
  cells.push_back(
      {two("grad_scaler", "dynamic loss scaling", 0.03), "slower; a launch that failed"});
  cells.back().cell.failed_attempt = "worker ended with signal 9 (killed) in round 12; its last "
                                     "line: CUDA error: an illegal memory "
                                     "access was encountered";
  cells.push_back({two("bf16_guard", "cast to bf16 only what is not bf16", 0), "no effect"});
  cells.back().cell.levels[1].same_work = true;
  cells.push_back({two("flash_block", "larger attention blocks", -0.01), "inconclusive"});
  cells.back().cell.launch_sd = 0.04;
  cells.push_back({two("fused_norm", "one kernel for norm and residual", -0.06),
                   "a level that its gate rejects"});
  cells.back().cell.levels[1].gate_passes = false;
  cells.back().cell.levels.push_back({.name = "exact", .effect = -0.03});
  cells.push_back({two("cuda_graphs", "replay of the captured step", -0.08), "not engaged"});
  cells.back().cell.levels[1].engaged = false;
  cells.push_back({two("side_stream", "copies on a stream of their own", -0.02), "A/A alarm"});
  cells.back().cell.control_effect = 0.05;
  cells.push_back({two("low_precision", "8-bit optimizer states", -0.05),
                   "a level that diverged and was retired"});
  cells.back().cell.levels.push_back({.name = "stochastic", .effect = -0.07, .nan_in_launch = 3});
  return cells;
}

ClaimRow claim(const char* id, const char* optimization, const char* from, const char* to) {
  ClaimRow row;
  row.id = id;
  row.optimization = optimization;
  row.from = from;
  row.to = to;
  row.text = "an invented claim of the demo";
  row.source = "assay demo";
  row.metric = "throughput";
  row.conditions = "none";
  return row;
}

std::vector<ClaimRow> demo_claims() {
  ClaimRow throughput = claim("demo-varlen", "varlen", "mask_dense", "varlen");
  throughput.lo = 0.10;
  throughput.hi = 0.15;
  throughput.stages = "forward,backward";
  ClaimRow memory = claim("demo-ema", "ema_swap", "clone_copy", "pointer_swap");
  memory.metric = "peak_memory";
  memory.lo = memory.hi = 0.60;
  ClaimRow scaler = claim("demo-scaler", "grad_scaler", "off", "on");
  scaler.lo = 0.10;
  scaler.hi = 0.20;
  ClaimRow guard = claim("demo-guard", "bf16_guard", "off", "on");
  guard.lo = 0.05;
  guard.hi = 0.10;
  guard.conditions = "preset small";
  guard.requires_json = R"({"preset":["small"]})";
  ClaimRow graphs = claim("demo-graphs", "cuda_graphs", "off", "on");
  graphs.lo = 0.05;
  graphs.hi = 0.30;
  graphs.unmet = "needs two nodes";
  return {throughput, memory, scaler, guard, graphs};
}

// As the engine does: what its parity gate rejects is not measured, and replicas are built in
// another order launch by launch.
void follow_the_rules(LedgerData& data) {
  std::set<std::int64_t> rejected;
  for (const GateRow& gate : data.gates)
    if (!gate.passed) rejected.insert(gate.variant);
  std::erase_if(data.visits,
                [&](const VisitRow& visit) { return rejected.contains(visit.variant); });
  std::erase_if(data.metrics, [&](const MetricRow& metric) {
    return rejected.contains(metric.variant) && metric.path.starts_with("memory/");
  });
  for (LaunchRow& launch : data.launches) {
    std::vector<std::string> names;
    for (const VariantRow& variant : data.variants)
      if (variant.cell == launch.cell &&
          (launch.kind == LaunchKind::Parity || !rejected.contains(variant.id)))
        names.push_back(variant.name);
    std::rotate(names.begin(),
                names.begin() + launch.id % static_cast<std::int64_t>(names.size()),
                names.end());
    launch.build_order = fmt::format("{}", fmt::join(names, " "));
  }
}

LedgerData demo_ledger(const std::vector<Shown>& shown) {
  SyntheticPlan plan;
  plan.name = "demo";
  plan.seed = 7;
  plan.rounds = 30;
  plan.memory_parts = true;
  plan.noise = 0.008;
  plan.launch_sd = 0.0015;
  plan.identity.cuda = "13.0";
  plan.identity.driver = "580.0";
  plan.identity.gpu = "Synthetic GPU";
  plan.identity.gpu_uuid = "GPU-00000000-0000-0000-0000-000000000000";
  plan.identity.cpu = "Synthetic CPU";
  for (const Shown& one : shown) plan.cells.push_back(one.cell);
  plan.claims = demo_claims();
  LedgerData data = synthetic::synthetic_ledger(plan);
  follow_the_rules(data);
  data.spec.command = "assay demo";
  data.spec.matrix_toml = "# synthetic: no matrix made these results\nversion = 1\n";
  return data;
}

// ---- Traces ----

DemoStage stage(const char* span, const char* inner, int repeat, std::vector<DemoKernel> kernels) {
  return {span, inner, std::move(kernels), repeat};
}

// What a step of the main cell does: durations in us of one layer, of six. Where `gain` comes from:
// 40 % in forward's attention, 60 % in backward's.
std::vector<DemoStage> gpu_stages(const std::string& variant, double gain) {
  const double saved = kUnitUs * (1 - std::exp(-gain));
  const bool dense = variant == "mask_dense";
  const std::string kind = dense ? "mask_dense" : variant;
  std::vector<DemoKernel> forward{
      {"aten::native_layer_norm",
       "void at::native::vectorized_layer_norm_kernel<c10::BFloat16, float>",
       "vectorized_layer_norm_kernel",
       24},
      {"aten::mm",
       "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1",
       "sm90_xmma_gemm_bf16bf16",
       180},
      {"aten::_flash_attention_forward",
       dense ? "fmha_cutlassF_bf16_aligned_64x128_rf_sm80(PyTorchMemEffAttention::AttentionKernel::"
               "Params)"
             : "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4>, " +
                   std::string(variant == "varlen" ? "true" : "false") + ">",
       dense ? "fmha_cutlassF_bf16_aligned_64x128_rf_sm80" : "flash_fwd_kernel",
       250 - 0.4 * saved / 6 - (dense ? 30 : 0)},
      {"aten::mm",
       "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1",
       "sm90_xmma_gemm_bf16bf16",
       150}};
  if (dense)
    forward.insert(forward.begin() + 2,
                   {"aten::masked_fill",
                    "void at::native::elementwise_kernel<128, 4, masked_fill_kernel>",
                    "elementwise_kernel",
                    30});
  std::vector<DemoKernel> backward{
      {"MmBackward0",
       "sm90_xmma_gemm_bf16bf16_bf16f32_f32_nt_n_tilesize128x128x64_warpgroupsize1x1x1",
       "sm90_xmma_gemm_bf16bf16",
       310},
      {"FlashAttentionBackward0",
       dense
           ? "fmha_cutlassB_bf16_aligned_128x64_k64_sm80(PyTorchMemEffAttention::"
             "AttentionBackwardKernel::Params)"
           : "void flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<64, "
             "128, 128, 8>>",
       dense ? "fmha_cutlassB_bf16_aligned_128x64_k64_sm80"
             : "flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel",
       480 - 0.6 * saved / 6},
      {"MmBackward0",
       "sm90_xmma_gemm_bf16bf16_bf16f32_f32_nt_n_tilesize128x128x64_warpgroupsize1x1x1",
       "sm90_xmma_gemm_bf16bf16",
       260},
      {"NativeLayerNormBackward0",
       "void at::native::layer_norm_grad_input_kernel<c10::BFloat16, float>",
       "layer_norm_grad_input_kernel",
       36}};
  return {stage("forward", ("attention/" + kind).c_str(), 6, std::move(forward)),
          stage("backward", "", 6, std::move(backward)),
          stage("optimizer",
                "",
                4,
                {{"aten::_fused_adamw_",
                  "void at::native::multi_tensor_apply_kernel<FusedAdamMathFunctor<float, 4>>",
                  "multi_tensor_apply_kernel",
                  280}}),
          stage("ema/update",
                "",
                1,
                {{"aten::_foreach_lerp_",
                  "void at::native::multi_tensor_apply_kernel<TernaryOpScalarFunctor<float>>",
                  "multi_tensor_apply_kernel",
                  320}})};
}

std::vector<DemoStage> cpu_stages(bool swapped) {
  const double saved = kEvaluationUs * (1 - std::exp(-kSwapGain));
  const double copies = saved / 48 + 4; // of 48 calls per step, with the swap's own 4 us left
  std::vector<DemoStage> stages;
  const auto exchange = [&] {
    if (swapped)
      stages.push_back(stage("ema/pointer_swap", "", 1, {{"aten::set_", "", "", 4 * 24}}));
    else
      stages.push_back(stage("ema/clone_copy", "", 24, {{"aten::copy_", "", "", copies}}));
  };
  exchange();
  stages.push_back(stage(
      "evaluate",
      "head",
      8,
      {{"aten::mm", "", "", 520}, {"aten::softmax", "", "", 130}, {"aten::add", "", "", 180}}));
  exchange();
  return stages;
}

std::vector<std::string> write_traces(const std::string& directory, const LedgerData& data) {
  std::vector<std::string> paths;
  const auto add = [&](DemoTrace trace, const char* cell, const std::string& variant) {
    trace.cell = trace.optimization = cell;
    trace.variant = variant;
    const auto row = std::find_if(
        data.cells.begin(), data.cells.end(), [&](const CellRow& one) { return one.name == cell; });
    trace.launch = data.latest_launch(row->id, LaunchKind::Traced, LaunchState::Complete)->id;
    trace.rounds = kTracedRounds;
    trace.seed = 100 + paths.size();
    trace.path =
        (std::filesystem::path(directory) / trace_file_name(trace.launch, 0, variant)).string();
    paths.push_back(trace.path);
    write_demo_trace(trace);
  };
  int place = 0;
  for (const auto& [variant, gain] : {std::pair("mask_dense", 0.0),
                                      std::pair("packed", kPackedGain),
                                      std::pair("varlen", kVarlenGain)}) {
    DemoTrace trace;
    trace.stages = gpu_stages(variant, gain);
    trace.data_wait_us = 150;
    trace.copy_us = 60;
    trace.place = place++;
    trace.places = 3;
    add(trace, "varlen", variant);
  }
  place = 0;
  for (const bool swapped : {false, true}) {
    DemoTrace trace;
    trace.gpu = false;
    trace.unit = "evaluation";
    trace.stages = cpu_stages(swapped);
    trace.place = place++;
    trace.visit_steps = 1;
    trace.discard_steps = 0;
    add(trace, "ema_swap", swapped ? "pointer_swap" : "clone_copy");
  }
  return paths;
}

} // namespace

Demo write_demo(const std::string& directory) {
  StagedDirectory staged(directory);
  const std::vector<Shown> shown = shown_cells();
  const LedgerData data = demo_ledger(shown);
  synthetic::store(data, staged.path());
  Demo demo;
  demo.launches = static_cast<std::int64_t>(data.launches.size());
  demo.visits = static_cast<std::int64_t>(data.visits.size());
  for (const Shown& one : shown)
    demo.cells.push_back(fmt::format("{:<14} {}", one.cell.name, one.shows));
  for (const std::string& trace : write_traces(staged.path(), data))
    demo.traces.push_back(
        (std::filesystem::path(directory) / kTraceFolder / std::filesystem::path(trace).filename())
            .string());
  staged.place(ledger_schema::kFileName);
  return demo;
}

} // namespace assay
