#include "core/ledger/storage/plan_json.h"

#include <nlohmann/json.hpp>

#include "core/files/json_text.h"
#include "core/json_fault.h"
#include "core/lines.h"
#include "core/text.h"

namespace assay {

using nlohmann::json;

namespace {

json parsed(const std::string& text) { // "": not given
  return text.empty() ? json::object() : json::parse(text);
}

json optimization_json(const OptimizationRow& o) {
  json levels = json::array();
  for (const LevelRow& l : o.levels)
    levels.push_back({{"name", l.name}, {"summary", l.summary}, {"span", l.span}});
  json contrasts = json::array();
  for (const ContrastRow& c : o.contrasts) {
    json terms = json::array();
    for (const ContrastTerm& t : c.terms) terms.push_back({t.from, t.to, t.weight});
    contrasts.push_back({{"name", c.name}, {"kind", c.kind}, {"terms", terms}});
  }
  json row{{"name", o.name},
           {"summary", o.summary},
           {"equivalence", o.equivalence},
           {"unit", o.unit},
           {"scope", o.scope},
           {"equality", o.equality},
           {"levels", levels},
           {"also_compare", o.also_compare}};
  if (o.design.empty()) return row; // plans without designs keep their hashes
  row["design"] = o.design;
  row["contrasts"] = contrasts;
  return row;
}

json claim_json(const ClaimRow& c) {
  json out = {{"id", c.id},
              {"optimization", c.optimization},
              {"from", c.from},
              {"to", c.to},
              {"text", c.text},
              {"source", c.source},
              {"metric", c.metric},
              {"gain", {c.lo, c.hi}},
              {"conditions", c.conditions},
              {"unmet", c.unmet},
              {"lints", text_of(c.source_errors)},
              {"stages", c.stages},
              {"requires", parsed(c.requires_json)}};
  if (!c.of.empty()) out["of"] = c.of; // plans of older ledgers keep their hash
  return out;
}

// "loss.margin of cell 'x'": keys down to the value, and the rows that they belong to.
struct Place {
  std::string key, rows;
  bool open = true; // keys are this program's, and may have come later; false: they are data

  Place below(const std::string& name) const {
    return {key.empty() ? name : key + "." + name,
            rows,
            open && name != "config" && name != "requires"};
  }
  Place row(const json& item, std::size_t index) const {
    const std::string table = key.empty() ? key : key.substr(0, key.size() - 1); // cells: cell
    const char* id = item.contains("id") ? "id" : "name";
    const std::string name = item.is_object() && item.contains(id) && item.at(id).is_string()
                                 ? fmt::format("'{}'", printable(item.at(id).get<std::string>()))
                                 : fmt::format("{}", index + 1);
    return {"", fmt::format(" of {} {}{}", table, name, rows)};
  }
};

// The first value of `rows` that is not what `sealed` has, as a sentence, or "".
std::string first_change(const json& sealed, const json& rows, const Place& place) {
  if (sealed.is_object() && rows.is_object()) {
    json keys = sealed;
    if (!place.open) keys.update(rows);
    for (const auto& [key, unused] : keys.items())
      if (!place.open || rows.contains(key))
        if (std::string text =
                first_change(sealed.value(key, json()), rows.value(key, json()), place.below(key));
            !text.empty())
          return text;
    return "";
  }
  const bool tables = sealed.is_array() && !sealed.empty() && sealed.front().is_object();
  if (tables && rows.is_array()) {
    if (sealed.size() != rows.size())
      return fmt::format(
          "it has {} {}{}, its plan {}", rows.size(), place.key, place.rows, sealed.size());
    for (std::size_t i = 0; i < sealed.size(); ++i)
      if (std::string text = first_change(sealed[i], rows[i], place.row(sealed[i], i));
          !text.empty())
        return text;
    return "";
  }
  if (sealed == rows) return "";
  return fmt::format(
      "{}{} is {}, its plan has {}", place.key, place.rows, short_json(rows), short_json(sealed));
}

// A cell's config is its reference's; the plan's JSON has it there only.
std::string changed_cell_config(const LedgerData& data) {
  for (const CellRow& cell : data.cells)
    for (const VariantRow& variant : data.variants)
      if (variant.cell == cell.id && variant.role == Role::Reference &&
          parsed(variant.config_json) != parsed(cell.config_json))
        return fmt::format("config_json of cell '{}' is not the config of its reference",
                           printable(cell.name));
  return "";
}

} // namespace

std::string plan_json(const LedgerData& plan) {
  json out = {{"version", 1},
              {"name", plan.spec.name},
              {"seed", plan.spec.seed},
              {"launches", plan.spec.launches},
              {"alpha", plan.spec.alpha},
              {"sesoi", plan.spec.sesoi},
              {"power", plan.spec.power},
              {"limits",
               {{"steal", plan.spec.limits.steal},
                {"run_delay", plan.spec.limits.run_delay},
                {"pairs", plan.spec.limits.pairs}}},
              {"optimizations", json::array()},
              {"claims", json::array()},
              {"cells", json::array()}};
  for (const OptimizationRow& o : plan.optimizations)
    out["optimizations"].push_back(optimization_json(o));
  for (const ClaimRow& c : plan.claims) out["claims"].push_back(claim_json(c));
  for (const CellRow& c : plan.cells) {
    json variants = json::array();
    for (const VariantRow& v : plan.variants)
      if (v.cell == c.id)
        variants.push_back({{"name", v.name},
                            {"level", v.level},
                            {"role", to_string(v.role)},
                            {"environment", v.environment},
                            {"worker", v.worker},
                            {"config", parsed(v.config_json)}});
    out["cells"].push_back({{"name", c.name},
                            {"optimization", c.optimization},
                            {"unit", c.unit},
                            {"rounds", c.rounds},
                            {"visit_steps", c.visit_steps},
                            {"discard_steps", c.discard_steps},
                            {"launches", c.launches},
                            {"traced_rounds", c.traced_rounds},
                            {"turns", c.turns},
                            {"loss",
                             {{"seeds", c.loss_seeds},
                              {"rounds", c.loss_rounds},
                              {"steps", c.loss_steps},
                              {"margin", c.loss_margin}}},
                            {"variants", std::move(variants)}});
    // Only where they are asked for: plans of older ledgers keep their hash.
    if (!c.looks.empty()) out["cells"].back()["looks"] = c.looks;
    if (c.apart) out["cells"].back()["apart"] = true;
    if (c.loss_target > 0) out["cells"].back()["loss"]["target"] = c.loss_target;
    if (c.energy_rounds > 0) out["cells"].back()["energy_rounds"] = c.energy_rounds;
  }
  return out.dump();
}

void seal_plan(LedgerData& plan) {
  plan.spec.plan_json = plan_json(plan);
  plan.spec.hash = content_hash(plan.spec.plan_json);
}

std::string changed_plan(const LedgerData& data) {
  std::string change;
  try {
    if (const std::string hash = content_hash(data.spec.plan_json); hash != data.spec.hash)
      change = fmt::format("its plan_json has hash {}, not {}", hash, data.spec.hash);
    if (change.empty())
      change =
          first_change(json::parse(data.spec.plan_json), json::parse(plan_json(data)), Place());
    if (change.empty()) change = changed_cell_config(data);
  } catch (const json::exception& error) {
    change = fmt::format("it cannot be read: {}", json_fault(error));
  }
  if (change.empty()) return "";
  return fmt::format("the plan in this ledger was changed after it was made: {}", change);
}

} // namespace assay
