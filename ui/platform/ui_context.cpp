#include "ui/platform/ui_context.h"

#include "core/result.h"
#include "imgui.h"
#include "implot.h"
#include "ui/style/fonts.h"

namespace assay {

void imgui_assertion_failed(const char* expression, const char* file, int line) {
  internal_error("the user interface library refused '{}' at {}:{}; please report this",
                 expression,
                 file,
                 line);
}

UiContext::UiContext() {
  IMGUI_CHECKVERSION();
  ImGui::CreateContext();
  ImPlot::CreateContext();
  ImGuiIO& io = ImGui::GetIO();
  io.IniFilename = nullptr; // nothing is written beside a results directory
  io.LogFilename = nullptr;
  add_fonts();
}

UiContext::~UiContext() {
  ImPlot::DestroyContext();
  ImGui::DestroyContext();
}

} // namespace assay
