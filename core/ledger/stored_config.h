// The training configuration that a row of the ledger stores.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace assay {

// `config_json` of a cell or a variant. An empty object where a ledger of another maker has none.
nlohmann::json stored_config(const std::string& config_json);

} // namespace assay
