#include "app/assay/command_table.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "app/assay/output/terminal.h"
#include "core/result.h"

namespace assay::cli {

namespace {

struct CommandRow {
  const char* name;
  const char* group;
  const char* examples; // "": none
};

constexpr const char* kCompare = "compare";
constexpr const char* kLook = "look at results";
constexpr const char* kShare = "share";
constexpr const char* kTrainer = "trainer";
constexpr const char* kMachine = "machine and program";

constexpr std::array kCommands{
    CommandRow{"ab",
               kCompare,
               "  assay ab varlen --data corpus\n"
               "  assay ab bf16_guard --data corpus --preset small --device cuda --launches 8\n"
               "  assay run results/varlen/matrix.toml --out results/varlen --redo disturbed   "
               "measure disturbed launches again"},
    CommandRow{"init",
               kCompare,
               "  assay init my.toml --data corpus\n"
               "  assay init --optimization ema_swap -   print it"},
    CommandRow{"plan",
               kCompare,
               "  assay plan my.toml --data corpus\n"
               "  assay plan my.toml --data corpus --no-probe --set base.seq_len=256"},
    CommandRow{"run",
               kCompare,
               "  assay run my.toml --data corpus --out results/mine\n"
               "  assay run my.toml --data corpus --out results/mine --stop-after 9m\n"
               "  assay run my.toml --data corpus --out results/gpu --device cuda --cell varlen"},
    CommandRow{"confirm", kCompare, "  assay confirm results/mine"},
    CommandRow{"calibrate",
               kCompare,
               "  assay calibrate results/mine\n"
               "  assay calibrate results/mine --cell varlen"},
    CommandRow{"status", kCompare, "  assay status results/mine"},
    CommandRow{"merge", kCompare, "  assay merge results/board0 results/board1 --out results/both"},
    CommandRow{"clean",
               kCompare,
               "  assay clean results/mine --dry-run\n"
               "  assay clean results/mine --traces"},
    CommandRow{"report",
               kLook,
               "  assay report results/mine\n"
               "  assay report results/mine --no-files --json"},
    CommandRow{"explain",
               kLook,
               "  assay explain results/mine\n"
               "  assay explain results/mine --cell varlen --top 20\n"
               "  assay explain before.json.gz after.json.gz   two traces, also of other programs"},
    CommandRow{
        "view", kLook, "  assay view results/mine\n  assay view before.json.gz after.json.gz"},
    CommandRow{"log", kLook, "  assay log results/*\n  assay log results --cell varlen"},
    CommandRow{"compare",
               kLook,
               "  assay compare results/october results/november\n"
               "  assay compare results/board0 results/board1 --cell varlen --json"},
    CommandRow{"claims", kLook, "  assay claims\n  assay claims results/mine"},
    CommandRow{"sql",
               kLook,
               "  assay sql --list\n"
               "  assay sql results/mine \"SELECT name, rounds FROM cell\"\n"
               "  assay sql results/mine - < query.sql\n"
               "  assay sql results/mine/traces/4.0.varlen.sqlite --name cuda_gpu_kern_sum"},
    CommandRow{"demo", kLook, "  assay demo /tmp/demo"},
    CommandRow{"export",
               kShare,
               "  assay export results/mine --cell varlen -o varlen.json.gz\n"
               "  assay export results/mine --cell varlen --steps 3-5 -o - | gzip > steps.json.gz\n"
               "  assay export results/mine --cell varlen --format csv -o tables"},
    CommandRow{"import",
               kShare,
               "  assay import before.json.gz --out before.sqlite\n"
               "  assay import report.sqlite --steps train_step --out report-steps.sqlite"},
    CommandRow{"pack",
               kShare,
               "  assay pack results/mine -o mine.tar.gz\n"
               "  assay pack results/mine --no-traces -o mine.tar.gz"},
    CommandRow{"train", kTrainer, ""},
    CommandRow{"evaluate", kTrainer, ""},
    CommandRow{"generate", kTrainer, ""},
    CommandRow{"tokenizer", kTrainer, ""},
    CommandRow{"diagnose", kTrainer, ""},
    CommandRow{"needle", kTrainer, ""},
    CommandRow{"answer", kTrainer, ""},
    CommandRow{"doctor", kMachine, "  assay doctor"},
    CommandRow{"top",
               kMachine,
               "  assay top\n"
               "  assay top --once --interval 1"},
    CommandRow{"list", kMachine, "  assay list\n  assay list presets\n  assay list keys --json"},
    CommandRow{"completion",
               kMachine,
               "  source <(assay completion)                  bash, this session\n"
               "  assay completion zsh > ~/.zfunc/_assay      zsh, with ~/.zfunc in fpath\n"
               "  assay completion fish | source              fish, this session"},
    CommandRow{"help",
               kMachine,
               "  assay help run\n"
               "  assay help terms\n"
               "  assay help judged interval\n"
               "  assay help terms --json\n"
               "  assay help --man > assay.1"},
    CommandRow{"version", kMachine, "  assay version"}};

// Options of the same name take the same kind of value in every command.
struct ValueRow {
  const char* option;
  const char* value;
};
constexpr std::array kValues{ValueRow{"matrix", "MATRIX"},
                             ValueRow{"directory", "DIR"},
                             ValueRow{"results", "DIR"},
                             ValueRow{"inputs", "DIR"},
                             ValueRow{"first", "FIRST"},
                             ValueRow{"second", "SECOND"},
                             ValueRow{"source", "DIR"},
                             ValueRow{"target", "PATH"},
                             ValueRow{"query", "QUERY"},
                             ValueRow{"optimization", "OPTIMIZATION"},
                             ValueRow{"--optimization", "OPTIMIZATION"},
                             ValueRow{"--out", "DIR"},
                             ValueRow{"--data", "PATH"},
                             ValueRow{"--cell", "CELL"},
                             ValueRow{"--baseline", "LEVEL"},
                             ValueRow{"--candidate", "LEVEL"},
                             ValueRow{"--levels", "LEVEL[,…]"},
                             ValueRow{"--variant", "LEVEL[,…]"},
                             ValueRow{"--preset", "PRESET"},
                             ValueRow{"--name", "NAME"},
                             ValueRow{"--set", "KEY=VALUE"},
                             ValueRow{"--stop-after", "TIME"},
                             ValueRow{"--steps", "STEPS"}};

constexpr const char* kFlow =
    "a first comparison\n"
    "  assay doctor                           what this machine supports\n"
    "  assay ab varlen --data corpus          one optimization, no file needed\n"
    "  assay report results/varlen            verdicts; also report.html\n"
    "  assay explain results/varlen           where in the step the difference is\n"
    "  assay run results/varlen/matrix.toml --out results/varlen --redo disturbed   measure "
    "disturbed launches again\n"
    "\n"
    "a plan of your own\n"
    "  assay init my.toml --data corpus       writes a commented matrix\n"
    "  assay plan my.toml                     time, memory, smallest detectable effect\n"
    "  assay run my.toml --out results/mine   measures; the same command continues\n"
    "\n"
    "to look around without measuring\n"
    "  assay demo /tmp/demo                   made-up results with every feature\n"
    "\n"
    "`assay help COMMAND` shows options and examples, `assay help terms` explains the words.\n"
    "Documents: docs/cli.md, docs/matrix.md, docs/report-schema.md";

void name_values(CLI::App& command) {
  for (const ValueRow& row : kValues) {
    CLI::Option* option = command.get_option_no_throw(row.option);
    if (option != nullptr && option->get_type_name().starts_with("TEXT"))
      option->type_name(row.value);
  }
}

} // namespace

void describe_commands(CLI::App& app) {
  app.footer(kFlow);
  for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_group().empty()) continue;
    const auto* row =
        std::find_if(kCommands.begin(), kCommands.end(), [&](const CommandRow& candidate) {
          return command->get_name() == candidate.name;
        });
    if (row == kCommands.end())
      internal_error("command '{}' has no row in app/assay/command_table.cpp", command->get_name());
    command->group(row->group);
    if (const std::string_view examples = row->examples; !examples.empty())
      command->footer("examples\n" + std::string(examples));
    name_values(*command);
    if (command->get_option_no_throw("--width") != nullptr &&
        command->get_option_no_throw("--color") == nullptr)
      add_color_option(*command);
  }
}

} // namespace assay::cli
