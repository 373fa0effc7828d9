// assay: plans, runs and judges experiments. Loads no LibTorch and answers --version in
// milliseconds; everything that trains runs in assay-worker processes.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "app/assay/command_table.h"
#include "app/assay/programs.h"
#include "app/assay/verbs.h"
#include "app/assay/version.h"
#include "app/command_line/help.h"
#include "app/command_line/parse.h"

namespace {

// Beside the flag the parser reads no other.
bool asks_for_version_json(const std::vector<std::string>& words) {
  return words.size() == 2 && std::ranges::count(words, "--json") == 1 &&
         std::ranges::count(words, "--version") + std::ranges::count(words, "-V") == 1;
}

int run(int argc, char** argv) {
  using namespace assay;
  // Workers inherit it. OpenMP threads that spin long at a barrier while another process uses
  // their core make a step many times slower (docs/decisions.md). A value that the user set stays.
  if (std::getenv("OMP_WAIT_POLICY") == nullptr) ::setenv("GOMP_SPINCOUNT", "1000", 0);
  cli::forward_to_program({argv + 1, argv + argc});
  CLI::App app(
      "Assay: is this training optimization real, on this machine, in Assay's own trainer?",
      "assay");
  use_plain_help(app);
  app.set_version_flag(
      "-V,--version", cli::version_line(), "print version, commit and build; as JSON with --json");
  app.require_subcommand(1);
  int exit_code = kOk;
  cli::add_ab(app); // in the order of `assay --help`
  cli::add_init(app);
  cli::add_plan(app, exit_code);
  cli::add_run(app, exit_code);
  cli::add_confirm(app, exit_code);
  cli::add_calibrate(app, exit_code);
  cli::add_status(app, exit_code);
  cli::add_merge(app, exit_code);
  cli::add_clean(app);
  cli::add_report(app, exit_code);
  cli::add_explain(app, exit_code);
  cli::add_log(app, exit_code);
  cli::add_compare(app);
  cli::add_claims(app, exit_code);
  cli::add_sql(app, exit_code);
  cli::add_export(app, exit_code);
  cli::add_import(app);
  cli::add_pack(app);
  cli::add_demo(app, exit_code);
  cli::add_programs(app);
  cli::add_doctor(app, exit_code);
  cli::add_top(app);
  cli::add_list(app);
  cli::add_completion(app, {argv + 1, argv + argc});
  cli::add_help(app);
  cli::add_version(app);
  cli::describe_commands(app);
  if (asks_for_version_json({argv + 1, argv + argc})) {
    cli::print_version_json();
    return kOk;
  }
  return parse_command_line(app, argc, argv) ? exit_code : kOk;
}

} // namespace

int main(int argc, char** argv) {
  return assay::run_program([&] { return run(argc, argv); });
}
