// "key=" and "key=value" of training keys, for completion of `--set`.
#pragma once

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

} // namespace assay
