#include "experiments/plan_hash.h"

#include <nlohmann/json.hpp>

namespace assay {

using nlohmann::json;

namespace {

json optimization_json(const OptimizationRow& o) {
  json levels = json::array();
  for (const LevelRow& l : o.levels)
    levels.push_back({{"name", l.name}, {"summary", l.summary}, {"span", l.span}});
  return {{"name", o.name},
          {"summary", o.summary},
          {"equivalence", o.equivalence},
          {"unit", o.unit},
          {"scope", o.scope},
          {"equality", o.equality},
          {"levels", levels},
          {"also_compare", o.also_compare}};
}

json claim_json(const ClaimRow& c) {
  return {{"id", c.id},
          {"optimization", c.optimization},
          {"from", c.from},
          {"to", c.to},
          {"text", c.text},
          {"source", c.source},
          {"metric", c.metric},
          {"gain", {c.lo, c.hi}},
          {"conditions", c.conditions},
          {"unmet", c.unmet},
          {"lints", c.lints},
          {"stages", c.stages},
          {"requires", json::parse(c.requires_json)}};
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
                            {"config", json::parse(v.config_json)}});
    out["cells"].push_back({{"name", c.name},
                            {"optimization", c.optimization},
                            {"unit", c.unit},
                            {"rounds", c.rounds},
                            {"visit_steps", c.visit_steps},
                            {"discard_steps", c.discard_steps},
                            {"launches", c.launches},
                            {"traced_rounds", c.traced_rounds},
                            {"loss",
                             {{"seeds", c.loss_seeds},
                              {"rounds", c.loss_rounds},
                              {"steps", c.loss_steps},
                              {"margin", c.loss_margin}}},
                            {"variants", std::move(variants)}});
  }
  return out.dump();
}

} // namespace assay
