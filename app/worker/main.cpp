// assay-worker: the embedded trainer in a process of its own. `assay` starts it; nobody needs to
// call it by hand.
#include <fmt/format.h>

#include <cstdio>
#include <new>
#include <string>

#include "app/command_line/assignments.h"
#include "app/command_line/complete.h"
#include "app/command_line/help.h"
#include "app/command_line/parse.h"
#include "app/command_line/program.h"
#include "app/worker/launch/identity.h"
#include "app/worker/launch/out_of_memory.h"
#include "app/worker/ranks/rank_launcher.h"
#include "app/worker/worker.h"
#include "core/result.h"
#include "model/config/key_choices.h"
#include "model/config/train_config.h"

namespace {

int run(int argc, char** argv) {
  using namespace assay;
  // People type `assay train`; only the options of this program itself are asked of it by name.
  const bool itself = argc < 2 || argv[1][0] == '-';
  CLI::App app("Assay's embedded trainer", itself ? "assay-worker" : "assay");
  use_plain_help(app);
  app.set_version_flag(
      "-V,--version", program_version("assay-worker", ASSAY_VERSION), "print version and build");
  app.require_subcommand(1);
  int exit_code = 0;
  app.add_subcommand("engine", "serve `assay run`")->group("")->callback([&] {
    exit_code = worker::serve_engine();
  });
  app.add_subcommand("rank", "one of the other ranks of a launch")->group("")->callback([&] {
    exit_code = worker::serve_rank();
  });
  app.add_subcommand("follow", "start a rank for every launch that needs it")
      ->group("")
      ->callback([&] { exit_code = worker::follow(); });
  app.add_subcommand("host-ranks", "the store of all launches under torchrun or srun")
      ->group("")
      ->callback([&] { exit_code = worker::host_ranks(); });
  app.add_subcommand("identity", "print this build and its GPU as JSON")->group("")->callback([] {
    fmt::print("{}\n", worker::to_json(worker::identity()).dump());
  });
  worker::add_train(app, exit_code);
  worker::add_evaluate(app, exit_code);
  worker::add_generate(app, exit_code);
  worker::add_tokenizer(app, exit_code);
  worker::add_diagnose(app, exit_code);
  worker::add_needle(app, exit_code);
  worker::add_answer(app, exit_code);
  const auto values = [](const std::string& name, const std::vector<std::string>& words) {
    return name == "KEY=VALUE" ? assignments(config_keys(), key_choices, "", words.back())
                               : std::vector<std::string>();
  };
  if (answer_assay(app, argc, argv, values)) return kOk;
  return parse_command_line(app, argc, argv) ? exit_code : kOk;
}

constexpr const char* kSmaller = "lower batch_rows or seq_len, or take a smaller preset";

int run_in_memory(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::bad_alloc&) {
    assay::bad_input("out of memory; {}", kSmaller);
  } catch (const c10::Error& error) {
    const std::string text = assay::worker::out_of_memory_text(error);
    if (text.empty()) throw;
    assay::bad_input("out of memory: {}; {}", text, kSmaller);
  }
}

} // namespace

int main(int argc, char** argv) {
  return assay::run_program([&] { return run_in_memory(argc, argv); });
}
