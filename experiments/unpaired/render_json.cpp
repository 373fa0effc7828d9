#include <cmath>
#include <nlohmann/json.hpp>

#include "experiments/unpaired/render.h"

namespace assay {

namespace {

using nlohmann::json;

json run_json(const UnpairedRun& run) {
  return {{"directory", run.directory},
          {"plan", run.name},
          {"spec", run.hash},
          {"builds", run.builds},
          {"first_utc", run.first_utc},
          {"last_utc", run.last_utc},
          {"only_cells", run.only_cells}};
}

template <class Convert> json value_of(const std::vector<double>& logs, Convert convert) {
  return logs.empty() ? json() : json(convert(mean(logs)));
}

double share(double log) {
  return std::expm1(log);
}

// Shares of time.
json difference_json(const RunDifference& runs) {
  json out{{"unpaired", true},
           {"state", to_string(runs.state)},
           {"reason", runs.reason},
           {"launches_first", runs.first.size()},
           {"launches_second", runs.second.size()},
           {"change", nullptr},
           {"interval", nullptr},
           {"degrees_of_freedom", nullptr}};
  if (runs.difference) {
    out["change"] = share(runs.difference->value);
    out["degrees_of_freedom"] = runs.difference->df;
  }
  if (runs.interval) out["interval"] = {share(runs.interval->lower), share(runs.interval->upper)};
  return out;
}

json time_json(const TimeChange& change) {
  const auto ns = [](double log) { return std::exp(log); };
  json out = difference_json(change.runs);
  out["variant"] = change.variant;
  out["first_unit_ns"] = value_of(change.runs.first, ns);
  out["second_unit_ns"] = value_of(change.runs.second, ns);
  out["width_ratio"] = change.width_ratio ? json(*change.width_ratio) : json();
  return out;
}

json effect_json(const EffectChange& change) {
  json out = difference_json(change.runs);
  out["baseline"] = change.a;
  out["candidate"] = change.b;
  out["first_effect"] = value_of(change.runs.first, share);
  out["second_effect"] = value_of(change.runs.second, share);
  return out;
}

json cell_json(const UnpairedCell& cell) {
  json out{{"cell", cell.cell},
           {"unit", cell.unit},
           {"causes", json::array()},
           {"times", json::array()},
           {"effects", json::array()},
           {"not_comparable", cell.not_comparable}};
  for (const Cause& cause : cell.causes)
    out["causes"].push_back(
        {{"what", cause.what}, {"first", cause.first}, {"second", cause.second}});
  for (const TimeChange& change : cell.times) out["times"].push_back(time_json(change));
  for (const EffectChange& change : cell.effects) out["effects"].push_back(effect_json(change));
  return out;
}

} // namespace

json to_json(const UnpairedReport& report, const std::string& cell) {
  json cells = json::array();
  for (const UnpairedCell& one : report.cells)
    if (cell.empty() || one.cell == cell) cells.push_back(cell_json(one));
  return {{"unpaired", true},
          {"alpha", report.alpha},
          {"comparisons", report.comparisons},
          {"judged_alpha", report.judged_alpha},
          {"first", run_json(report.first)},
          {"second", run_json(report.second)},
          {"cells", cells}};
}

} // namespace assay
