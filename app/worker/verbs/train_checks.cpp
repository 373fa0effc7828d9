#include "app/worker/verbs/train_checks.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "core/files/json_difference.h"
#include "core/files/shell_text.h"
#include "core/result.h"
#include "model/config/family_config.h"

namespace assay::worker {

namespace {

constexpr const char* kDefaultOut = "runs/train";

// Keys that the tensors of a checkpoint follow.
std::vector<std::string> tensor_keys(const TrainConfig& trained) {
  std::vector<std::string> keys{"family", "preset", "pattern", "conv_kernel"};
  const auto add = [&](const std::vector<ShapeKey>& rows) {
    for (const ShapeKey& key : rows)
      if (key.in_tensors) keys.emplace_back(key.name);
  };
  add(common_shape_keys());
  add(family_of(trained).keys);
  return keys;
}

// What an earlier training left in a directory: "train.csv, checkpoint-500.json", or "".
std::string earlier_training(const std::filesystem::path& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name == "train.csv" || (name.starts_with("checkpoint-") && name.ends_with(".json")))
      names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  if (names.size() > 3) names = {names[0], names[1], fmt::format("{} more", names.size() - 2)};
  return fmt::format("{}", fmt::join(names, ", "));
}

// Checkpoints have zero-padded steps in their names, so that text order is step order.
std::string later_checkpoint(const std::filesystem::path& checkpoint) {
  std::string latest = checkpoint.filename().string();
  std::error_code error;
  for (std::filesystem::directory_iterator it(checkpoint.parent_path(), error), end;
       !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.starts_with("checkpoint-") && name.ends_with(".json")) latest = std::max(latest, name);
  }
  return latest == checkpoint.filename() ? "" : latest;
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
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path source = resume;
  if (!fs::is_directory(source, error)) source = source.parent_path();
  if (source.empty()) source = ".";
  std::string out = !named.empty() ? named : resume.empty() ? kDefaultOut : source.string();
  if (!resume.empty() && (named.empty() || fs::equivalent(source, out, error))) {
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
    return out;
  }
  if (const std::string found = earlier_training(out); !found.empty())
    bad_input("{} contains an earlier training ({}): {}choose another --out",
              out,
              found,
              found.starts_with("checkpoint-")
                  ? fmt::format("continue it by --resume {}, or ", shell_word(out))
                  : "");
  return out;
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
