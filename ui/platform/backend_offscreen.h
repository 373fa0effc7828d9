// OffscreenBackend: draws without a display, a window system or a GPU: EGL surfaceless, OpenGL 3.3,
// a framebuffer object.
#pragma once

#include <functional>
#include <memory>

#include "core/result.h"
#include "ui/platform/surface.h"

namespace assay {

class OffscreenBackend : public Surface {
public:
  // Needs a UiContext. The error names the step of EGL that failed and what provides it.
  static Result<std::unique_ptr<OffscreenBackend>> create(int width, int height);
  ~OffscreenBackend() override;

  void move_mouse(float x, float y) override;
  void frame(const std::function<void()>& draw, Image* picture = nullptr) override;
  void finish(); // waits until everything is drawn; for measurements

  // Runs `draw` between ImGui's NewFrame and Render, `frames` times, and returns the last picture.
  // Layout settles in the second frame, so that three are enough.
  Image render(const std::function<void()>& draw, int frames = 3);

private:
  struct Gl;
  OffscreenBackend() = default;
  std::unique_ptr<Gl> gl_;
  int width_ = 0, height_ = 0;
};

} // namespace assay
