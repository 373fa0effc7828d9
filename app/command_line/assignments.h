// "key=" and "key=value" of `--set`: completion, and what is wrong with several.
#pragma once

#include <fmt/format.h>

#include <map>
#include <string>
#include <vector>

namespace assay {

// `keys`: those of config_keys(). `choices`: key_choices(). `prefix`: what stands before a key
// ("base."). `typed`: the word under the cursor; with a "=" in it the values of its key, else every
// key.
template <class Keys, class Choices>
std::vector<std::string> assignments(const Keys& keys,
                                     Choices choices,
                                     const std::string& prefix,
                                     const std::string& typed) {
  std::vector<std::string> found;
  const std::size_t equals = typed.find('=');
  for (const auto& key : keys) {
    if (key.hidden) continue;
    const std::string start = prefix + key.name + "=";
    if (equals == std::string::npos) {
      found.push_back(start);
    } else if (typed.substr(0, equals + 1) == start) {
      for (const std::string& value : choices(key.name)) found.push_back(start + value);
      if (key.type == "bool") found.insert(found.end(), {start + "false", start + "true"});
    }
  }
  return found;
}

// What is wrong with "base.KEY=VALUE" where no matrix with its tables is, or "".
inline std::string why_not_plain(const std::string& setting) {
  const std::string table = "base.";
  if (!setting.starts_with(table)) return "";
  return fmt::format("--set {}: a plain training key is wanted here: --set {}",
                     setting,
                     setting.substr(table.size()));
}

// What is wrong where one key has two values, or "". `set_by`: options of their own that set a key,
// by key: "--data".
inline std::string why_set_twice(const std::vector<std::string>& settings,
                                 std::map<std::string, std::string> set_by = {}) {
  for (const std::string& setting : settings) {
    const std::string key = setting.substr(0, setting.find('='));
    if (const auto [earlier, is_new] = set_by.emplace(key, "--set " + setting); !is_new)
      return fmt::format(
          "--set {}: {} is set already, by {}; keep one", setting, key, earlier->second);
  }
  return "";
}

} // namespace assay
