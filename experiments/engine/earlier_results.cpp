#include "experiments/engine/earlier_results.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/ledger/directory_lock.h"
#include "core/ledger/ledger_schema.h"
#include "core/ledger/stored_config.h"
#include "core/text.h"
#include "core/trace/trace_file.h"
#include "experiments/engine/data_fingerprint.h"
#include "experiments/engine/launch_requests.h"
#include "experiments/evidence/owed/continuation.h"
#include "experiments/evidence/owed/redo.h"

namespace assay {

namespace fs = std::filesystem;

namespace {

// Whether the worker reads, for each cell that has been measured, the data that was read then. A
// memory launch opens the data and builds nothing.
bool same_data(const LedgerData& old, const RunOptions& options, const std::string& log_directory) {
  std::map<std::string, std::string> known = data_fingerprints(old);
  const WorkerProcess::Seconds timeout(options.setup_timeout_seconds);
  for (const CellRow& cell : old.cells) {
    const auto found = known.find(data_name(cell));
    if (found == known.end()) continue;
    const LaunchRequest request = reference_request(old, cell, to_string(LaunchKind::Memory));
    const auto worker = start_worker(
        options, request.variants.front(), (fs::path(log_directory) / "data.log").string());
    WorkerReply reply = worker->ask(hello_request(), "hello", timeout);
    if (reply.kind == WorkerReply::Kind::Answer)
      reply = worker->ask(launch_request(request), "built", timeout);
    if (reply.kind != WorkerReply::Kind::Answer)
      bad_input("cell '{}': {}", cell.name, reply.message);
    if (value_or_throw(parse_built(reply.event)).data != found->second) return false;
    known.erase(found);
  }
  return true;
}

// Whether a file in `directory` is text of the corpus `data`, which leaves out what lies below a
// name that begins with a dot.
bool is_text_of(const fs::path& data, const fs::path& directory) {
  std::error_code error;
  if (!fs::is_directory(data, error)) return false;
  const auto whole = [&](const fs::path& path) {
    return fs::weakly_canonical(fs::absolute(path, error), error);
  };
  const fs::path below = whole(directory).lexically_relative(whole(data));
  return !error && !below.empty() && std::ranges::none_of(below, [](const fs::path& part) {
    return part.native().starts_with('.') && part != ".";
  });
}

void refuse_foreign_files(const std::string& directory) {
  std::error_code error; // no such directory, or one that Ledger::open explains
  if (fs::exists(fs::path(directory) / ledger_schema::kFileName, error)) return;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    const bool ours = name == "logs" || name == kTraceFolder || name.starts_with(kKeptMatrix) ||
                      name.starts_with("ledger.") ||
                      name.starts_with("." + std::string(kKeptMatrix)) || // another `assay ab`
                      name.starts_with("." + std::string(ledger_schema::kFileName)); // of a kill
    if (!ours)
      bad_input("{}: contains '{}' and no results; name a new or empty directory with --out",
                directory,
                printable(name));
  }
}

} // namespace

std::string worker_build(const RunOptions& options, const std::string& log_directory) {
  make_directory(log_directory);
  WorkerReply reply;
  for (int attempt = 0; attempt < kAttempts; ++attempt) { // as for any launch
    WorkerProcess worker(options.worker_path,
                         options.worker_arguments,
                         (fs::path(log_directory) / "hello.log").string());
    reply =
        worker.ask(hello_request(), "hello", WorkerProcess::Seconds(options.setup_timeout_seconds));
    if (reply.kind == WorkerReply::Kind::Answer)
      return value_or_throw(parse_hello(reply.event)).build;
    if (reply.kind != WorkerReply::Kind::Failed) break;
  }
  bad_input("{}: {}", options.worker_path, reply.message);
}

void refuse_directory(const std::string& directory, const Plan& plan) {
  for (const CellRow& cell : plan.ledger.cells) {
    const std::string data = stored_config(cell.config_json).value("data", "");
    if (is_text_of(data, directory))
      bad_input(
          "{}: lies inside the training data, {}, whose text it would become; name a directory "
          "outside them with --out",
          directory,
          data);
  }
  refuse_foreign_files(directory);
}

std::string set_aside(const Plan& plan, const std::string& directory, const RunOptions& options) {
  if (!fs::exists(fs::path(directory) / ledger_schema::kFileName)) return "";
  const int lock = lock_directory(directory);
  const Result<LedgerData> old = read_ledger(directory);
  const std::string logs = (fs::path(directory) / "logs").string();
  bool keep = old && old->spec.hash == plan.ledger.spec.hash;
  if (keep && !measured_build(*old).empty())
    keep = measured_build(*old) == worker_build(options, logs) && same_data(*old, options, logs);
  std::string target;
  if (!keep) {
    std::string stem = directory;
    while (stem.size() > 1 && stem.back() == '/') stem.pop_back();
    for (int i = 1; target.empty() || fs::exists(target); ++i)
      target = fmt::format("{}.{}", stem, i);
    std::error_code error;
    fs::rename(stem, target, error);
    if (error)
      bad_input(
          "--fork: {} cannot be set aside as {}: {}; name it by its path from another directory",
          stem,
          target,
          error.message());
  }
  ::close(lock);
  return target;
}

} // namespace assay
