#include "experiments/report/loss_json.h"

#include "core/text.h"

namespace assay {

using nlohmann::ordered_json;

ordered_json loss_test_json(const LossTest& test) {
  const LossQuality& result = test.result;
  ordered_json seeds = ordered_json::array();
  for (const SeedLoss& seed : result.seeds)
    seeds.push_back({{"seed", seed.seed}, {"baseline", seed.a}, {"candidate", seed.b}});
  ordered_json out = {
      {"quality", to_string(result.quality)},
      {"text", printable(loss_text(test))},
      {"rule", test.rule == LossRule::Equivalence ? "equivalence" : "non-inferiority"},
      {"margin", result.margin},
      {"steps", test.steps},
      {"final_steps", test.final_steps},
      {"seeds", std::move(seeds)},
      {"difference", nullptr},
      {"interval", nullptr},
      {"interval_level", nullptr},
      {"p", nullptr},
      {"seeds_needed", nullptr},
      {"skipped_steps_baseline", test.skipped_a},
      {"skipped_steps_candidate", test.skipped_b}};
  if (result.test) {
    const bool one_sided = test.rule == LossRule::NonInferiority;
    out["difference"] = result.test->mean;
    out["interval"] = {result.test->interval.lower, result.test->interval.upper};
    out["interval_level"] = result.test->level();
    out["p"] = one_sided ? result.test->p_high : result.test->p();
  }
  if (result.seeds_needed) out["seeds_needed"] = *result.seeds_needed;
  return out;
}

ordered_json loss_curves_json(const CellReport& cell) {
  ordered_json curves = ordered_json::array();
  for (const LossCurve& curve : cell.loss_curves)
    curves.push_back({{"variant", printable(curve.variant)},
                      {"seed", curve.seed},
                      {"every", cell.cell.loss_steps},
                      {"loss", curve.loss}});
  return curves;
}

} // namespace assay
