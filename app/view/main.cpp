// assay-view: shows a results directory or a trace in a window, or draws it into a PNG where there
// is no display.
#include <CLI/CLI.hpp>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>

#include "app/command_line/complete.h"
#include "app/command_line/help.h"
#include "app/command_line/parse.h"
#include "app/command_line/program.h"
#include "app/value_checks.h"
#include "core/files/output_file.h"
#include "core/files/shell_text.h"
#include "core/result.h"
#include "core/text.h"
#include "ui/model/loader.h"
#include "ui/model/settings.h"
#include "ui/model/workspace.h"
#include "ui/platform/backend_glfw.h"
#include "ui/platform/backend_offscreen.h"
#include "ui/platform/capture.h"
#include "ui/platform/ui_context.h"
#include "ui/screens/screens.h"
#include "ui/window/main_window.h"
#include "ui/window/script.h"

namespace assay {
namespace {

constexpr int kMaxPixels = 8192; // an edge; every OpenGL 3.3 driver allows it

struct Options {
  std::string path, other, screen, screenshot, dump_model, script;
  std::string size = "1600x1000", theme;
  float scale = 0; // 0: the settings', or 1
  int width = 0, height = 0, fuzz = 0;
  std::uint64_t seed = 1;
  bool window = false;
  bool draws() const { return !screenshot.empty() || !script.empty() || fuzz > 0; }
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

void save_model(const Workspace& workspace, const std::string& path) {
  OutputFile file(path);
  file.write(dump_model(workspace));
  file.finish();
}

void check_paths(const Options& options) {
  std::error_code error;
  for (const std::string& path : {options.path, options.other})
    if (!path.empty() && !std::filesystem::exists(path, error))
      bad_input("{}: no such file or directory; name a results directory or a trace",
                printable(path));
  if (options.other.empty()) return;
  for (const std::string& path : {options.path, options.other})
    if (std::filesystem::is_directory(path, error))
      bad_input("{}: is a directory; two paths are two trace files", printable(path));
}

std::string read_script(const std::string& path) {
  std::ifstream file(path);
  if (!file) bad_input("cannot read the script {}", printable(path));
  return {std::istreambuf_iterator<char>(file), {}};
}

void open(Workspace& workspace, const Options& options) {
  if (!options.theme.empty()) workspace.theme = *parse_theme(options.theme);
  if (options.scale > 0) set_scale(workspace, options.scale);
  workspace.initial_scale = workspace.scale;
  open_path(workspace, options.path, options.other);
  if (options.screen.empty()) return;
  workspace.screen =
      find_screen(options.screen).value_or(workspace.screen); // checked by the parser
}

std::unique_ptr<Surface> surface_of(const Options& options) {
  if (options.window) {
    auto window = GlfwBackend::create("Assay", options.width, options.height);
    if (!window) internal_error("{}", window.error().message);
    return std::move(*window);
  }
  auto memory = OffscreenBackend::create(options.width, options.height);
  if (!memory) internal_error("{}", memory.error().message);
  return std::move(*memory);
}

// Script, random commands, picture: everything is loaded before it is shown.
void draw_without_a_person(Workspace& workspace, const Options& options) {
  const UiContext context;
  const auto surface = surface_of(options);
  if (!options.script.empty()) {
    const int actions = value_or_throw(
        run_script(workspace, *surface, read_script(options.script), options.script));
    std::printf("%s: %d actions, every expectation met\n", options.script.c_str(), actions);
  }
  if (options.fuzz > 0) {
    run_random_commands(workspace, *surface, options.fuzz, options.seed);
    std::printf("%d random commands with seed %llu\n",
                options.fuzz,
                static_cast<unsigned long long>(options.seed));
  }
  if (options.screenshot.empty()) return;
  Image picture;
  for (int i = 0; i < 3; ++i) { // layout settles in the second frame
    serve_requests(workspace);
    surface->frame([&] { draw_main_window(workspace); }, &picture);
  }
  value_or_throw(write_png(picture, options.screenshot));
}

void write_wanted_picture(Workspace& workspace, Surface& window) {
  const std::string path = std::exchange(workspace.screenshot, "");
  if (path.empty()) return;
  Image picture;
  window.frame([&] { draw_main_window(workspace); }, &picture);
  const Result<std::size_t> written = write_png(picture, path);
  workspace.status = written ? "picture written: " + path : written.error().message;
}

void show_window(Workspace& workspace, const Options& options) {
  const UiContext context;
  const std::string title = options.path.empty() ? "Assay" : "Assay - " + printable(options.path);
  const auto window = GlfwBackend::create(title, options.width, options.height);
  const std::string shown = options.path.empty() ? "DIR" : shell_word(printable(options.path));
  if (!window)
    internal_error("{}\n  draw a picture instead: assay-view {} --screenshot view.png\n  or print "
                   "the verdicts:  assay report {}",
                   window.error().message,
                   shown,
                   shown);
  set_scale(workspace, workspace.scale * (*window)->display_scale());
  workspace.initial_scale = workspace.scale;
  (*window)->on_drop([&](const std::string& path) { open_path(workspace, path); });
  Loader loader(GlfwBackend::wake);
  (*window)->run([&] {
    loader.exchange(workspace);
    (*window)->frame([&] { draw_main_window(workspace); });
    write_wanted_picture(workspace, **window);
    return !workspace.quit;
  });
  set_scale(workspace, workspace.scale / (*window)->display_scale());
}

int view(Options options) {
  parse_size(options);
  check_paths(options);
  Workspace workspace;
  const bool alone = options.draws() || !options.dump_model.empty();
  const std::string settings = alone ? "" : settings_path();
  if (!settings.empty()) load_settings(workspace, settings);
  open(workspace, options);
  if (!alone) {
    show_window(workspace, options);
    if (settings.empty()) return kOk;
    const std::string problem = save_settings(workspace, settings);
    if (!problem.empty()) std::fprintf(stderr, "warning: %s\n", problem.c_str());
    return kOk;
  }
  serve_requests(workspace);
  if (options.draws()) draw_without_a_person(workspace, options);
  if (!options.dump_model.empty()) save_model(workspace, options.dump_model);
  std::string problem = workspace.open_error;
  if (workspace.single_trace)
    for (const TraceSlot& slot : workspace.traces)
      if (problem.empty()) problem = slot.why_none;
  if (problem.empty()) return kOk;
  std::fprintf(stderr, "error: %s\n", printable(problem).c_str());
  return kBadInput;
}

void add_options(CLI::App& app, Options& options) {
  app.add_option(
         "path",
         options.path,
         "results directory of `assay run`, or a trace: of Assay, JSON of torch.profiler or "
         "Chrome (also .gz), SQLite of Nsight Systems")
      ->type_name("DIR");
  app.add_option("other", options.other, "a second trace, shown beside the first as the candidate")
      ->type_name("TRACE");
  std::vector<std::string> names;
  for (const Screen& screen : screens()) names.emplace_back(screen.id);
  one_of(app.add_option("--screen", options.screen, "the screen to begin with"), names);
  app.add_option(
         "--screenshot", options.screenshot, "draw into this PNG file and exit; needs no display")
      ->type_name("FILE")
      ->check([](const std::string& file) {
        return file.ends_with(".png") ? "" : "give a name that ends in .png, not '" + file + "'";
      });
  app.add_option(
         "--dump-model", options.dump_model, "write the screen's data into this JSON file and exit")
      ->type_name("FILE");
  app.add_option(
         "--script", options.script, "play this file of keys, clicks and expectations, and exit")
      ->type_name("FILE");
  app.add_option("--fuzz", options.fuzz, "run this many random commands and exit")
      ->check(whole_number(0));
  app.add_option("--seed", options.seed, "seed of the random commands")->capture_default_str();
  app.add_flag("--window", options.window, "play, run or draw in a real window");
  app.add_option("--size", options.size, "size in pixels")
      ->type_name("WIDTHxHEIGHT")
      ->capture_default_str();
  one_of(app.add_option("--theme", options.theme, "colours"), {"dark", "light"});
  app.add_option("--scale", options.scale, "text size, 0.75 to 3")
      ->check(number_in(kMinScale, kMaxScale));
}

int run(int argc, char** argv) {
  CLI::App app{"show the verdicts, traces and telemetry of a results directory in a window",
               "assay view"};
  use_plain_help(app);
  app.set_version_flag(
      "-V,--version", program_version("assay-view", ASSAY_VERSION), "print version and build");
  app.footer("examples\n"
             "  assay view results/mine\n"
             "  assay view before.json.gz after.json.gz\n"
             "  assay view results/mine --screen compare --screenshot compare.png");
  Options options;
  add_options(app, options);
  if (answer_assay(app, argc, argv)) return kOk;
  return parse_command_line(app, argc, argv) ? view(options) : kOk;
}

} // namespace
} // namespace assay

int main(int argc, char** argv) {
  return assay::run_program([&] { return assay::run(argc, argv); });
}
