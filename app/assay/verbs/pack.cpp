// `assay pack`: a results directory as one file for somebody else.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>

#include "app/assay/output/json_output.h"
#include "app/assay/programs.h"
#include "app/assay/verbs.h"
#include "app/assay/version.h"
#include "app/command_line/program.h"
#include "core/files/output_target.h"
#include "core/files/shell_text.h"
#include "core/files/tar_archive.h"
#include "core/ledger/directory_lock.h"
#include "core/ledger/ledger.h"
#include "core/ledger/ledger_schema.h"
#include "core/ledger/stored_config.h"
#include "core/result.h"
#include "core/text.h"
#include "core/trace/trace_file.h"
#include "experiments/analysis/calibration.h"
#include "experiments/analysis/explanations.h"
#include "experiments/analysis/report.h"
#include "experiments/analysis/winner.h"
#include "experiments/analysis/wording.h"
#include "experiments/report/render.h"

namespace assay::cli {

namespace {

namespace fs = std::filesystem;

struct PackOptions {
  std::string directory, out;
  bool no_traces = false, json = false;
};

void refuse_unfinished(const fs::path& directory) {
  if (const std::string holder = lock_holder(directory.string()); !holder.empty())
    bad_input("{}: {} is writing it; pack it when that has ended", directory.string(), holder);
  std::error_code none;
  const fs::path log = directory / (std::string(ledger_schema::kFileName) + "-wal");
  if (fs::file_size(log, none) > 0 && !none)
    bad_input("{}: its run was killed, and part of the ledger is still in {}; continue the run "
              "with the command that `assay status {}` names, then pack",
              directory.string(),
              log.filename().string(),
              shell_path(directory.string()));
}

std::int64_t modified(const fs::path& path) {
  const auto time = std::chrono::file_clock::to_sys(fs::last_write_time(path));
  return std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
}

// The pages that a reader opens: made again when rows came after them, in memory alone where the
// directory cannot be written. Returns their number.
int add_pages(TarArchive& archive,
              const std::string& root,
              const fs::path& directory,
              const LedgerData& data) {
  std::error_code error;
  const fs::path page = directory / "report.html", ledger = directory / ledger_schema::kFileName;
  const bool current = fs::exists(page, error) &&
                       fs::last_write_time(page, error) >= fs::last_write_time(ledger, error);
  const bool writable = ::access(directory.c_str(), W_OK) == 0;
  if (!current && writable)
    capture(program_path("assay"), {"report", path_argument(directory.string())});
  int files = 0;
  const Report report =
      current || writable ? Report{} : judge_results(data, {.traces = directory.string()});
  for (const ReportFile& file : kReportFiles) {
    const fs::path path = directory / file.name;
    if (!current && !writable)
      archive.add(root + file.name, file.render(report, data), modified(ledger));
    else if (fs::exists(path, error))
      archive.add_file(root + file.name, path.string());
    else
      continue;
    ++files;
  }
  return files;
}

// Ledgers of `assay confirm` and `assay calibrate`, which reports of the directory read or cite.
// Returns their number.
int add_ledgers_below(TarArchive& archive, const std::string& root, const std::string& directory) {
  int files = 0;
  for (const fs::path below :
       {confirmation_directory(directory), calibration_directory(directory)}) {
    const fs::path ledger = below / ledger_schema::kFileName;
    if (std::error_code none; !fs::is_regular_file(ledger, none)) continue;
    refuse_unfinished(below);
    archive.add_file(root + (below.filename() / ledger.filename()).string(), ledger.string());
    ++files;
  }
  return files;
}

// "measured by, with": one paragraph for each machine and build.
std::string about(const LedgerData& data) {
  std::string text = fmt::format("{} (spec {})\nplanned {} with: {}\n\n",
                                 printable(data.spec.name),
                                 data.spec.hash,
                                 data.spec.created_utc,
                                 printable(data.spec.command));
  std::set<std::string> machines;
  for (const LaunchRow& launch : data.launches) {
    const Identity& id = launch.identity;
    if (id.build.empty() || launch.state == LaunchState::Failed) continue;
    machines.insert(
        fmt::format("measured on {}: {}{}, kernel {}, {}\n"
                    "with LibTorch {}{}, worker build {}\n",
                    printable(id.host),
                    printable(id.cpu),
                    id.gpu.empty() ? "" : ", " + printable(id.gpu) + ", driver " + id.driver,
                    printable(id.kernel),
                    cores_text(id, threads_vary(data)),
                    id.libtorch,
                    id.cuda.empty() ? "" : ", CUDA " + id.cuda,
                    id.build));
  }
  for (const std::string& machine : machines) text += machine + "\n";
  if (!data.launches.empty())
    text += fmt::format("first launch {}, last launch {}\n",
                        data.launches.front().started_utc,
                        data.launches.back().started_utc);
  return text +
         fmt::format("\npacked with {}\n"
                     "open report.html, or: assay report DIR, assay explain DIR, assay view DIR\n",
                     version_line());
}

// Named by nobody, so it replaces nothing.
std::string default_archive(const fs::path& directory) {
  std::string name = fs::weakly_canonical(directory).filename().string() + ".tar.gz";
  std::error_code none;
  if (fs::exists(name, none)) bad_input("{} is there already; name the file with --out", name);
  return name;
}

void pack(PackOptions options) {
  const fs::path directory = fs::path(plain_path(options.directory));
  const LedgerData data = value_or_throw(read_ledger(directory.string()));
  if (options.out.empty()) options.out = default_archive(directory);
  if (options.json && is_standard_output(options.out))
    bad_input("--json prints on standard output, and so does --out {}; name a file", options.out);
  if (!is_standard_output(options.out) && !options.out.ends_with(".tar.gz") &&
      !options.out.ends_with(".tgz") && !options.out.ends_with(".tar"))
    bad_input("--out {}: give a name that ends in .tar.gz, .tgz or .tar", options.out);
  if (is_standard_output(options.out) && ::isatty(STDOUT_FILENO) != 0)
    bad_input(
        "--out {} would print an archive on the terminal; name a file, or send it on: … | ssh "
        "HOST 'cat > mine.tar.gz'",
        options.out);
  refuse_unfinished(directory);
  const std::string root = fs::weakly_canonical(directory).filename().string() + "/";
  const fs::path ledger = directory / ledger_schema::kFileName;
  TarArchive archive(options.out);
  archive.add(root + "about.txt", about(data), modified(ledger));
  archive.add(root + "matrix.toml", data.spec.matrix_toml, modified(ledger));
  archive.add_file(root + ledger_schema::kFileName, ledger.string());
  std::int64_t files = 3;
  files += add_ledgers_below(archive, root, directory.string());
  files += add_pages(archive, root, directory, data);
  if (!options.no_traces)
    for (const std::string& trace : list_traces(directory.string())) {
      archive.add_file(root + "traces/" + fs::path(trace).filename().string(), trace);
      ++files;
    }
  archive.finish();
  const std::vector<std::string> damaged =
      options.no_traces ? std::vector<std::string>() : damaged_traces(directory.string());
  if (!damaged.empty())
    fmt::print(stderr,
               "warning: damaged traces, packed as they are: {}; `assay report {}` says what is "
               "wrong\n",
               printable(fmt::format("{}", fmt::join(damaged, ", "))),
               shell_path(directory.string()));
  const std::vector<std::string> missing =
      options.no_traces ? std::vector<std::string>() : missing_traces(directory.string(), data);
  if (!missing.empty())
    print_error(fmt::format("{} of the traces that the ledger names {} not in {}/traces, and so "
                            "not in the archive",
                            missing.size(),
                            missing.size() == 1 ? "is" : "are",
                            shell_path(directory.string())),
                "note");
  if (options.json) {
    print_json({{"out", options.out},
                {"files", files},
                {"bytes", archive.bytes()},
                {"damaged_traces", damaged},
                {"missing_traces", missing}});
    return;
  }
  fmt::print(is_standard_output(options.out) ? stderr : stdout,
             "{}: {} files, {}{}\n",
             is_standard_output(options.out) ? "standard output" : printable(options.out),
             files,
             human_bytes(static_cast<double>(archive.bytes())),
             options.out.ends_with(".tar") ? "" : " before compression");
}

} // namespace

void add_pack(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "pack", "one file for somebody else: ledger, report, traces, and what measured them");
  auto options = std::make_shared<PackOptions>();
  command->add_option("directory", options->directory, "results directory")->required();
  command
      ->add_option("-o,--out",
                   options->out,
                   "file ending in .tar.gz, .tgz or .tar, or - for a .tar.gz on standard output "
                   "(default: the directory's name with .tar.gz, here)")
      ->type_name("FILE");
  command->add_flag("--no-traces", options->no_traces, "leave out the traces, which are large");
  command->add_flag("--json", options->json, "print JSON");
  command->callback([options] { pack(*options); });
}

} // namespace assay::cli
