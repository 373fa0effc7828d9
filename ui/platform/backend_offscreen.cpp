#include "ui/platform/backend_offscreen.h"

#define GL_GLEXT_PROTOTYPES // framebuffer functions are not in ImGui's own loader
#include <EGL/egl.h>
#include <EGL/eglext.h>
#include <GL/gl.h>
#include <GL/glext.h>

#include <algorithm>

#include "imgui.h"
#include "imgui_impl_opengl3.h"

namespace assay {

struct OffscreenBackend::Gl {
  EGLDisplay display = EGL_NO_DISPLAY;
  EGLContext context = EGL_NO_CONTEXT;
  GLuint framebuffer = 0, color = 0;
  bool imgui = false;

  ~Gl() {
    if (imgui) ImGui_ImplOpenGL3_Shutdown();
    if (framebuffer != 0) glDeleteFramebuffers(1, &framebuffer);
    if (color != 0) glDeleteRenderbuffers(1, &color);
    if (context != EGL_NO_CONTEXT) {
      eglMakeCurrent(display, EGL_NO_SURFACE, EGL_NO_SURFACE, EGL_NO_CONTEXT);
      eglDestroyContext(display, context);
    }
    if (display != EGL_NO_DISPLAY) eglTerminate(display);
  }
  // The failed step in words, or nullptr.
  const char* open_context();
  const char* open_framebuffer(int width, int height);
};

const char* OffscreenBackend::Gl::open_context() {
  display = eglGetPlatformDisplay(EGL_PLATFORM_SURFACELESS_MESA, nullptr, nullptr);
  if (display == EGL_NO_DISPLAY) return "EGL has no surfaceless platform";
  if (eglInitialize(display, nullptr, nullptr) == EGL_FALSE) return "EGL does not start";
  if (eglBindAPI(EGL_OPENGL_API) == EGL_FALSE) return "EGL has no OpenGL";
  const EGLint wanted[] = {EGL_SURFACE_TYPE,
                           EGL_PBUFFER_BIT, // the default, a window, matches nothing here
                           EGL_RENDERABLE_TYPE,
                           EGL_OPENGL_BIT,
                           EGL_NONE};
  EGLConfig config = nullptr;
  EGLint count = 0;
  if (eglChooseConfig(display, wanted, &config, 1, &count) == EGL_FALSE || count == 0)
    return "EGL has no OpenGL configuration";
  const EGLint version[] = {EGL_CONTEXT_MAJOR_VERSION,
                            3,
                            EGL_CONTEXT_MINOR_VERSION,
                            3,
                            EGL_CONTEXT_OPENGL_PROFILE_MASK,
                            EGL_CONTEXT_OPENGL_CORE_PROFILE_BIT,
                            EGL_NONE};
  context = eglCreateContext(display, config, EGL_NO_CONTEXT, version);
  if (context == EGL_NO_CONTEXT) return "EGL gives no OpenGL 3.3 context";
  if (eglMakeCurrent(display, EGL_NO_SURFACE, EGL_NO_SURFACE, context) == EGL_FALSE)
    return "EGL cannot use a context without a surface";
  return nullptr;
}

const char* OffscreenBackend::Gl::open_framebuffer(int width, int height) {
  glGenRenderbuffers(1, &color);
  glBindRenderbuffer(GL_RENDERBUFFER, color);
  glRenderbufferStorage(GL_RENDERBUFFER, GL_RGBA8, width, height);
  glGenFramebuffers(1, &framebuffer);
  glBindFramebuffer(GL_FRAMEBUFFER, framebuffer);
  glFramebufferRenderbuffer(GL_FRAMEBUFFER, GL_COLOR_ATTACHMENT0, GL_RENDERBUFFER, color);
  if (glCheckFramebufferStatus(GL_FRAMEBUFFER) != GL_FRAMEBUFFER_COMPLETE)
    return "OpenGL refuses a framebuffer of this size";
  imgui = ImGui_ImplOpenGL3_Init("#version 330 core");
  return imgui ? nullptr : "OpenGL cannot be loaded";
}

Result<std::unique_ptr<OffscreenBackend>> OffscreenBackend::create(int width, int height) {
  std::unique_ptr<OffscreenBackend> backend(new OffscreenBackend);
  backend->gl_ = std::make_unique<Gl>();
  backend->width_ = width;
  backend->height_ = height;
  const char* problem = backend->gl_->open_context();
  if (problem == nullptr) problem = backend->gl_->open_framebuffer(width, height);
  if (problem != nullptr)
    return fail("cannot draw a picture of {}x{}: {} (EGL error 0x{:x}); Debian's libegl1 and "
                "libgl1-mesa-dri provide what is needed",
                width,
                height,
                problem,
                eglGetError());
  return backend;
}

OffscreenBackend::~OffscreenBackend() = default;

void OffscreenBackend::move_mouse(float x, float y) {
  ImGui::GetIO().AddMousePosEvent(x, y);
}

void OffscreenBackend::frame(const std::function<void()>& draw, Image* picture) {
  ImGuiIO& io = ImGui::GetIO();
  io.DisplaySize = ImVec2(static_cast<float>(width_), static_cast<float>(height_));
  io.DeltaTime = 1.0F / 60; // fixed, so that equal input gives equal pictures
  ImGui_ImplOpenGL3_NewFrame();
  ImGui::NewFrame();
  draw();
  ImGui::Render();
  const ImVec4 background = ImGui::GetStyle().Colors[ImGuiCol_WindowBg];
  glViewport(0, 0, width_, height_);
  glClearColor(background.x, background.y, background.z, 1);
  glClear(GL_COLOR_BUFFER_BIT);
  ImGui_ImplOpenGL3_RenderDrawData(ImGui::GetDrawData());
  if (picture == nullptr) return;
  *picture = {
      width_, height_, std::vector<std::uint8_t>(static_cast<std::size_t>(3 * width_ * height_))};
  glPixelStorei(GL_PACK_ALIGNMENT, 1);
  glReadPixels(0, 0, width_, height_, GL_RGB, GL_UNSIGNED_BYTE, picture->rgb.data());
  flip(*picture);
}

void OffscreenBackend::finish() {
  glFinish();
}

Image OffscreenBackend::render(const std::function<void()>& draw, int frames) {
  Image image;
  for (int i = 0; i < frames; ++i) frame(draw, i + 1 == frames ? &image : nullptr);
  return image;
}

} // namespace assay
