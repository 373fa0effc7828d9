// `assay merge`: joins ledgers of one spec.
#include "experiments/engine/merge.h"

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/assay/output/json_output.h"
#include "app/assay/results_directories.h"
#include "app/assay/verbs.h"
#include "core/result.h"
#include "core/text.h"
#include "experiments/analysis/wording.h"

namespace assay::cli {

void add_merge(CLI::App& app, int&) {
  CLI::App* command = app.add_subcommand("merge", "combine results of the same plan");
  struct Options {
    std::vector<std::string> inputs;
    std::string out;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  command->add_option("inputs", options->inputs, "results directories")
      ->option_text("DIR...")
      ->required()
      ->expected(1, 1000);
  command->add_option("--out", options->out, "new results directory")->required();
  command->add_flag("--json", options->json, "print JSON");
  command->callback([options] {
    std::vector<std::string> inputs;
    for (const std::string& input : options->inputs)
      if (!add_once(inputs, input))
        bad_input("{} is given twice; name every directory once", input);
    const MergeSummary summary = value_or_throw(merge_ledgers(options->inputs, options->out));
    if (options->json)
      print_json({{"directory", options->out},
                  {"launches", summary.launches},
                  {"duplicates", summary.duplicates}});
    else
      fmt::print("{}: {}, {} duplicate{} left out\n",
                 printable(options->out),
                 launch_count_text(static_cast<std::size_t>(summary.launches)),
                 summary.duplicates,
                 summary.duplicates == 1 ? "" : "s");
  });
}

} // namespace assay::cli
