// assay-view: shows a results directory in a window, or draws it into a PNG where there is no
// display.
#include <CLI/CLI.hpp>

#include <cstdio>
#include <fstream>
#include <regex>

#include "core/result.h"
#include "core/text.h"
#include "ui/backend_glfw.h"
#include "ui/backend_offscreen.h"
#include "ui/capture.h"
#include "ui/main_window.h"
#include "ui/model_json.h"
#include "ui/ui_context.h"
#include "ui/workspace.h"

namespace assay {
namespace {

enum Exit { kOk = 0, kInternal = 1, kBadInput = 2 };

constexpr int kMaxPixels = 8192; // an edge; every OpenGL 3.3 driver allows it

struct Options {
  std::string directory, screenshot, dump_model;
  std::string size = "1600x1000", theme = "dark";
  float scale = 1;
  int width = 0, height = 0;
};

void parse_size(Options& options) {
  std::smatch match;
  if (!std::regex_match(options.size, match, std::regex("([0-9]{1,5})x([0-9]{1,5})")))
    bad_input("--size {}: expected WIDTHxHEIGHT, for example 1600x1000", printable(options.size));
  options.width = std::stoi(match[1]);
  options.height = std::stoi(match[2]);
  if (std::min(options.width, options.height) < 200 ||
      std::max(options.width, options.height) > kMaxPixels)
    bad_input("--size {}: each edge must be 200 to {} pixels", options.size, kMaxPixels);
}

void dump_model(const Workspace& workspace, const std::string& path) {
  std::ofstream file(path);
  file << to_json_text(workspace.model);
  file.close();
  if (!file) bad_input("cannot write {}", printable(path));
}

void save_screenshot(Workspace& workspace, const Options& options) {
  const UiContext context;
  const auto backend = OffscreenBackend::create(options.width, options.height);
  if (!backend) internal_error("{}", backend.error().message);
  const Image image = (*backend)->render([&] { draw_main_window(workspace); });
  value_or_throw(write_png(image, options.screenshot));
}

void show_window(Workspace& workspace, const Options& options) {
  const UiContext context;
  const std::string title = "Assay - " + printable(options.directory);
  const auto backend = GlfwBackend::create(title, options.width, options.height);
  if (!backend)
    internal_error("{}\n  draw a picture instead: assay-view {} --screenshot view.png\n  or print "
                   "the verdicts:  assay report {}",
                   backend.error().message,
                   printable(options.directory),
                   printable(options.directory));
  workspace.scale = workspace.initial_scale = options.scale * (*backend)->display_scale();
  set_scale(workspace, workspace.scale);
  (*backend)->run([&] {
    draw_main_window(workspace);
    return !workspace.quit;
  });
}

int view(Options options) {
  parse_size(options);
  Workspace workspace;
  workspace.directory = options.directory;
  workspace.theme = *parse_theme(options.theme);
  workspace.scale = workspace.initial_scale = options.scale;
  load(workspace);
  if (!options.dump_model.empty()) dump_model(workspace, options.dump_model);
  if (!options.screenshot.empty())
    save_screenshot(workspace, options);
  else if (options.dump_model.empty())
    show_window(workspace, options);
  if (!workspace.model.failed) return kOk;
  std::fprintf(stderr, "error: %s\n", workspace.model.notice->explanation.c_str());
  return kBadInput;
}

int run(int argc, char** argv) {
  CLI::App app{"Shows the verdicts of a results directory."};
  Options options;
  app.add_option("DIR", options.directory, "results directory of `assay run`")->required();
  app.add_option(
      "--screenshot", options.screenshot, "draw into this PNG file and end; needs no display");
  app.add_option(
      "--dump-model", options.dump_model, "write what the screen says into this JSON file and end");
  app.add_option("--size", options.size, "WIDTHxHEIGHT in pixels")->capture_default_str();
  app.add_option("--theme", options.theme)
      ->check(CLI::IsMember({"dark", "light"}))
      ->capture_default_str();
  app.add_option("--scale", options.scale, "text size")
      ->check(CLI::Range(kMinScale, kMaxScale))
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kOk : kBadInput;
  }
  return view(options);
}

} // namespace
} // namespace assay

int main(int argc, char** argv) {
  try {
    return assay::run(argc, argv);
  } catch (const assay::Failure& failure) {
    std::fprintf(stderr, "error: %s\n", failure.what());
    return failure.kind() == assay::Failure::Kind::BadInput ? assay::kBadInput : assay::kInternal;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return assay::kInternal;
  }
}
