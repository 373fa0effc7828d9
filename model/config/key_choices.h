// The values of training keys that take one word of a few.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace assay {

// In the order of the enumeration, the slow reference first; empty for other and for unknown keys.
const std::vector<std::string>& key_choices(std::string_view key);

} // namespace assay
