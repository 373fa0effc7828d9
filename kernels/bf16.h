// bfloat16 as raw bits: the upper half of an fp32. For headers that plain C++ reads too.
#pragma once

#include <cstdint>

namespace assay {

using bf16 = std::uint16_t;

} // namespace assay
