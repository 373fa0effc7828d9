#include "core/ledger/stored_config.h"

#include <nlohmann/json.hpp>

namespace assay {

nlohmann::json stored_config(const std::string& config_json) {
  nlohmann::json config = nlohmann::json::parse(config_json, nullptr, false);
  return config.is_object() ? config : nlohmann::json::object();
}

} // namespace assay
