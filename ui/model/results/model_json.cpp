#include "ui/model/results/model_json.h"

#include <nlohmann/json.hpp>

namespace assay {
namespace {

using nlohmann::ordered_json;

ordered_json range(const std::optional<double>& lo, const std::optional<double>& hi) {
  if (!lo || !hi) return nullptr;
  return ordered_json::array({*lo, *hi});
}

ordered_json interval(const std::optional<IntervalPicture>& picture) {
  if (!picture) return nullptr;
  return {{"point_percent", picture->point},
          {"interval_percent", {picture->lo, picture->hi}},
          {"claim_percent", range(picture->claim_lo, picture->claim_hi)},
          {"control_percent", range(picture->band_lo, picture->band_hi)}};
}

ordered_json details(const std::vector<Section>& sections) {
  ordered_json all = ordered_json::array();
  for (const Section& section : sections) all.push_back(to_json(section));
  return all;
}

ordered_json to_json(const VerdictRowModel& row) {
  ordered_json launches = ordered_json::array();
  for (const LaunchPoint& launch : row.launches)
    launches.push_back({{"label", launch.label},
                        {"point_percent", launch.value},
                        {"interval_percent", {launch.lo, launch.hi}}});
  return {{"cell", row.cell},
          {"comparison", row.comparison},
          {"effect", row.effect},
          {"mde", row.mde},
          {"memory", row.memory},
          {"badge", row.badge},
          {"headline", row.headline},
          {"tone", to_string(row.tone)},
          {"interval", interval(row.interval)},
          {"details", details(row.details)},
          {"launches", launches}};
}

} // namespace

ordered_json to_json(const VerdictModel& model) {
  ordered_json rows = ordered_json::array();
  for (const VerdictRowModel& row : model.rows) rows.push_back(to_json(row));
  ordered_json notice = nullptr;
  if (model.notice)
    notice = {{"title", model.notice->title},
              {"explanation", model.notice->explanation},
              {"action", model.notice->action},
              {"failed", model.failed}};
  return {{"name", model.name},
          {"interval_level", model.interval_level},
          {"summary", model.summary},
          {"provenance", model.provenance},
          {"alarms", model.alarms},
          {"axis_percent", model.axis},
          {"rows", rows},
          {"notice", notice}};
}

} // namespace assay
