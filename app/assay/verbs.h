// The commands of `assay`, one file each. A command adds its options to the parser; its callback
// throws Failure or leaves the exit code (docs/cli.md) in `exit_code`.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "app/command_line/program.h" // exit codes

namespace assay {
class TextWriter;
}

namespace assay::cli {

// What `assay list` names: optimizations and configuration keys, one of which may have the other's
// name. print_listed prints what the list says of this name, nothing for another.
std::vector<std::string> listed_names();
void print_listed(const std::string& name, TextWriter& out);
// The same rows as `assay list --json` has, in its lists; an empty object for another name.
nlohmann::json listed_json(const std::string& name);

void print_version_json(); // as `assay version --json`

void add_init(CLI::App& app);
void add_ab(CLI::App& app);
void add_list(CLI::App& app);
void add_plan(CLI::App& app, int& exit_code);
void add_run(CLI::App& app, int& exit_code);
// What `assay` does with these words, of which the first is "run"; in this process, so that signals
// reach it as they do there. Returns the exit code or throws Failure.
int run_matrix(std::vector<std::string> words);
void add_confirm(CLI::App& app, int& exit_code);
void add_calibrate(CLI::App& app, int& exit_code);
void add_status(CLI::App& app, int& exit_code);
void add_report(CLI::App& app, int& exit_code);
void add_explain(CLI::App& app, int& exit_code);
void add_log(CLI::App& app, int& exit_code);
void add_compare(CLI::App& app);
void add_sql(CLI::App& app, int& exit_code);
void add_export(CLI::App& app, int& exit_code);
void add_import(CLI::App& app);
void add_pack(CLI::App& app);
void add_demo(CLI::App& app, int& exit_code);
void add_merge(CLI::App& app, int& exit_code);
void add_clean(CLI::App& app);
void add_claims(CLI::App& app, int& exit_code);
void add_doctor(CLI::App& app, int& exit_code);
void add_top(CLI::App& app);
void add_completion(CLI::App& app, const std::vector<std::string>& command_line);
void add_help(CLI::App& app);
void add_version(CLI::App& app);
// train, evaluate, generate, tokenizer and view: started as assay-worker or assay-view with the
// same arguments.
void add_programs(CLI::App& app);

} // namespace assay::cli
