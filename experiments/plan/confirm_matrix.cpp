#include "experiments/plan/confirm_matrix.h"

#include <nlohmann/json.hpp>
#include <set>

#include "core/files/json_difference.h"
#include "core/files/toml_text.h"
#include "core/ledger/stored_config.h"
#include "experiments/evidence/cell_view.h"
#include "experiments/plan/fresh_matrix.h"
#include "model/config/optimization.h"

namespace assay {

namespace {

using nlohmann::json;

std::string set_text(const json& config, const std::set<std::string>& keys) {
  std::vector<std::string> parts;
  for (const std::string& key : keys)
    parts.push_back(fmt::format("{} = {}", key, toml_text(config.at(key))));
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
  std::string text = fmt::format("# `assay confirm` made this of {}: {}, {} against {}, in fresh "
                                 "launches.\n{}",
                                 printable(spec.name),
                                 printable(cell.name),
                                 printable(b.name),
                                 printable(a.name),
                                 fresh_head(spec, cell.name, launches));
  text += fresh_base(config, keys, spec) + fresh_cell(cell, cell.name);
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
  return text +
         fmt::format("\n[measure]\nsesoi = {}\nalpha = {}\npower = {}\n",
                     toml_float(spec.sesoi),
                     toml_float(spec.alpha),
                     toml_float(spec.power)) +
         fresh_end(spec, cell);
}

} // namespace assay
