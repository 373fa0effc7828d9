#include "experiments/report/claims/claim_json.h"

#include <nlohmann/json.hpp>

#include "core/text.h"

namespace assay {

namespace {

using nlohmann::ordered_json;

ordered_json interval(const Interval& value) { // dump() writes null for infinity
  return ordered_json::array({value.lower, value.upper});
}

ordered_json maybe(const std::optional<Interval>& value) {
  return value ? interval(*value) : ordered_json(nullptr);
}

} // namespace

ordered_json claim_json(const ClaimResult& result, const std::string& cell) {
  const ClaimRow& claim = result.claim;
  return {{"id", printable(claim.id)},
          {"optimization", printable(claim.optimization)},
          {"from", printable(claim.from)},
          {"to", printable(claim.to)},
          {"text", printable(claim.text)},
          {"source", printable(claim.source)},
          {"metric", printable(claim.metric)},
          {"of", printable(claim.of)},
          {"claimed", interval({claim.lo, claim.hi})},
          {"conditions", printable(claim.conditions)},
          {"stages", printable(claim.stages)},
          {"cell", result.cell ? ordered_json(printable(cell)) : ordered_json(nullptr)},
          {"state", to_string(result.state)},
          {"exceeds", result.exceeds},
          {"provisional", result.provisional},
          {"end_to_end", result.end_to_end},
          {"gain", result.gain ? ordered_json(*result.gain) : ordered_json(nullptr)},
          {"gain_interval_95", maybe(result.gain_95)},
          {"gain_interval_judged", maybe(result.gain_judged)},
          {"reason", printable(result.reason.text)},
          {"reason_code", to_string(result.reason.code)}};
}

} // namespace assay
