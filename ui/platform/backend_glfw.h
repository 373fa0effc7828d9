// GlfwBackend: a window on the user's display. Frames are drawn after input only, so that an idle
// window costs nothing.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/result.h"
#include "ui/platform/surface.h"

struct GLFWwindow;

namespace assay {

class GlfwBackend : public Surface {
public:
  // Needs a UiContext. Fails without a display, with GLFW's reason.
  static Result<std::unique_ptr<GlfwBackend>>
  create(const std::string& title, int width, int height);
  ~GlfwBackend() override;

  float display_scale() const; // of the monitor, 1 = 96 dots per inch

  void move_mouse(float x, float y) override;
  void frame(const std::function<void()>& draw, Image* picture = nullptr) override;

  // Waits for input, then calls `next` for as many frames as ImGui needs to settle; until it
  // returns false or the window is closed. `next` draws by frame().
  void run(const std::function<bool()>& next);
  static void wake(); // from any thread: something new is to be drawn
  // Called with each file or directory that is dropped on the window.
  void on_drop(std::function<void(const std::string&)> dropped);

private:
  GlfwBackend() = default;
  static void drop(GLFWwindow* window, int count, const char** paths);
  GLFWwindow* window_ = nullptr;
  std::function<void(const std::string&)> dropped_;
  bool started_ = false, imgui_ = false;
};

} // namespace assay
