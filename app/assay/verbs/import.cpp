// `assay import`: a trace of another program as a trace of ours.
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/assay/output/json_output.h"
#include "app/assay/verbs.h"
#include "core/files/shell_text.h"
#include "core/result.h"
#include "core/text.h"
#include "core/trace/trace_file.h"
#include "experiments/import/import_trace.h"

namespace assay::cli {

namespace {

struct ImportCommand {
  std::string path, steps, out;
  bool json = false;
};

void import_file(const ImportCommand& options) {
  if (std::error_code error; std::filesystem::exists(options.out, error))
    bad_input("--out {}: is there already; choose another name", printable(options.out));
  const std::string copy = value_or_throw(import_trace(options.path, {options.steps, options.out}));
  const Trace trace = value_or_throw(read_trace(copy));
  if (options.json) {
    print_json(
        {{"trace", copy},
         {"source", trace.value("source")},
         {"steps", trace.steps.size()},
         {"steps_found_by", trace.value("steps")},
         {"stages_found_by", trace.value("stages")},
         {"device_events", trace.device.size()},
         {"host_events",
          trace.api.size() + trace.syncs.size() + trace.spans.size() + trace.operators.size()},
         {"left_out", trace.value("left_out")}});
    return;
  }
  fmt::print("{}: {}: {} device events, {} CUDA calls, {} operators, {} spans{}\n",
             printable(copy),
             trace.value("source"),
             trace.device.size(),
             trace.api.size(),
             trace.operators.size(),
             trace.spans.size(),
             trace.value("left_out").empty() ? "" : "; left out: " + trace.value("left_out"));
  fmt::print("steps: {}, by {}\nstages: {}\n",
             trace.steps.size(),
             printable(trace.value("steps")),
             printable(trace.value("stages")));
  fmt::print("look at it: assay view {}\n", printable(shell_path(copy)));
}

} // namespace

void add_import(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "import", "turn a trace of torch.profiler, Chrome or Nsight Systems into one of Assay");
  auto options = std::make_shared<ImportCommand>();
  command->add_option("trace", options->path, "JSON (also .gz), or an SQLite export")->required();
  command->add_option("--out,-o", options->out, "the trace to write")
      ->type_name("FILE.sqlite")
      ->required();
  command->add_option("--steps",
                      options->steps,
                      "spans with this name are the steps, also with a number behind it (default: "
                      "what is found; the command says what)");
  command->add_flag("--json", options->json, "print JSON");
  command->callback([options] { import_file(*options); });
}

} // namespace assay::cli
