// The worker's commands. `engine` is spoken to by `assay run`; the others are what `assay train …`
// starts.
#pragma once

#include <CLI/CLI.hpp>

namespace assay::worker {

// Answers engine requests on stdin with events on file descriptor 3 until "finish" or the engine is
// gone.
int serve_engine();
// One of the other ranks of a launch (app/worker/ranks/rank_launcher.h): answers rank 0's requests.
int serve_rank();

// Each adds its options to `parent`; the callback throws Failure, or leaves its exit code in
// `exit_code`.
void add_train(CLI::App& parent, int& exit_code);
void add_evaluate(CLI::App& parent, int& exit_code);
void add_generate(CLI::App& parent, int& exit_code);
void add_tokenizer(CLI::App& parent, int& exit_code);
void add_diagnose(CLI::App& parent, int& exit_code);
void add_needle(CLI::App& parent, int& exit_code);
void add_answer(CLI::App& parent, int& exit_code);

} // namespace assay::worker
