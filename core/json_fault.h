// What is wrong with JSON that was read, for a message.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace assay {

// "malformed JSON at byte 12", "key 'x' not found".
std::string json_fault(const nlohmann::json::exception& error);

} // namespace assay
