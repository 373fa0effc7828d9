// The build id that the linker gives this program: 40 hex digits, other ones for other code.
#pragma once

#include <string>

namespace assay {

std::string linker_build_id(); // "" for a program that was linked without one

} // namespace assay
