// `assay demo`: a synthetic results directory that shows everything, and the commands to look at
// it.
#include "experiments/demo/demo.h"

#include <cstdio>
#include <memory>

#include "app/assay/output/json_output.h"
#include "app/assay/verbs.h"
#include "core/files/output_target.h"
#include "core/files/shell_text.h"
#include "core/result.h"
#include "core/text.h"

namespace assay::cli {

namespace {

void demo(const std::string& directory, bool as_json) {
  refuse_standard_output(directory);
  const Demo made = write_demo(directory);
  if (as_json) {
    print_json({{"directory", directory},
                {"launches", made.launches},
                {"visits", made.visits},
                {"cells", made.cells},
                {"traces", made.traces}});
    return;
  }
  fmt::print(
      "{}: synthetic results, {} launches, {} visits, {} traces; nothing in it was measured\n",
      printable(directory),
      made.launches,
      made.visits,
      made.traces.size());
  for (const std::string& cell : made.cells) fmt::print("  {}\n", cell);
  fmt::print(
      "\nlook at it:\n"
      "  assay report {0}\n"
      "  assay explain {0} --cell varlen --candidate varlen\n"
      "  assay sql {1} --name cuda_gpu_kern_sum\n"
      "  assay export {0} --cell varlen --variant mask_dense,varlen --steps 5-7 -o demo.json.gz\n"
      "  assay view {0}\n",
      printable(shell_path(directory)),
      printable(shell_path(made.traces.front())));
}

} // namespace

void add_demo(CLI::App& app, int&) {
  CLI::App* command =
      app.add_subcommand("demo", "write made-up results with most verdicts, and their traces");
  struct Options {
    std::string directory;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  command->add_option("directory", options->directory, "an empty or new directory")->required();
  command->add_flag("--json", options->json, "print JSON");
  command->callback([options] { demo(options->directory, options->json); });
}

} // namespace assay::cli
