// The verbs of `assay`, one file each. A verb adds its options to the parser; its callback throws
// Failure or leaves the exit code (docs/cli.md) in `exit_code`.
#pragma once

#include <CLI/CLI.hpp>

namespace assay::cli {

// Exit codes shared by the verbs.
inline constexpr int kOk = 0, kInternal = 1, kBadInput = 2, kIncomplete = 6;

void add_list(CLI::App& app);
void add_plan(CLI::App& app, int& exit_code);
void add_run(CLI::App& app, int& exit_code);
void add_status(CLI::App& app, int& exit_code);
void add_report(CLI::App& app, int& exit_code);
void add_explain(CLI::App& app, int& exit_code);
void add_sql(CLI::App& app, int& exit_code);
void add_export(CLI::App& app, int& exit_code);
void add_demo(CLI::App& app, int& exit_code);
void add_merge(CLI::App& app, int& exit_code);
void add_claims(CLI::App& app, int& exit_code);
void add_doctor(CLI::App& app, int& exit_code);
void add_completion(CLI::App& app);
// train, evaluate, generate, tokenizer and view: started as assay-worker or assay-view with the
// same arguments.
void add_programs(CLI::App& app);

} // namespace assay::cli
