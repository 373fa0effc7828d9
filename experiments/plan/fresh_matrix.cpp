#include "experiments/plan/fresh_matrix.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/files/toml_text.h"
#include "core/result.h"
#include "core/text.h"

namespace assay {

namespace {

using nlohmann::json;

// Added to both seeds: beyond the numbers of any launch.
constexpr std::uint64_t kFresh = 1'000'000;

} // namespace

std::string toml_text(const json& value) {
  if (value.is_string()) return toml_string(value.get<std::string>());
  if (value.is_number_float()) return toml_float(value.get<double>());
  return value.dump();
}

std::string fresh_head(const SpecRow& spec, const std::string& name, const std::string& launches) {
  return fmt::format("version = 1\n\n[experiment]\nname = {}\nseed = {}\nlaunches = {}\n\n",
                     toml_string(name),
                     spec.seed + kFresh,
                     launches);
}

std::string fresh_base(json config, const std::set<std::string>& left_out, const SpecRow& spec) {
  for (const char* key : {"seed", "data", "tokenizer"})
    if (!config.contains(key))
      bad_input(
          "{}: its stored configuration has no `{}`, so nothing can be trained by it: results "
          "that are made up, or of another Assay, are not measured again",
          printable(spec.name),
          key);
  config["seed"] = config.at("seed").get<std::uint64_t>() + kFresh;
  for (const char* key : {"data", "package", "tokenizer"}) {
    if (config.value(key, "").empty()) continue;
    const std::filesystem::path path(config.at(key).get<std::string>());
    std::error_code ignored;
    if (const auto from = spec.directory / path;
        !spec.directory.empty() && std::filesystem::exists(from, ignored))
      config[key] = from.lexically_normal().string();
  }
  std::string text = "[base]\n";
  for (const auto& [key, value] : config.items())
    if (!left_out.contains(key)) text += fmt::format("{} = {}\n", key, toml_text(value));
  return text;
}

std::string fresh_cell(const CellRow& cell, const std::string& name) {
  return fmt::format("\n[[cell]]\nname = {}\nrounds = {}\nvisit_steps = {}\ndiscard_steps = {}\n",
                     toml_string(name),
                     cell.rounds,
                     cell.visit_steps,
                     cell.discard_steps);
}

std::string fresh_end(const SpecRow& spec, const CellRow& cell) {
  return fmt::format("interleave = {}\n\n[limits]\nsteal = {}\nrun_delay = {}\npairs = {}\n\n"
                     "[trace]\nrounds = 0\n",
                     toml_string(cell.apart   ? "launches"
                                 : cell.turns ? "turns"
                                              : "auto"),
                     toml_float(spec.limits.steal),
                     toml_float(spec.limits.run_delay),
                     toml_float(spec.limits.pairs));
}

} // namespace assay
