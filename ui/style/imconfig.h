// Compile-time settings of Dear ImGui and ImPlot, in place of the imconfig.h beside their sources.
#pragma once

namespace assay {
// Throws Failure (internal) with the place; the library's own assert would end the process without
// a message to people.
[[noreturn]] void imgui_assertion_failed(const char* expression, const char* file, int line);
} // namespace assay

#define IM_ASSERT(expression)                                                                      \
  ((expression) ? static_cast<void>(0)                                                             \
                : ::assay::imgui_assertion_failed(#expression, __FILE__, __LINE__))

#define ImDrawIdx unsigned int // with 16 bits a large plot is cut off silently
#define IMGUI_DISABLE_DEMO_WINDOWS
#define IMGUI_DISABLE_DEFAULT_FONT // ours is embedded
