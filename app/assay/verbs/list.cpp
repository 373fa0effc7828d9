// `assay list`: the optimizations, presets and configuration keys of this build.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/assay/output/json_output.h"
#include "app/assay/output/terminal.h"
#include "app/assay/verbs.h"
#include "app/value_checks.h"
#include "experiments/plan/claims/source_rows.h"
#include "experiments/report/text_layout.h"
#include "experiments/report/text_sections.h"
#include "model/config/fast_defaults.h"
#include "model/config/key_bounds.h"

namespace assay::cli {

namespace {

using nlohmann::json;

json optimization_json(const Optimization& row) {
  json levels = json::array();
  for (const Level& level : row.levels)
    levels.push_back({{"name", level.name}, {"summary", level.summary}, {"wrong", level.wrong}});
  return {{"name", row.name},
          {"summary", row.summary},
          {"equivalence", to_string(row.equivalence)},
          {"unit", to_string(row.unit)},
          {"family", row.family},
          {"needs_ranks", row.needs_ranks},
          {"fast_default", row.fast_default},
          {"levels", levels},
          {"equality", row.equality}};
}

json optimizations_json() {
  json rows = json::array();
  for (const Optimization& row : optimizations().all())
    if (!row.hidden) rows.push_back(optimization_json(row));
  return rows;
}

std::string mark_of(const Optimization& row, const Level& level) {
  return &level == &row.levels.front()    ? "(reference) "
         : level.wrong                    ? "(its gate must reject it) "
         : level.name == row.fast_default ? "(default on a GPU) "
                                          : "";
}

void print_optimization(const Optimization& row, TextWriter& out) {
  out.raw(row.name);
  out.line(row.summary, 2);
  out.line(fmt::format("unit {}, class {}. Checked: {}",
                       to_string(row.unit),
                       to_string(row.equivalence),
                       row.equality),
           2);
  if (!row.family.empty()) out.line("models of family " + row.family, 2);
  if (row.needs_ranks) out.line("two ranks or more", 2);
  for (const Level& level : row.levels)
    out.line(mark_of(row, level) + level.summary, 4, fmt::format("{:<16} ", level.name));
}

void print_optimizations(TextWriter& out) {
  for (const Optimization& row : optimizations().all()) {
    if (row.hidden) continue;
    print_optimization(row, out);
    out.raw("");
  }
}

// Values that a key has on a GPU where nobody sets it, if they are others than on a CPU.
json gpu_defaults() {
  json values = json::object();
  for (const Optimization& row : optimizations().all()) {
    if (row.fast_default.empty()) continue;
    TrainConfig config;
    row.level(row.fast_default)->apply(config);
    values[fast_key(row)] = to_json(config).at(fast_key(row));
  }
  return values;
}

json keys_json() {
  const json defaults = to_json(TrainConfig{}), on_gpu = gpu_defaults();
  json rows = json::array();
  for (const ConfigKey& key : config_keys())
    if (!key.hidden)
      rows.push_back({{"name", key.name},
                      {"type", key.type},
                      {"default", defaults.at(key.name)},
                      {"default_on_gpu", on_gpu.value(key.name, defaults.at(key.name))},
                      {"summary", key.summary}});
  return rows;
}

bool preset_fills(const std::string& key) {
  const auto& bounds = integer_bounds();
  return std::any_of(bounds.begin(), bounds.end(), [&](const KeyBounds& b) {
    return b.name == key && b.initial < b.least;
  });
}

void print_key(const json& row, TextWriter& out) {
  out.line(fmt::format("{} (default {}{}): {}",
                       row["type"].get<std::string>(),
                       preset_fills(row["name"]) ? "the preset's" : row["default"].dump(),
                       row["default"] == row["default_on_gpu"]
                           ? ""
                           : ", on a GPU " + row["default_on_gpu"].dump(),
                       row["summary"].get<std::string>()),
           0,
           fmt::format("{:<20} ", row["name"].get<std::string>()));
}

void print_keys(TextWriter& out) {
  for (const json& row : keys_json()) print_key(row, out);
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
                      {"active_parameters", model_size(config).active_parameters},
                      {"state_bytes", model_size(config).state_bytes},
                      {"config", to_json(config)}});
    }
  }
  return rows;
}

void print_presets(TextWriter& out) {
  std::vector<std::vector<std::string>> rows{{"family",
                                              "preset",
                                              "parameters",
                                              "of a token",
                                              "width",
                                              "heads",
                                              "rows x tokens",
                                              "layers"}};
  for (const json& row : presets_json()) {
    const json& c = row["config"];
    rows.push_back({row["family"].get<std::string>(),
                    row["name"].get<std::string>(),
                    row["parameters"].dump(),
                    row["active_parameters"].dump(),
                    c["d_model"].dump(),
                    c["heads"].dump() + " of " + c["head_dim"].dump(),
                    c["batch_rows"].dump() + " x " + c["seq_len"].dump(),
                    c["pattern"].get<std::string>()});
  }
  const std::vector<bool> right{false, false, true, true, true, true, true, false};
  if (table_width(rows) <= out.width()) return out.columns(rows, right, 0);
  print_section(out, as_section(rows, right, 2), 0);
}

