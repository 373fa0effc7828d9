#include "experiments/engine/data_fingerprint.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "core/ledger/launch_rules.h"
#include "core/ledger/stored_config.h"
#include "core/result.h"

namespace assay {

MetricRow data_fingerprint_row(std::int64_t launch, const std::string& fingerprint) {
  return {launch,
          0,
          kDataFingerprintMetric,
          "",
          std::numeric_limits<double>::quiet_NaN(), // the value is the text
          fingerprint};
}

std::string data_name(const CellRow& cell) {
  const nlohmann::json config = stored_config(cell.config_json);
  const std::string tokenizer = config.value("tokenizer", "bytes");
  return config.value("data", "") + (tokenizer == "bytes" ? "" : " with tokenizer " + tokenizer);
}

std::map<std::string, std::string> data_fingerprints(const LedgerData& data) {
  std::map<std::int64_t, const LaunchRow*> launches;
  for (const LaunchRow& launch : data.launches) launches[launch.id] = &launch;
  std::map<std::string, std::string> result;
  for (const MetricRow& metric : data.metrics)
    if (metric.path == kDataFingerprintMetric)
      result.emplace(data_name(data.cell(launches.at(metric.launch)->cell)), metric.detail);
  return result;
}

std::optional<std::string>
other_data(const LedgerData& data, const CellRow& cell, const std::string& fingerprint) {
  const auto known = data_fingerprints(data);
  const auto found = known.find(data_name(cell));
  if (found == known.end() || found->second == fingerprint) return std::nullopt;
  return fmt::format("the data '{}' is not what these results were measured with (now: {}; then: "
                     "{}). Launches over other data are never mixed: put the data back, {}",
                     found->first,
                     fingerprint,
                     found->second,
                     kStartAnew);
}

} // namespace assay
