// Surface: something that frames are drawn on: a window, or memory.
#pragma once

#include <functional>

#include "ui/platform/capture.h"

namespace assay {

class Surface {
public:
  virtual ~Surface() = default;
  // Puts the pointer there, as if a hand had moved it.
  virtual void move_mouse(float x, float y) = 0;
  // Runs `draw` between ImGui's NewFrame and Render, and shows the result; `picture` gets its
  // pixels when it is not null.
  virtual void frame(const std::function<void()>& draw, Image* picture = nullptr) = 0;
};

} // namespace assay
