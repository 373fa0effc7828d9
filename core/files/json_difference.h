// Which keys of two JSON objects differ, and how a message says so.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <string_view>

namespace assay {

// Keys whose values differ, or that one of the two alone has.
std::set<std::string> differing_keys(const nlohmann::json& a, const nlohmann::json& b);
// "seq_len: 64 in the first, nothing in the second": `in_a`, `in_b` are the words of the two sides.
std::string difference_text(const std::string& key,
                            const nlohmann::json& a,
                            std::string_view in_a,
                            const nlohmann::json& b,
                            std::string_view in_b);

} // namespace assay
