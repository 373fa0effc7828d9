// Values as TOML has them.
#pragma once

#include <string>
#include <string_view>

namespace assay {

// A basic string in double quotes, on one line, that TOML reads back as `text`, which is UTF-8.
std::string toml_string(std::string_view text);

// A number that TOML reads back as a float: "3.0", "1e+300", "nan".
std::string toml_float(double value);

} // namespace assay
