#include "experiments/plan/confirm_matrix.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "core/files/json_difference.h"
#include "core/files/toml_text.h"
#include "core/ledger/stored_config.h"
#include "experiments/evidence/cell_view.h"
#include "model/config/optimization.h"

namespace assay {

namespace {

using nlohmann::json;

// Added to both seeds: beyond the numbers of any launch.
constexpr std::uint64_t kFresh = 1'000'000;

std::string value_text(const json& value) {
  if (value.is_string()) return toml_string(value.get<std::string>());
  if (value.is_number_float()) return toml_float(value.get<double>());
  return value.dump();
}

std::string set_text(const json& config, const std::set<std::string>& keys) {
  std::vector<std::string> parts;
  for (const std::string& key : keys)
    parts.push_back(fmt::format("{} = {}", key, value_text(config.at(key))));
  return fmt::format("set = {{ {} }}", fmt::join(parts, ", "));
}

// "K=V\n" lines as a table.
std::string environment_text(const std::string& lines) {
  std::vector<std::string> parts;
  std::istringstream in(lines);
  for (std::string line; std::getline(in, line);)
    if (const std::size_t equals = line.find('='); equals != std::string::npos)
      parts.push_back(fmt::format(
          "{} = {}", toml_string(line.substr(0, equals)), toml_string(line.substr(equals + 1))));
  return parts.empty() ? "" : fmt::format("env = {{ {} }}", fmt::join(parts, ", "));
}

std::string variant_text(const VariantRow& variant, const std::set<std::string>& keys) {
  std::vector<std::string> parts;
  if (!keys.empty()) parts.push_back(set_text(stored_config(variant.config_json), keys));
  if (std::string text = environment_text(variant.environment); !text.empty())
    parts.push_back(std::move(text));
  if (!variant.worker.empty()) parts.push_back("worker = " + toml_string(variant.worker));
  return fmt::format("{} = {{ {} }}\n", toml_string(variant.name), fmt::join(parts, ", "));
}

std::string base_text(json config, const std::set<std::string>& left_out, const SpecRow& spec) {
  config["seed"] = config.at("seed").get<std::uint64_t>() + kFresh;
  for (const char* key : {"data", "tokenizer"}) {
    const std::filesystem::path path(config.at(key).get<std::string>());
    std::error_code ignored;
    if (const auto from = spec.directory / path;
        !spec.directory.empty() && std::filesystem::exists(from, ignored))
      config[key] = from.lexically_normal().string();
  }
  std::string text = "[base]\n";
  for (const auto& [key, value] : config.items())
    if (!left_out.contains(key)) text += fmt::format("{} = {}\n", key, value_text(value));
  return text;
}

} // namespace

std::string confirm_matrix(const LedgerData& data, std::int64_t a_id, std::int64_t b_id) {
  const VariantRow &a = data.variant(a_id), &b = data.variant(b_id);
  const CellRow& cell = data.cell(a.cell);
  const SpecRow& spec = data.spec;
  const OptimizationRow* row = optimization_of(data, cell);
  const bool by_keys = compares_keys(row);
  const json config = stored_config(a.config_json);
  const std::set<std::string> keys =
      by_keys ? differing_keys(config, stored_config(b.config_json))
              : switched_keys(*value_or_throw(optimizations().lookup(cell.optimization)));
  std::string launches = std::to_string(data.spec.launches);
  if (!cell.looks.empty())
    launches = fmt::format("\"auto\"\nmax_launches = {}", cell.looks.back());
  else if (cell.launches > 0)
    launches = std::to_string(cell.launches);
  std::string text = fmt::format(
      "# `assay confirm` made this of {}: {}, {} against {}, in fresh launches.\nversion = 1\n\n"
      "[experiment]\nname = {}\nseed = {}\nlaunches = {}\n\n",
      printable(spec.name),
      printable(cell.name),
      printable(b.name),
      printable(a.name),
      toml_string(cell.name),
      spec.seed + kFresh,
      launches);
  text += base_text(config, keys, spec);
  text += fmt::format("\n[[cell]]\nname = {}\nrounds = {}\nvisit_steps = {}\ndiscard_steps = {}\n",
                      toml_string(cell.name),
                      cell.rounds,
                      cell.visit_steps,
                      cell.discard_steps);
  if (by_keys)
    text += fmt::format("expect = {}\nunit = {}\n[cell.variants]\n{}{}",
                        toml_string(row->equivalence),
                        toml_string(cell.unit),
                        variant_text(a, keys),
                        variant_text(b, keys));
  else
    text += fmt::format("optimization = {}\nreference = {}\nlevels = [{}]\n",
                        toml_string(cell.optimization),
                        toml_string(a.level),
                        toml_string(b.level));
  text += fmt::format("\n[measure]\nsesoi = {}\nalpha = {}\npower = {}\ninterleave = {}\n"
                      "\n[limits]\nsteal = {}\nrun_delay = {}\npairs = {}\n\n[trace]\nrounds = 0\n",
                      toml_float(spec.sesoi),
                      toml_float(spec.alpha),
                      toml_float(spec.power),
                      toml_string(cell.turns ? "turns" : "auto"),
                      toml_float(spec.limits.steal),
                      toml_float(spec.limits.run_delay),
                      toml_float(spec.limits.pairs));
  return text;
}

} // namespace assay
