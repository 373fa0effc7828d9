#include "app/worker/ranks/merge_answers.h"

#include <algorithm>
#include <map>
#include <string>

#include "core/result.h"

namespace assay::worker {

namespace {

using nlohmann::json;

enum class Rule { Highest, Lowest, Sum };

json combine(const json& a, const json& b, Rule rule) {
  if (rule == Rule::Highest) return a < b ? b : a;
  if (rule == Rule::Lowest) return b < a ? b : a;
  if (a.is_number_float() || b.is_number_float()) return a.get<double>() + b.get<double>();
  return a.get<std::int64_t>() + b.get<std::int64_t>();
}

// Merges number `key` of the `rank`-th answer into `whole`: both have it or neither.
void merge_number(json& whole, const json& part, const char* key, Rule rule, std::size_t rank) {
  if (!whole.contains(key) && !part.contains(key)) return;
  if (!whole.contains(key) || !part.contains(key))
    internal_error("rank {} and rank 0 disagree on having '{}'", rank, key);
  json& value = whole[key];
  const json& other = part[key];
  if (!value.is_array()) {
    value = combine(value, other, rule);
    return;
  }
  if (value.size() != other.size())
    internal_error(
        "rank {} has {} values of '{}', rank 0 {}", rank, other.size(), key, value.size());
  for (std::size_t i = 0; i < value.size(); ++i) value[i] = combine(value[i], other[i], rule);
}

void require_same(const json& whole, const json& part, const char* key, std::size_t rank) {
  if (whole.value(key, json()) != part.value(key, json()))
    internal_error("rank {} answers {} '{}' where rank 0 answers '{}'",
                   rank,
                   key,
                   part.value(key, json()).dump(),
                   whole.value(key, json()).dump());
}

// Ranks on several machines may each have files of their own behind one path.
void require_same_data(const json& whole, const json& part, std::size_t rank) {
  if (whole.value("data", "") != part.value("data", ""))
    bad_input("rank {} reads other data than rank 0 (fingerprints {} and {}): every rank needs the "
              "same files under the same path",
              rank,
              part.value("data", "none"),
              whole.value("data", "none"));
}

void merge_visits(json& whole, const json& part, std::size_t rank) {
  if (whole.size() != part.size())
    internal_error("rank {} made {} visits, rank 0 {}", rank, part.size(), whole.size());
  for (std::size_t i = 0; i < whole.size(); ++i) {
    for (const char* key : {"variant", "position", "steps", "skipped_steps"})
      require_same(whole[i], part[i], key, rank);
    for (const char* key : {"wall_ns", "device_ns", "sample_ns"})
      merge_number(whole[i], part[i], key, Rule::Highest, rank);
    merge_number(whole[i], part[i], "tokens", Rule::Sum, rank);
  }
}

// The mean over the ranks that know their loss: of an evaluation that may be rank 0 alone.
void merge_losses(json& visits, const std::vector<json>& answers) {
  for (std::size_t i = 0; i < visits.size(); ++i) {
    double loss = 0;
    int known = 0;
    for (const json& answer : answers)
      if (const json& visit = answer.at("visits").at(i); visit.contains("loss"))
        loss += (visit.at("loss").get<double>() - loss) / ++known;
    if (known > 0) visits[i]["loss"] = loss;
  }
}

void merge_gates(json& whole, const json& part, std::size_t rank) {
  if (whole.size() != part.size())
    internal_error("rank {} ran {} gates, rank 0 {}", rank, part.size(), whole.size());
  for (std::size_t i = 0; i < whole.size(); ++i) {
    for (const char* key : {"variant", "name"}) require_same(whole[i], part[i], key, rank);
    const bool failed = !part[i].at("passed").get<bool>(), had = !whole[i].at("passed").get<bool>();
    if ((failed && !had) || (failed == had && whole[i].at("value") < part[i].at("value")))
      whole[i] = part[i];
  }
}

bool is_memory(const json& metric) {
  return metric.at("path").get_ref<const std::string&>().starts_with("memory/");
}

// By variant.
std::map<std::int64_t, double> memory_peaks(const json& metrics) {
  std::map<std::int64_t, double> peaks;
  for (const json& metric : metrics)
    if (metric.at("path") == "memory/peak_bytes")
      peaks.emplace(metric.at("variant").get<std::int64_t>(), metric.at("value").get<double>());
  return peaks;
}

// What a variant's bytes are is that of the rank with the highest peak: parts of several ranks
// would not add up to one peak.
void merge_memory(json& whole, const json& part) {
  const std::map<std::int64_t, double> had = memory_peaks(whole), theirs = memory_peaks(part);
  const auto is_theirs = [&](const json& metric) {
    const auto variant = metric.at("variant").get<std::int64_t>();
    const auto own = had.find(variant), other = theirs.find(variant);
    return other != theirs.end() && (own == had.end() || other->second > own->second);
  };
  json merged = json::array();
  for (const json& metric : whole)
    if (!is_memory(metric) || !is_theirs(metric)) merged.push_back(metric);
  for (const json& metric : part)
    if (is_memory(metric) && is_theirs(metric)) merged.push_back(metric);
  whole = std::move(merged);
}

void merge_metrics(json& whole, const json& part) {
  merge_memory(whole, part);
  for (const json& metric : part) {
    if (is_memory(metric)) continue;
    const auto same = std::find_if(whole.begin(), whole.end(), [&](const json& known) {
      return known.at("path") == metric.at("path") && known.at("variant") == metric.at("variant");
    });
    if (same == whole.end()) {
      whole.push_back(metric);
      continue;
    }
    const std::string unit = metric.at("unit");
    json& value = same->at("value");
    if (unit == "ns" || unit == "bytes") value = combine(value, metric.at("value"), Rule::Highest);
    if (unit == "records") value = combine(value, metric.at("value"), Rule::Sum);
    if (unit == "bool" && metric.at("value") < value) *same = metric;
  }
}

} // namespace

json merge_answers(const std::vector<json>& answers) {
  json whole = answers.at(0);
  for (std::size_t rank = 1; rank < answers.size(); ++rank) {
    const json& part = answers[rank];
    for (const char* key : {"event", "round", "build_order"}) require_same(whole, part, key, rank);
    require_same_data(whole, part, rank);
    for (const char* key : {"seconds", "unit_ns", "build_seconds", "replica_bytes", "step_bytes"})
      merge_number(whole, part, key, Rule::Highest, rank);
    merge_number(whole, part, "bytes", Rule::Sum, rank);
    if (whole.contains("visits")) merge_visits(whole["visits"], part.at("visits"), rank);
    if (whole.contains("gates")) merge_gates(whole["gates"], part.at("gates"), rank);
    if (whole.contains("metrics")) merge_metrics(whole["metrics"], part.at("metrics"));
  }
  if (whole.contains("visits")) merge_losses(whole["visits"], answers);
  return whole;
}

} // namespace assay::worker
