// GlfwBackend: a window on the user's display. Frames are drawn after input only, so that an idle
// window costs nothing.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/result.h"

struct GLFWwindow;

namespace assay {

class GlfwBackend {
public:
  // Needs a UiContext. Fails without a display, with GLFW's reason.
  static Result<std::unique_ptr<GlfwBackend>>
  create(const std::string& title, int width, int height);
  ~GlfwBackend();

  float display_scale() const; // of the monitor, 1 = 96 dots per inch

  // Calls `draw` for every frame until it returns false or the window is closed.
  void run(const std::function<bool()>& draw);

private:
  GlfwBackend() = default;
  GLFWwindow* window_ = nullptr;
  bool started_ = false, imgui_ = false;
};

} // namespace assay
