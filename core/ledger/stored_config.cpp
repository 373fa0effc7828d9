#include "core/ledger/stored_config.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

namespace assay {

nlohmann::json stored_config(const std::string& config_json) {
  nlohmann::json config = nlohmann::json::parse(config_json, nullptr, false);
  return config.is_object() ? config : nlohmann::json::object();
}

bool threads_vary(const LedgerData& data) {
  std::map<std::int64_t, nlohmann::json> of_cells;
  return std::ranges::any_of(data.variants, [&](const VariantRow& variant) {
    nlohmann::json threads = stored_config(variant.config_json).value("threads", nlohmann::json());
    const auto [of_cell, first] = of_cells.try_emplace(variant.cell, threads);
    return !first && of_cell->second != threads;
  });
}

} // namespace assay
