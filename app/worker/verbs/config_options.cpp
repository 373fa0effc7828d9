#include "app/worker/verbs/config_options.h"

#include "core/result.h"

namespace assay::worker {

void ConfigOptions::add_to(CLI::App& command) {
  for (const ConfigKey& key : config_keys()) {
    for (const char* shortcut :
         {"data", "tokenizer", "preset", "device", "precision", "steps", "seed", "threads"}) {
      if (key.name != shortcut) continue;
      command.add_option_function<std::string>(
          "--" + key.name,
          [this, name = key.name](const std::string& text) { shortcuts_.emplace_back(name, text); },
          key.summary);
    }
  }
  command.add_option(
      "--set", assignments_, "any other key: --set key=value (`assay list keys` shows all)");
}

TrainConfig ConfigOptions::apply(TrainConfig config) const {
  for (const auto& [key, text] : shortcuts_) value_or_throw(set_key_text(config, key, text));
  for (const std::string& assignment : assignments_) {
    const std::size_t equals = assignment.find('=');
    if (equals == std::string::npos) bad_input("--set takes key=value, not '{}'", assignment);
    value_or_throw(
        set_key_text(config, assignment.substr(0, equals), assignment.substr(equals + 1)));
  }
  return config;
}

} // namespace assay::worker
