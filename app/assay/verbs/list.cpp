// `assay list`: the optimizations, presets and configuration keys of this build.
#include <fmt/ranges.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/assay/verbs.h"
#include "model/config/optimization.h"

namespace assay::cli {

namespace {

using nlohmann::json;

json optimizations_json() {
  json rows = json::array();
  for (const Optimization& row : optimizations().all()) {
    if (row.hidden) continue;
    json levels = json::array();
    for (const Level& level : row.levels)
      levels.push_back({{"name", level.name}, {"summary", level.summary}, {"wrong", level.wrong}});
    rows.push_back({{"name", row.name},
                    {"summary", row.summary},
                    {"equivalence", to_string(row.equivalence)},
                    {"unit", to_string(row.unit)},
                    {"scope", to_string(row.scope)},
                    {"family", row.family},
                    {"needs_ranks", row.needs_ranks},
                    {"levels", levels},
                    {"equality", row.equality}});
  }
  return rows;
}

void print_optimizations() {
  for (const Optimization& row : optimizations().all()) {
    if (row.hidden) continue;
    fmt::print("{}\n  {}\n  unit {}, equivalence {}: {}\n{}{}",
               row.name,
               row.summary,
               to_string(row.unit),
               to_string(row.equivalence),
               row.equality,
               row.family.empty() ? "" : fmt::format("  models of family {}\n", row.family),
               row.needs_ranks ? "  two ranks or more\n" : "");
    for (const Level& level : row.levels)
      fmt::print("    {:<16} {}{}\n",
                 level.name,
                 level.summary,
                 &level == &row.levels.front() ? " (reference)"
                 : level.wrong                 ? " (its gate must reject it)"
                                               : "");
    fmt::print("\n");
  }
}

json keys_json() {
  const json defaults = to_json(TrainConfig{});
  json rows = json::array();
  for (const ConfigKey& key : config_keys())
    rows.push_back({{"name", key.name},
                    {"type", key.type},
                    {"default", defaults.at(key.name)},
                    {"summary", key.summary}});
  return rows;
}

void print_keys() {
  for (const json& row : keys_json())
    fmt::print("{:<22} {:<36} {:<14} {}\n",
               row["name"].get<std::string>(),
               row["type"].get<std::string>(),
               row["default"].dump(),
               row["summary"].get<std::string>());
}

json presets_json() {
  json rows = json::array();
  for (const std::string& family : family_names()) {
    for (const std::string& name : preset_names(family)) {
      TrainConfig config;
      config.family = family;
      config.preset = name;
      config = value_or_throw(resolve(config));
      rows.push_back({{"family", family},
                      {"name", name},
                      {"parameters", model_size(config).parameters},
                      {"state_bytes", model_size(config).state_bytes},
                      {"config", to_json(config)}});
    }
  }
  return rows;
}

void print_presets() {
  for (const json& row : presets_json()) {
    const json& c = row["config"];
    fmt::print("{:<12} {:<6} {:>11} parameters  layers {}  width {}  {} heads of {}  rows {} x {} "
               "tokens\n",
               row["family"].get<std::string>(),
               row["name"].get<std::string>(),
               row["parameters"].get<std::int64_t>(),
               c["pattern"].get<std::string>(),
               c["d_model"].dump(),
               c["heads"].dump(),
               c["head_dim"].dump(),
               c["batch_rows"].dump(),
               c["seq_len"].dump());
  }
}

} // namespace

void add_list(CLI::App& app) {
  CLI::App* command = app.add_subcommand("list", "optimizations, presets and configuration keys");
  struct Options {
    std::string what = "optimizations";
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  command->add_option("what", options->what, "optimizations, presets or keys")
      ->check(CLI::IsMember({"optimizations", "presets", "keys"}))
      ->capture_default_str();
  command->add_flag("--json", options->json, "print JSON");
  command->callback([options] {
    const bool rows = options->what == "optimizations", presets = options->what == "presets";
    if (options->json)
      fmt::print("{}\n",
                 (rows      ? optimizations_json()
                  : presets ? presets_json()
                            : keys_json())
                     .dump(2));
    else if (rows)
      print_optimizations();
    else if (presets)
      print_presets();
    else
      print_keys();
  });
}

} // namespace assay::cli
