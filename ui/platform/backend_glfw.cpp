#include "ui/platform/backend_glfw.h"

#include <GLFW/glfw3.h>

#include <algorithm>

#include "imgui.h"
#include "imgui_impl_glfw.h"
#include "imgui_impl_opengl3.h"
#include "imgui_internal.h" // the queue of input events

namespace assay {
namespace {

// ImGui's layout and hover states settle within this many frames after the last event.
constexpr int kFramesAfterEvent = 3;

std::string last_glfw_error() {
  const char* text = nullptr;
  const int code = glfwGetError(&text);
  return fmt::format("{} (GLFW error 0x{:x})", text == nullptr ? "unknown cause" : text, code);
}

} // namespace

Result<std::unique_ptr<GlfwBackend>>
GlfwBackend::create(const std::string& title, int width, int height) {
  std::unique_ptr<GlfwBackend> backend(new GlfwBackend);
  backend->started_ = glfwInit() == GLFW_TRUE;
  if (!backend->started_) return fail("no display: {}", last_glfw_error());
  glfwWindowHint(GLFW_CONTEXT_VERSION_MAJOR, 3);
  glfwWindowHint(GLFW_CONTEXT_VERSION_MINOR, 3);
  glfwWindowHint(GLFW_OPENGL_PROFILE, GLFW_OPENGL_CORE_PROFILE);
  backend->window_ = glfwCreateWindow(width, height, title.c_str(), nullptr, nullptr);
  if (backend->window_ == nullptr) return fail("no window with OpenGL 3.3: {}", last_glfw_error());
  glfwMakeContextCurrent(backend->window_);
  glfwSwapInterval(1);
  backend->imgui_ = ImGui_ImplGlfw_InitForOpenGL(backend->window_, true) &&
                    ImGui_ImplOpenGL3_Init("#version 330 core");
  if (!backend->imgui_) return fail("no window: OpenGL cannot be loaded");
  return backend;
}

GlfwBackend::~GlfwBackend() {
  if (imgui_) {
    ImGui_ImplOpenGL3_Shutdown();
    ImGui_ImplGlfw_Shutdown();
  }
  if (window_ != nullptr) glfwDestroyWindow(window_);
  if (started_) glfwTerminate();
}

float GlfwBackend::display_scale() const {
  float x = 1, y = 1;
  glfwGetWindowContentScale(window_, &x, &y);
  return std::max(x, y);
}

// ImGui's backend reads the real pointer in every frame, so that it is the one to move.
void GlfwBackend::move_mouse(float x, float y) {
  glfwSetCursorPos(window_, static_cast<double>(x), static_cast<double>(y));
  glfwPollEvents();
  ImGui::GetIO().AddMousePosEvent(x, y);
}

void GlfwBackend::frame(const std::function<void()>& draw, Image* picture) {
  ImGui_ImplOpenGL3_NewFrame();
  ImGui_ImplGlfw_NewFrame();
  ImGui::NewFrame();
  draw();
  ImGui::Render();
  int width = 0, height = 0;
  glfwGetFramebufferSize(window_, &width, &height);
  const ImVec4 background = ImGui::GetStyle().Colors[ImGuiCol_WindowBg];
  glViewport(0, 0, width, height);
  glClearColor(background.x, background.y, background.z, 1);
  glClear(GL_COLOR_BUFFER_BIT);
  ImGui_ImplOpenGL3_RenderDrawData(ImGui::GetDrawData());
  if (picture != nullptr) {
    *picture = {
        width, height, std::vector<std::uint8_t>(static_cast<std::size_t>(3 * width * height))};
    glPixelStorei(GL_PACK_ALIGNMENT, 1);
    glReadPixels(0, 0, width, height, GL_RGB, GL_UNSIGNED_BYTE, picture->rgb.data());
    flip(*picture);
  }
  glfwSwapBuffers(window_);
}

void GlfwBackend::run(const std::function<bool()>& next) {
  int frames_left = kFramesAfterEvent;
  bool open = true;
  while (open && glfwWindowShouldClose(window_) == GLFW_FALSE) {
    if (frames_left > 0) {
      glfwPollEvents();
    } else {
      glfwWaitEvents();
      frames_left = kFramesAfterEvent;
    }
    // ImGui spreads quick events over several frames; each needs its own.
    const bool input_waits = !ImGui::GetCurrentContext()->InputEventsQueue.empty();
    frames_left = input_waits ? kFramesAfterEvent : frames_left - 1;
    open = next();
  }
}

void GlfwBackend::wake() {
  glfwPostEmptyEvent();
}

void GlfwBackend::on_drop(std::function<void(const std::string&)> dropped) {
  dropped_ = std::move(dropped);
  glfwSetWindowUserPointer(window_, this);
  glfwSetDropCallback(window_, drop);
}

void GlfwBackend::drop(GLFWwindow* window, int count, const char** paths) {
  const auto* const self = static_cast<GlfwBackend*>(glfwGetWindowUserPointer(window));
  for (int i = 0; i < count; ++i) self->dropped_(paths[i]);
}

} // namespace assay
