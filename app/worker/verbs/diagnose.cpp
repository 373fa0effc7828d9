// `assay diagnose`: are the parts of a checkpoint's model alive?
#include "model/training/diagnosis.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "app/command_line/program.h"
#include "app/value_checks.h"
#include "app/worker/verbs/restored.h"
#include "app/worker/worker.h"
#include "core/text.h"
#include "model/data/spread.h"
#include "model/layout/segments.h"
#include "model/training/copy_census.h"

namespace assay::worker {

namespace {

using nlohmann::json;

struct DiagnoseOptions {
  std::string checkpoint, data, device = "cpu";
  std::int64_t batches = 4;
  bool copies = false, json = false;
};

constexpr std::size_t kShownCopies = 20;

// Training batches, spread over the split.
std::vector<Batch> draw(const Restored& restored, std::int64_t count) {
  const std::vector<DataPosition> places =
      spread_positions(restored.source, restored.config, Split::Train, count);
  DataStream stream(restored.source, restored.config, Split::Train);
  std::vector<Batch> batches;
  for (std::int64_t i = 0; i < count; ++i) {
    if (!places.empty()) stream.seek(places[static_cast<std::size_t>(i)]);
    batches.push_back(stream.next());
    prepare(batches.back(), restored.config);
  }
  return batches;
}

// Gradients of the first of two mixers that stand side by side over those of the second.
struct Ratio {
  std::string layer, first, second;
  double value = 0;
};

std::vector<Ratio> ratios_of(const Diagnosis& diagnosis) {
  std::vector<Ratio> ratios;
  const ComponentGradient* first = nullptr;
  for (const ComponentGradient& row : diagnosis.gradients) {
    if (row.component == "feed_forward" || row.component == "norms" || row.component == "mixer")
      continue;
    if (first != nullptr && first->layer == row.layer && row.norm > 0)
      ratios.push_back({row.layer, first->component, row.component, first->norm / row.norm});
    first = &row;
  }
  return ratios;
}

json to_json(const DiagnoseOptions& options, const Restored& restored, const Diagnosis& diagnosis) {
  json gradients = json::array(), ratios = json::array(), spreads = json::array(),
       states = json::array();
  for (const ComponentGradient& row : diagnosis.gradients)
    gradients.push_back({{"layer", row.layer}, {"component", row.component}, {"norm", row.norm}});
  for (const Ratio& row : ratios_of(diagnosis))
    ratios.push_back(
        {{"layer", row.layer}, {"first", row.first}, {"second", row.second}, {"ratio", row.value}});
  for (const ModuleSpread& row : diagnosis.spreads)
    spreads.push_back({{"module", row.module},
                       {"variance", row.variance},
                       {"of_stream", row.of_stream},
                       {"collapsed", row.collapsed}});
  for (const StateEntropy& row : diagnosis.states)
    states.push_back({{"module", row.module}, {"nats", row.nats}, {"most", row.most}});
  return {{"schema_version", 1},
          {"checkpoint", options.checkpoint},
          {"step", restored.step},
          {"batches", options.batches},
          {"gradients", gradients},
          {"ratios", ratios},
          {"spreads", spreads},
          {"states", states}};
}

void print(const Restored& restored, const Diagnosis& diagnosis, std::int64_t batches) {
  fmt::print("step {}, {} training batch{}\n\n{:<28}{:>14}\n",
             restored.step,
             batches,
             batches == 1 ? "" : "es",
             "gradients of",
             "norm");
  for (const ComponentGradient& row : diagnosis.gradients)
    fmt::print("{:<28}{:>14.4g}\n", row.layer + "." + row.component, row.norm);
  for (const Ratio& row : ratios_of(diagnosis))
    fmt::print("{:<28}{:>14.3g}  {} / {}\n", row.layer, row.value, row.first, row.second);
  fmt::print("\n{:<28}{:>14}{:>22}\n", "adds to the stream", "variance", "of the stream's");
  for (const ModuleSpread& row : diagnosis.spreads)
    fmt::print("{:<28}{:>14.4g}{:>20.3g} %{}\n",
               row.module,
               row.variance,
               100 * row.of_stream,
               row.collapsed ? "  collapsed" : "");
  if (!diagnosis.states.empty())
    fmt::print("\n{:<28}{:>14}{:>22}\n", "entropy of the state of", "nats", "of the most");
  for (const StateEntropy& row : diagnosis.states)
    fmt::print("{:<28}{:>14.4g}{:>20.1f} %\n", row.module, row.nats, 100 * row.nats / row.most);
  const auto collapsed = std::ranges::count_if(diagnosis.spreads, &ModuleSpread::collapsed);
  if (collapsed > 0)
    fmt::print("\n{} module{} collapsed: {} less than a millionth of the stream's variance\n",
               collapsed,
               collapsed == 1 ? "" : "s",
               collapsed == 1 ? "it adds" : "they add");
}

json copies_json(const DiagnoseOptions& options,
                 const Restored& restored,
                 const std::vector<StepCopy>& copies) {
  json rows = json::array();
  for (const StepCopy& row : copies)
    rows.push_back({{"stage", row.stage},
                    {"caller", row.caller},
                    {"asked_by", row.asked_by},
                    {"shape", row.shape},
                    {"from", row.from},
                    {"to", row.to},
                    {"calls", row.calls},
                    {"bytes", row.bytes}});
  return {{"schema_version", 1},
          {"checkpoint", options.checkpoint},
          {"step", restored.step},
          {"copies", rows}};
}

// "linear > to"; the operator that asked, below the outermost one.
std::string caller_text(const StepCopy& row) {
  const auto plain = [](const std::string& name) {
    const std::size_t last = name.find_last_of(": ");
    return last == std::string::npos ? name : name.substr(last + 1);
  };
  if (row.caller.empty()) return "";
  return row.caller == row.asked_by ? plain(row.caller)
                                    : plain(row.caller) + " > " + plain(row.asked_by);
}

void print_copies(const std::vector<StepCopy>& copies) {
  std::int64_t bytes = 0, calls = 0;
  for (const StepCopy& row : copies) {
    bytes += row.bytes;
    calls += row.calls;
  }
  fmt::print("copies of one training step: {} in {} calls, read and written\n\n{:>11}{:>7}  {:<23}"
             "{:<34}{:<22}{}\n",
             human_bytes(static_cast<double>(bytes)),
             calls,
             "bytes",
             "calls",
             "stage",
             "called by",
             "types",
             "shape");
  std::int64_t others = bytes, other_calls = calls;
  for (std::size_t i = 0; i < std::min(copies.size(), kShownCopies); ++i) {
    const StepCopy& row = copies[i];
    others -= row.bytes;
    other_calls -= row.calls;
    fmt::print("{:>11}{:>7}  {:<23}{:<34}{:<22}{}\n",
               human_bytes(static_cast<double>(row.bytes)),
               row.calls,
               row.stage,
               caller_text(row),
               row.from == row.to ? row.from : row.from + " > " + row.to,
               row.shape);
  }
  if (copies.size() > kShownCopies)
    fmt::print("{:>11}{:>7}  {} others; --json shows all\n",
               human_bytes(static_cast<double>(others)),
               other_calls,
               copies.size() - kShownCopies);
}

int show_copies(const DiagnoseOptions& options, const Restored& restored) {
  const std::vector<StepCopy> copies =
      copies_of_step(*restored.trainer, draw(restored, restored.config.accumulate));
  if (options.json)
    fmt::print("{}\n", copies_json(options, restored, copies).dump(2));
  else
    print_copies(copies);
  return 0;
}

int diagnose_checkpoint(const DiagnoseOptions& options) {
  say_when_interrupted("interrupted: no diagnosis to print; fewer --batches take less time");
  const Restored restored = restore_model({.checkpoint = options.checkpoint,
                                           .device = options.device,
                                           .open_data = true,
                                           .data = options.data,
                                           .weights = Weights::Raw});
  if (options.copies) return show_copies(options, restored);
  const Diagnosis diagnosis = diagnose(*restored.trainer, draw(restored, options.batches));
  if (options.json)
    fmt::print("{}\n", to_json(options, restored, diagnosis).dump(2));
  else
    print(restored, diagnosis, options.batches);
  return 0;
}

} // namespace

void add_diagnose(CLI::App& parent, int& exit_code) {
  CLI::App* command = parent.add_subcommand(
      "diagnose", "gradients, spread and states of the parts of a checkpoint's model");
  auto options = std::make_shared<DiagnoseOptions>();
  add_checkpoint(*command, options->checkpoint);
  add_other_data(*command, options->data);
  command
      ->add_option("--batches", options->batches, "training batches, spread evenly over the split")
      ->capture_default_str()
      ->check(whole_number(1, 10'000));
  add_device(*command, options->device);
  command->add_flag("--copies",
                    options->copies,
                    "instead: what one training step copies, by caller, types and shape");
  command->add_flag("--json", options->json, "print JSON");
  command->footer("examples\n  assay diagnose runs/rwmba --batches 8\n"
                  "  assay diagnose runs/rwmba --copies");
  command->callback([options, &exit_code] { exit_code = diagnose_checkpoint(*options); });
}

} // namespace assay::worker
