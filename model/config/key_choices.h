// The values of training keys that take one word of a few.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace assay {

// In the order of the enumeration, the slow reference first; empty for other and for unknown keys.
const std::vector<std::string>& key_choices(std::string_view key);

// The names of the presets of every family, each once, by name.
std::vector<std::string> preset_choices();
// Of a preset: "gpt2" -> gpt. Empty: no family has it.
std::vector<std::string> families_with_preset(std::string_view preset);

} // namespace assay
