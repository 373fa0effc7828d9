// "key=" and "key=value" of training keys, for completion of `--set`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace assay {

// `keys`: those of config_keys(). `prefix`: what stands before a key ("base."). `typed`: the word
// under the cursor; with a "=" in it the values of its key, else every key.
template <class Keys>
std::vector<std::string>
assignments(const Keys& keys, const std::string& prefix, const std::string& typed) {
  constexpr std::string_view kChoice = "one of ";
  std::vector<std::string> found;
  const std::size_t equals = typed.find('=');
  for (const auto& key : keys) {
    if (key.hidden) continue;
    const std::string start = prefix + key.name + "=";
    if (equals == std::string::npos) {
      found.push_back(start);
    } else if (typed.substr(0, equals + 1) == start) {
      std::string_view values = key.type == "bool" ? "false|true"
                                : key.type.starts_with(kChoice)
                                    ? std::string_view(key.type).substr(kChoice.size())
                                    : "";
      for (std::size_t end = 0; !values.empty() && end != std::string_view::npos;
           values.remove_prefix(end == std::string_view::npos ? 0 : end + 1)) {
        end = values.find('|');
        found.push_back(start + std::string(values.substr(0, end)));
      }
    }
  }
  return found;
}

} // namespace assay
