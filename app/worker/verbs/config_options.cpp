#include "app/worker/verbs/config_options.h"

#include <map>
#include <nlohmann/json.hpp>

#include "app/command_line/assignments.h"
#include "app/value_checks.h"
#include "core/result.h"
#include "model/config/key_choices.h"

namespace assay::worker {

namespace {

// What help shows behind the option, and by which completion offers values.
std::string value_name_of(const ConfigKey& key) {
  if (key.name == "data") return "PATH";
  if (key.name == "tokenizer") return "FILE";
  if (key.name == "preset") return CLI::detail::join(preset_choices(), "|");
  if (const auto& choices = key_choices(key.name); !choices.empty())
    return CLI::detail::join(choices, "|");
  return key.type == "int" ? "N" : key.type == "float" ? "NUMBER" : "TEXT";
}

} // namespace

void ConfigOptions::add_to(CLI::App& command) {
  const nlohmann::json defaults = to_json(TrainConfig());
  for (const ConfigKey& key : config_keys()) {
    for (const char* shortcut :
         {"data", "tokenizer", "preset", "device", "precision", "steps", "seed", "threads"}) {
      if (key.name != shortcut) continue;
      CLI::Option* option = command.add_option_function<std::string>(
          "--" + key.name,
          [this, name = key.name](const std::string& text) { shortcuts_.emplace_back(name, text); },
          key.summary);
      option->type_name(value_name_of(key));
      if (const auto& choices = key_choices(key.name); !choices.empty()) one_of(option, choices);
      if (const nlohmann::json& value = defaults.at(key.name); value != "" && value != 0)
        option->default_str(value.is_string() ? value.get<std::string>() : value.dump());
    }
  }
  command.add_option("--set", assignments_, "any other training key; `assay list keys` shows all")
      ->type_name("KEY=VALUE");
}

TrainConfig ConfigOptions::apply(TrainConfig config) const {
  std::map<std::string, std::string> set_by;
  for (const auto& [key, text] : shortcuts_) {
    set_by.emplace(key, "--" + key);
    const Result<bool> set = set_key_text(config, key, text);
    if (set) continue;
    std::string message = set.error().message; // "key 'steps' takes …"
    if (const std::string start = "key '" + key + "' "; message.starts_with(start))
      message.erase(0, start.size());
    bad_input("--{}: {}", key, message);
  }
  if (const std::string twice = why_set_twice(assignments_, set_by); !twice.empty())
    bad_input("{}", twice);
  for (const std::string& assignment : assignments_) {
    const std::size_t equals = assignment.find('=');
    if (equals == std::string::npos) bad_input("--set takes key=value, not '{}'", assignment);
    if (const std::string why = why_not_plain(assignment); !why.empty()) bad_input("{}", why);
    const Result<bool> set =
        set_key_text(config, assignment.substr(0, equals), assignment.substr(equals + 1));
    if (!set) bad_input("--set {}: {}", assignment, set.error().message);
  }
  return config;
}

std::set<std::string> ConfigOptions::named() const {
  std::set<std::string> keys;
  for (const auto& [key, text] : shortcuts_) keys.insert(key);
  for (const std::string& assignment : assignments_)
    keys.insert(assignment.substr(0, assignment.find('=')));
  return keys;
}

} // namespace assay::worker
