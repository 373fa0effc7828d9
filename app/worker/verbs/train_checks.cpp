#include "app/worker/verbs/train_checks.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "core/files/json_difference.h"
#include "core/files/output_target.h"
#include "core/files/shell_text.h"
#include "core/result.h"
#include "model/config/family_config.h"
#include "profilers/monitor/train_rows.h"

namespace assay::worker {

namespace {

namespace fs = std::filesystem;

constexpr const char* kDefaultOut = "runs/train";

// Keys that the tensors of a checkpoint follow.
std::vector<std::string> tensor_keys(const TrainConfig& trained) {
  std::vector<std::string> keys{"family", "preset", "pattern", "conv_kernel", "optimizer"};
  const auto add = [&](const std::vector<ShapeKey>& rows) {
    for (const ShapeKey& key : rows)
      if (key.in_tensors) keys.emplace_back(key.name);
  };
  add(common_shape_keys());
  add(family_of(trained).keys);
  return keys;
}

// What an earlier training left in a directory: "train.csv, checkpoint-500.json", or "".
std::string earlier_training(const fs::path& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name == kTrainLogName || (name.starts_with("checkpoint-") && name.ends_with(".json")))
      names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  if (names.size() > 3) names = {names[0], names[1], fmt::format("{} more", names.size() - 2)};
  return fmt::format("{}", fmt::join(names, ", "));
}

// Checkpoints have zero-padded steps in their names, so that text order is step order.
std::string later_checkpoint(const fs::path& checkpoint) {
  std::string latest = checkpoint.filename().string();
  std::error_code error;
  for (fs::directory_iterator it(checkpoint.parent_path(), error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.starts_with("checkpoint-") && name.ends_with(".json")) latest = std::max(latest, name);
  }
  return latest == checkpoint.filename() ? "" : latest;
}

// Of a checkpoint, which may be named by its directory.
fs::path directory_of(const std::string& checkpoint) {
  std::error_code error;
  if (fs::is_directory(checkpoint, error)) return checkpoint;
  const fs::path parent = fs::path(checkpoint).parent_path();
  return parent.empty() ? "." : parent;
}

} // namespace

void refuse_other_shape(const TrainConfig& given,
                        const TrainConfig& trained,
                        const std::string& at) {
  const nlohmann::json now = to_json(given), then = to_json(trained);
  for (const std::string& key : tensor_keys(trained))
    if (now.at(key) != then.at(key))
      bad_input("{} = {}: the model of checkpoint {} has {}; leave {} out, or train a new one "
                "without --resume",
                key,
                now.at(key).dump(),
                at,
                then.at(key).dump(),
                key);
}

std::string output_directory(const std::string& named, const std::string& resume) {
  if (!named.empty()) return named;
  return resume.empty() ? kDefaultOut : directory_of(resume).string();
}

void refuse_other_training(const std::string& out, const std::string& resume) {
  refuse_standard_output(out);
  std::error_code error;
  if (fs::exists(out, error) && !fs::is_directory(out, error))
    bad_input("{}: not a directory; choose another --out", out);
  const fs::path source = directory_of(resume);
  if (!resume.empty() && fs::equivalent(source, out, error)) {
    const std::string later = fs::is_directory(resume, error)
                                  ? ""
                                  : later_checkpoint(source / fs::path(resume).filename());
    if (!later.empty())
      bad_input(
          "{} contains {}, which a training from {} would not lead to: name another directory "
          "with --out, or continue the newest checkpoint with --resume {}",
          out,
          later,
          resume,
          shell_word(out));
    return;
  }
  if (const std::string found = earlier_training(out); !found.empty())
    bad_input("{} contains an earlier training ({}): {}choose another --out",
              out,
              found,
              found.starts_with("checkpoint-")
                  ? fmt::format("continue it by --resume {}, or ", shell_word(out))
                  : "it has no checkpoint to go on from; remove it, or ");
}

std::string changed_keys(const TrainConfig& given, const TrainConfig& trained) {
  static const std::set<std::string> elsewhere{"data", // has its own fingerprint
                                               "device",
                                               "threads",
                                               "tokenizer_threads",
                                               "prefetch_batches",
                                               "steps", // named with the rates that it changes
                                               "eval_interval",
                                               "eval_batches"};
  const nlohmann::json now = to_json(given), then = to_json(trained);
  std::vector<std::string> changed;
  for (const std::string& key : differing_keys(now, then))
    if (!elsewhere.contains(key))
      changed.push_back(
          fmt::format("{} = {} (was {})", key, now.at(key).dump(), then.at(key).dump()));
  return fmt::format("{}", fmt::join(changed, ", "));
}

} // namespace assay::worker
