// assay: plans, runs and judges experiments. Loads no LibTorch and answers --version in
// milliseconds; everything that trains runs in assay-worker processes.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "app/assay/verbs.h"
#include "core/result.h"
#include "core/text.h"

namespace {

// Before CLI11 sees it, which takes the next word that is a verb for the verb.
void check_verb(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return;
  std::vector<std::string> verbs;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
    verbs.push_back(verb->get_name());
  if (std::find(verbs.begin(), verbs.end(), argv[1]) != verbs.end()) return;
  assay::bad_input("unknown verb '{}'{}; `assay --help` lists them",
                   assay::printable(argv[1]),
                   assay::did_you_mean(argv[1], verbs));
}

// Nobody is told that a reader who closed the pipe did so.
int refuse_output(int error, int exit_code) {
  if (error == EPIPE) return exit_code;
  fmt::print(stderr,
             "error: cannot write the output: {}{}\n",
             std::strerror(error),
             error == ENOSPC ? "; free some space, or send it elsewhere" : "");
  return assay::cli::kBadInput;
}

int run(int argc, char** argv, int& output_error) {
  using namespace assay;
  // Workers inherit it. OpenMP threads that spin long at a barrier while another process holds
  // their core make a step many times slower (docs/decisions.md). A value that the user set stays.
  if (std::getenv("OMP_WAIT_POLICY") == nullptr) ::setenv("GOMP_SPINCOUNT", "1000", 0);
  CLI::App app("Assay: is this training optimization real, on this machine, for this model?",
               "assay");
  app.set_version_flag("--version", "assay " ASSAY_VERSION);
  app.require_subcommand(1);
  int exit_code = cli::kOk;
  cli::add_list(app);
  cli::add_plan(app, exit_code);
  cli::add_run(app, exit_code);
  cli::add_status(app, exit_code);
  cli::add_report(app, exit_code);
  cli::add_explain(app, exit_code);
  cli::add_sql(app, exit_code);
  cli::add_export(app, exit_code);
  cli::add_demo(app, exit_code);
  cli::add_merge(app, exit_code);
  cli::add_claims(app, exit_code);
  cli::add_programs(app);
  cli::add_doctor(app, exit_code);
  cli::add_completion(app);
  try {
    check_verb(app, argc, argv);
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? cli::kOk : cli::kBadInput;
  } catch (const Failure& failure) {
    fmt::print(stderr, "error: {}\n", failure.what());
    return failure.kind() == Failure::Kind::BadInput ? cli::kBadInput : cli::kInternal;
  } catch (const std::system_error& error) {
    if (std::ferror(stdout) != 0) {
      output_error = error.code().value();
      return exit_code;
    }
    fmt::print(stderr, "internal error: {}\n", error.what());
    return cli::kInternal;
  } catch (const std::exception& error) {
    fmt::print(stderr, "internal error: {}\n", error.what());
    return cli::kInternal;
  }
  return exit_code;
}

} // namespace

int main(int argc, char** argv) {
  int output_error = 0;
  const int exit_code = run(argc, argv, output_error);
  // What is still buffered would be lost without a word at exit.
  errno = 0;
  if (std::fflush(stdout) != 0 && output_error == 0) output_error = errno;
  if (std::ferror(stdout) != 0 && output_error == 0) output_error = EIO; // the cause is forgotten
  return output_error == 0 ? exit_code : refuse_output(output_error, exit_code);
}
