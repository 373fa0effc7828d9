// What tests of the viewer share: a directory of their own, a surface without a display, a
// workspace that shows finished results.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>

#include "experiments/demo/synthetic_ledger.h"
#include "tests/ui/small_trace.h"
#include "ui/model/loader.h"
#include "ui/model/workspace.h"
#include "ui/platform/backend_offscreen.h"
#include "ui/platform/ui_context.h"
#include "ui/style/theme.h"
#include "ui/window/main_window.h"

namespace assay::test {

class Directory {
public:
  Directory() {
    static int count = 0;
    path_ =
        std::filesystem::temp_directory_path() / fmt::format("assay_ui_{}_{}", ::getpid(), count++);
    std::filesystem::create_directories(path_);
  }
  ~Directory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::string string() const { return path_.string(); }

private:
  std::filesystem::path path_;
};

// One context and one backend a test: state does not leak between pictures.
struct Canvas {
  explicit Canvas(int width = 800, int height = 600) {
    auto created = OffscreenBackend::create(width, height);
    if (!created) throw std::runtime_error(created.error().message);
    backend = std::move(*created);
  }
  Image draw(Workspace& workspace, int frames = 3) const {
    return backend->render([&] { draw_main_window(workspace); }, frames);
  }
  UiContext context;
  std::unique_ptr<OffscreenBackend> backend;
};

inline std::size_t colors_in(const Image& image) {
  std::set<int> seen;
  for (std::size_t i = 0; i < image.rgb.size(); i += 3)
    seen.insert(image.rgb[i] << 16 | image.rgb[i + 1] << 8 | image.rgb[i + 2]);
  return seen.size();
}

inline std::size_t count_of(const Image& image, Color color) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < image.rgb.size(); i += 3)
    if (Color{image.rgb[i], image.rgb[i + 1], image.rgb[i + 2]} == color) ++count;
  return count;
}

// Everything is read on the calling thread.
inline Workspace opened(const std::string& path, ScreenId screen = ScreenId::Runs) {
  Workspace workspace;
  open_path(workspace, path);
  if (!workspace.single_trace) workspace.screen = screen;
  serve_requests(workspace);
  return workspace;
}

// One results directory for a whole test program: it takes a while to write.
inline const std::string& sample_directory() {
  static const Directory directory;
  static const bool written = (store_with_traces(directory.string()), true);
  static const std::string path = written ? directory.string() : "";
  return path;
}

// What the viewer reads from a directory with these rows and without traces.
inline std::shared_ptr<const Results> results_of(const LedgerData& data) {
  const Directory directory;
  synthetic::store(data, directory.string());
  return std::make_shared<const Results>(value_or_throw(read_results(directory.string(), false)));
}

// The screen "Compare" of these results.
inline Workspace comparing(const LedgerData& data) {
  Workspace workspace;
  workspace.path = "sample";
  workspace.screen = ScreenId::Compare;
  workspace.results = results_of(data);
  return workspace;
}

} // namespace assay::test
