// `assay init`: a commented matrix to begin with.
#include <cstdio>
#include <filesystem>
#include <memory>

#include "app/assay/output/json_output.h"
#include "app/assay/verbs.h"
#include "app/assay/verbs/matrix_draft.h"
#include "app/value_checks.h"
#include "core/file_kind.h"
#include "core/files/output_file.h"
#include "core/files/output_target.h"
#include "core/files/shell_text.h"
#include "core/result.h"
#include "core/text.h"

namespace assay::cli {

namespace {

bool is_missing(const std::string& data) {
  std::error_code ignored;
  return !data.empty() && !std::filesystem::exists(data, ignored);
}

void init(const MatrixDraft& draft, const std::string& path, bool as_json) {
  if (as_json && is_standard_output(path))
    bad_input("--json prints on standard output, and so does {}; name a file", path);
  if (path.empty()) bad_input("the file to write has no name; name one, or - for standard output");
  if (const std::string why = why_unreachable(draft.data); !why.empty())
    bad_input("--data {}: {}", draft.data, why);
  const std::string text = value_or_throw(matrix_text(draft));
  std::error_code ignored;
  if (!is_standard_output(path) && std::filesystem::exists(path, ignored))
    bad_input("{} exists already and is not replaced; name another file", path);
  OutputFile file(path);
  file.write(text);
  file.finish();
  if (as_json) return print_json({{"out", path}, {"optimization", draft.optimization}});
  if (!is_standard_output(path))
    fmt::print("{0}: a matrix for {1}\n{4}next: assay plan {3}{2}\n",
               printable(path),
               draft.optimization,
               draft.data.empty() ? " --data PATH" : "",
               printable(shell_path(path)),
               is_missing(draft.data)
                   ? fmt::format("note: there is no {} here yet\n", printable(draft.data))
                   : "");
}

} // namespace

void add_init(CLI::App& app) {
  CLI::App* command = app.add_subcommand("init", "write a commented matrix file to begin with");
  struct Options {
    MatrixDraft draft;
    std::string path = "matrix.toml";
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  command
      ->add_option(
          "file", options->path, "file to write, or - for standard output (default: matrix.toml)")
      ->type_name("FILE");
  command->add_option("--optimization",
                      options->draft.optimization,
                      "what to compare: a name of `assay list` (default: varlen)");
  command->add_option("--data", options->draft.data, "training data")->check(utf8_path());
  command->add_option("--preset", options->draft.preset, "model shape (default: tiny)");
  one_of(command->add_option("--device",
                             options->draft.device,
                             "where it runs (default: cpu, or cuda for what needs a GPU)"),
         {"cpu", "cuda"});
  command->add_flag("--json", options->json, "print the summary as JSON");
  command->callback([options] { init(options->draft, options->path, options->json); });
}

} // namespace assay::cli
