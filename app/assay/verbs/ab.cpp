// `assay ab`: one comparison, measured without a matrix file. It writes the matrix into the
// results directory and hands over to `assay run`.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>

#include "app/assay/hand_over.h"
#include "app/assay/matrix_options.h"
#include "app/assay/programs.h"
#include "app/assay/verbs.h"
#include "app/assay/verbs/gpu_check.h"
#include "app/assay/verbs/matrix_draft.h"
#include "app/value_checks.h"
#include "core/file_kind.h"
#include "core/files/atomic_file.h"
#include "core/files/shell_text.h"
#include "core/ledger/directory_lock.h"
#include "core/ledger/ledger.h"
#include "core/ledger/ledger_schema.h"
#include "core/ledger/plan_difference.h"
#include "core/result.h"
#include "core/text.h"
#include "experiments/engine/earlier_results.h"
#include "experiments/evidence/owed/continuation.h"
#include "experiments/evidence/owed/redo.h"
#include "experiments/plan/matrix/matrix.h"
#include "experiments/plan/plan.h"

namespace assay::cli {

namespace {

struct AbOptions {
  MatrixDraft draft;
  std::string levels, out;
  HandOver run;
};

constexpr const char* kDataOption = "--data";

// Nobody has seen the file yet: messages name the option that made a line, or the argument.
std::string name_line(const std::string& line, const MatrixDraft& draft) {
  const std::string key = line.substr(0, line.find(" = "));
  if (key == "set" && !draft.settings.empty())
    return draft.settings.size() == 1 ? "--set " + printable(draft.settings.front()) : "--set";
  if ((key == "levels" || key == "reference") && !draft.levels.empty()) return "--levels";
  const std::set<std::string> options{"data", "preset", "device", "launches"};
  return options.contains(key) ? "--" + key : printable(draft.optimization);
}

// A plan that would be refused leaves no directory behind.
Plan check_plan(const std::string& text, const std::string& file, const MatrixDraft& draft) {
  const auto name = [&, lines = CLI::detail::split(text, '\n')](std::size_t line) {
    return name_line(lines[std::clamp<std::size_t>(line, 1, lines.size()) - 1], draft);
  };
  return value_or_throw(make_plan(MatrixText{text, file, {}, name}, plan_options()));
}

// The matrix that the options make. Its mistakes keep the data from being planned with, so these
// are looked at here.
std::string checked_text(const MatrixDraft& draft) {
  Result<std::string> text = matrix_text(draft);
  if (text) return *std::move(text);
  const std::string wrong = wrong_data(draft.data, {kDataOption});
  bad_input("{}{}{}", text.error().message, wrong.empty() ? "" : "\n", wrong);
}

// Whether a file, edited or not, measures what `plan` does: comments may have been added.
bool makes_plan(const std::string& text, const std::string& file, const Plan& plan) {
  const Result<Matrix> matrix = parse_matrix(text, file);
  if (!matrix) return false;
  const Result<Plan> made = make_plan(*matrix, plan_options());
  return made && made->ledger.spec.hash == plan.ledger.spec.hash;
}

// Keys that the command names.
std::set<std::string> asked_keys(const MatrixDraft& draft) {
  std::set<std::string> keys{"preset", "device", "data", "launches", "expect"};
  for (const std::string& setting : draft.settings)
    keys.insert(setting.substr(0, setting.find('=')));
  return keys;
}

// Nothing is written into a directory whose results this comparison would not continue.
void check_results(const std::string& directory, const Plan& plan, const MatrixDraft& draft) {
  refuse_directory(directory, plan);
  if (!std::filesystem::exists(std::filesystem::path(directory) / ledger_schema::kFileName)) return;
  const LedgerData there = value_or_throw(read_ledger(directory));
  if (there.spec.hash != plan.ledger.spec.hash) {
    const std::string difference =
        plan_difference(there.spec.plan_json, plan.ledger.spec.plan_json, 3, asked_keys(draft));
    bad_input("{}: contains another comparison ('{}', {}): {}; name another results directory with "
              "--out",
              directory,
              printable(there.spec.name),
              there.spec.hash,
              difference.empty() ? "its matrix or claims differ" : difference);
  }
  if (const std::string why = why_not_continued(there.spec); !why.empty())
    bad_input("{}: its results cannot be continued: {}; name another results directory with --out",
              directory,
              why);
}

// Another matrix stays where it was measured, and so does one that a person has edited; the draft
// of a call that failed gives way. One that makes the same plan is used as it is.
void write_matrix(const std::filesystem::path& directory,
                  const std::string& file,
                  const std::string& text,
                  const Plan& plan) {
  if (const std::string why = why_no_plain_file(file); !why.empty())
    bad_input("{}: {}; name another results directory with --out", file, why);
  std::ifstream old(file, std::ios::binary);
  const std::string before{std::istreambuf_iterator<char>(old), {}};
  if (old && (before == text || makes_plan(before, file, plan))) return;
  const bool measured = std::filesystem::exists(directory / ledger_schema::kFileName);
  if (old && (measured || !is_unedited_draft(before)))
    bad_input("{}: contains another comparison; name another results directory with --out{}",
              file,
              measured ? ""
                       : fmt::format(", or measure that one: assay run {} --out {}",
                                     shell_word(file),
                                     shell_word(directory.string())));
  write_file_atomically(file, text);
}

void ab(const AbOptions& options) {
  const std::string out =
      plain_path(options.out.empty() ? "results/" + comparison_name(options.draft) : options.out);
  const std::string file = (std::filesystem::path(out) / kKeptMatrix).string();
  const std::string text = checked_text(options.draft);
  const Plan plan = check_plan(text, file, options.draft);
  check_results(out, plan, options.draft);
  require_gpu(plan, {.directory = out});
  make_directory(out);
  write_matrix(out, file, text, plan);
  const std::vector<std::string> arguments = options.run.arguments(file, out);
  if (!options.run.quiet)
    fmt::print(stderr, "matrix: {}\nassay {}\n", printable(file), printable(shell_line(arguments)));
  exec_program(program_path("assay"), arguments);
}

} // namespace

void add_ab(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "ab", "compare the levels of one optimization, or values of a training key");
  auto options = std::make_shared<AbOptions>();
  command
      ->add_option("optimization",
                   options->draft.optimization,
                   "a name of `assay list`, or KEY=BASELINE,CANDIDATE: precision=fp32,bf16")
      ->required();
  command
      ->add_option(kDataOption, options->draft.data, "directory of text files, text file or JSONL")
      ->check(utf8_path())
      ->required();
  command->add_option("--levels",
                      options->levels,
                      "BASELINE,CANDIDATE, or one candidate against the reference; `assay list` "
                      "has their names (default: all)");
  one_of(command->add_option("--expect",
                             options->draft.expect,
                             "class of the change between values of a key (default: objective)"),
         {"statistical", "objective"});
  command->add_option("--preset", options->draft.preset, "model shape (default: tiny)");
  one_of(command->add_option("--device",
                             options->draft.device,
                             "where it runs (default: cpu, or cuda for what needs a GPU)"),
         {"cpu", "cuda"});
  command
      ->add_option(
          "--launches",
          options->draft.launches,
          fmt::format("processes; FASTER and SLOWER need {0} (default: {0}). `auto`: {0} to "
                      "{1}, as the results ask for",
                      kFullLaunches,
                      kUsualMostLaunches))
      ->check(launch_count())
      ->type_name("N|auto");
  command->add_option("--set", options->draft.settings, "another training key: seq_len=256");
  command->add_option("--out", options->out, "results directory (default: results/OPTIMIZATION)")
      ->type_name("DIR");
  options->run.add_to(*command);
  command->callback([options] {
    if (!options->levels.empty()) options->draft.levels = CLI::detail::split(options->levels, ',');
    ab(*options);
  });
}

} // namespace assay::cli