// "optimization, math"
std::string class_of(const SourceRow& row) {
  std::string answer = to_string(row.answer);
  if (row.answer != SourceRow::Answer::Optimization) return answer;
  const Optimization& switched = *value_or_throw(optimizations().lookup(row.by));
  return fmt::format("{}, {}", answer, to_string(switched.equivalence));
}

json source_rows_json() {
  json rows = json::array();
  for (const SourceRow& row : source_rows())
    rows.push_back({{"id", row.id},
                    {"what", row.what},
                    {"class", class_of(row)},
                    {"by", row.by},
                    {"missing", row.answer == SourceRow::Answer::Missing},
                    {"claims", row.claims}});
  return rows;
}

// "optimization validation_ranks (math)", "missing: why"
std::string answer_text(const SourceRow& row) {
  switch (row.answer) {
  case SourceRow::Answer::Optimization:
    return fmt::format("optimization {} ({})",
                       row.by,
                       to_string(value_or_throw(optimizations().lookup(row.by))->equivalence));
  case SourceRow::Answer::Variants:
    return "variants of experiments/matrices/" + row.by;
  case SourceRow::Answer::Command:
    return row.by;
  case SourceRow::Answer::Arithmetic:
  case SourceRow::Answer::Missing:
    return fmt::format("{}: {}", to_string(row.answer), row.by);
  }
  internal_error("unknown answer");
}

void print_source_rows(TextWriter& out) {
  constexpr int kIds = 5;
  for (const SourceRow& row : source_rows()) {
    out.line(row.what, 0, fmt::format("{:<{}}", row.id, kIds));
    out.line(answer_text(row), kIds);
    if (!row.claims.empty()) out.line(fmt::format("claims {}", fmt::join(row.claims, ", ")), kIds);
  }
  const auto missing = std::ranges::count_if(
      source_rows(), [](const SourceRow& row) { return row.answer == SourceRow::Answer::Missing; });
  out.raw("");
  out.line(
      fmt::format("{} rows, {} of them missing, whole or in part", source_rows().size(), missing));
}

} // namespace

std::vector<std::string> listed_names() {
  std::vector<std::string> names;
  for (const Optimization& row : optimizations().all())
    if (!row.hidden) names.push_back(row.name);
  for (const ConfigKey& key : config_keys())
    if (!key.hidden) names.push_back(key.name);
  return names;
}

void print_listed(const std::string& name, TextWriter& out) {
  if (const Optimization* row = optimizations().find(name); row != nullptr && !row->hidden)
    print_optimization(*row, out);
  for (const json& key : keys_json())
    if (key["name"] == name) print_key(key, out);
}

nlohmann::json listed_json(const std::string& name) {
  json out = json::object();
  if (const Optimization* row = optimizations().find(name); row != nullptr && !row->hidden)
    out["optimizations"] = json::array({optimization_json(*row)});
  for (const json& key : keys_json())
    if (key["name"] == name) out["keys"] = json::array({key});
  return out;
}

void add_list(CLI::App& app) {
  CLI::App* command = app.add_subcommand("list", "optimizations, presets and configuration keys");
  struct Options {
    std::string what = "optimizations";
    bool json = false, all = false;
    TerminalOptions terminal;
  };
  auto options = std::make_shared<Options>();
  one_of(command->add_option("what", options->what, "what to list (default: optimizations)"),
         {"optimizations", "presets", "keys"});
  command->add_flag("--all",
                    options->all,
                    "what the documents behind the claims propose, and how it is answered");
  command->add_flag("--json", options->json, "print JSON");
  options->terminal.add_to(*command);
  command->callback([options] {
    TextWriter out(options->terminal.style());
    if (options->all) {
      if (options->json) return print_json({{"rows", source_rows_json()}});
      print_source_rows(out);
      fmt::print("{}", out.take());
      return;
    }
    const bool rows = options->what == "optimizations", presets = options->what == "presets";
    if (options->json) {
      print_json({{options->what,
                   rows      ? optimizations_json()
                   : presets ? presets_json()
                             : keys_json()}});
      return;
    }
    if (rows)
      print_optimizations(out);
    else if (presets)
      print_presets(out);
    else
      print_keys(out);
    fmt::print("{}", out.take());
  });
}

} // namespace assay::cli
