#include "core/protocol/visit_json.h"

#include <optional>
#include <utility>

#include "core/ledger/covariates.h"
#include "core/result.h"

namespace assay {

using nlohmann::json;

namespace {

// Every field of a visit on the wire. An optional one may be absent.
template <class Visit, class Field> void for_each_field(Visit&& visit, const Field& field) {
  field("position", visit.position);
  field("steps", visit.steps);
  field("wall_ns", visit.wall_ns);
  field("device_ns", visit.device_ns);
  field("tokens", visit.tokens);
  field("loss", visit.loss);
  field("skipped_steps", visit.skipped_steps);
  field("sample_ns", visit.sample_ns);
}

struct Writer {
  json& out;
  template <class T> void operator()(const char* key, const T& value) const { out[key] = value; }
  template <class T> void operator()(const char* key, const std::optional<T>& value) const {
    if (value) out[key] = *value;
  }
};

struct Reader {
  const json& in;
  template <class T> void operator()(const char* key, T& value) const { in.at(key).get_to(value); }
  template <class T> void operator()(const char* key, std::optional<T>& value) const {
    const auto found = in.find(key); // NaN travels as null
    if (found != in.end() && !found->is_null()) value = found->get<T>();
  }
};

} // namespace

json visit_to_json(std::size_t variant, const VisitRow& visit) {
  json out = {{"variant", variant}};
  for_each_field(visit, Writer{out});
  json& covariates = out["covariates"] = json::object();
  for_each_covariate(visit.covariates, Writer{covariates});
  return out;
}

VisitRow visit_from_json(const json& visit) {
  VisitRow row;
  for_each_field(row, Reader{visit});
  if (const auto found = visit.find("covariates"); found != visit.end())
    for_each_covariate(row.covariates, Reader{*found});
  if (row.steps < 1 || row.wall_ns <= 0)
    bad_input("the worker reports a visit of {} units in {} ns", row.steps, row.wall_ns);
  return row;
}

json metric_json(
    json variant, std::string path, std::string unit, double value, std::string detail) {
  return {{"variant", std::move(variant)},
          {"path", std::move(path)},
          {"unit", std::move(unit)},
          {"value", value},
          {"detail", std::move(detail)}};
}

} // namespace assay
