// UiContext: the ImGui and ImPlot contexts of this process, with our fonts and without files of
// their own.
#pragma once

namespace assay {

class UiContext {
public:
  UiContext();
  ~UiContext();
  UiContext(const UiContext&) = delete;
  UiContext& operator=(const UiContext&) = delete;
};

} // namespace assay
