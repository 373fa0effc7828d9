#include "ui/window/script.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <sstream>

#include "core/text.h"
#include "imgui.h"
#include "ui/model/loader.h"
#include "ui/platform/surface.h"
#include "ui/screens/screens.h"
#include "ui/window/commands.h"
#include "ui/window/main_window.h"

namespace assay {
namespace {

constexpr int kSettleFrames = 3; // layout and hover states

// ImGuiKey of "A", "Enter", "]" …; ImGuiKey_None for an unknown name.
ImGuiKey key_named(const std::string& name) {
  static const std::map<std::string, ImGuiKey> signs{{"]", ImGuiKey_RightBracket},
                                                     {"[", ImGuiKey_LeftBracket},
                                                     {",", ImGuiKey_Comma},
                                                     {".", ImGuiKey_Period},
                                                     {"/", ImGuiKey_Slash},
                                                     {"=", ImGuiKey_Equal},
                                                     {"-", ImGuiKey_Minus},
                                                     {"Esc", ImGuiKey_Escape},
                                                     {"Down", ImGuiKey_DownArrow},
                                                     {"Up", ImGuiKey_UpArrow},
                                                     {"Left", ImGuiKey_LeftArrow},
                                                     {"Right", ImGuiKey_RightArrow}};
  if (const auto sign = signs.find(name); sign != signs.end()) return sign->second;
  for (int key = ImGuiKey_NamedKey_BEGIN; key < ImGuiKey_NamedKey_END; ++key)
    if (name == ImGui::GetKeyName(static_cast<ImGuiKey>(key))) return static_cast<ImGuiKey>(key);
  return ImGuiKey_None;
}

class Player {
public:
  Player(Workspace& workspace, Surface& surface) : workspace_(workspace), surface_(surface) {}

  std::string play(const std::string& line); // the failure in words, or ""
  int actions() const { return actions_; }
  void settle(int frames = kSettleFrames);

private:
  void frame() {
    surface_.frame([&] { draw_main_window(workspace_); });
  }
  std::string press(const std::string& chord);
  std::string point(std::istringstream& words, float& x, float& y);
  std::string click(std::istringstream& words, int times);
  std::string drag(std::istringstream& words);
  std::string shot(const std::string& path);
  std::string expect(const std::string& wanted);

  Workspace& workspace_;
  Surface& surface_;
  int actions_ = 0;
};

void Player::settle(int frames) {
  for (int i = 0; i < frames; ++i) {
    serve_requests(workspace_);
    frame();
  }
  serve_requests(workspace_);
}

std::string Player::press(const std::string& chord) {
  ImGuiIO& io = ImGui::GetIO();
  std::vector<ImGuiKey> keys;
  std::string rest = chord;
  const std::pair<const char*, ImGuiKey> modifiers[] = {
      {"Ctrl+", ImGuiMod_Ctrl}, {"Shift+", ImGuiMod_Shift}, {"Alt+", ImGuiMod_Alt}};
  for (bool again = true; again;) {
    again = false;
    for (const auto& [word, modifier] : modifiers)
      if (rest.starts_with(word)) {
        keys.push_back(modifier);
        rest = rest.substr(std::string_view(word).size());
        again = true;
      }
  }
  if (rest == "?") {
    keys.push_back(ImGuiMod_Shift);
    rest = "/";
  }
  const ImGuiKey key = key_named(rest);
  if (key == ImGuiKey_None) return fmt::format("no key is called '{}'", rest);
  keys.push_back(key);
  for (const ImGuiKey down : keys) io.AddKeyEvent(down, true);
  settle(1);
  for (auto up = keys.rbegin(); up != keys.rend(); ++up) io.AddKeyEvent(*up, false);
  settle();
  return "";
}

// "400 300", or the name of something on the screen.
std::string Player::point(std::istringstream& words, float& x, float& y) {
  std::string first;
  std::getline(words >> std::ws, first);
  std::istringstream numbers(first);
  if (numbers >> x >> y) return "";
  std::vector<std::string> names;
  for (const Target& target : workspace_.targets) {
    names.push_back(target.id);
    if (target.id != first) continue;
    x = target.x;
    y = target.y;
    return "";
  }
  return fmt::format("nothing on the screen is called '{}'{}", first, did_you_mean(first, names));
}

std::string Player::click(std::istringstream& words, int times) {
  float x = 0, y = 0;
  if (std::string error = point(words, x, y); !error.empty()) return error;
  ImGuiIO& io = ImGui::GetIO();
  surface_.move_mouse(x, y);
  settle(2);
  for (int i = 0; i < times; ++i) {
    io.AddMouseButtonEvent(ImGuiMouseButton_Left, true);
    settle(1);
    io.AddMouseButtonEvent(ImGuiMouseButton_Left, false);
    settle(1);
  }
  settle();
  return "";
}

std::string Player::drag(std::istringstream& words) {
  float x0 = 0, y0 = 0, x1 = 0, y1 = 0;
  if (!(words >> x0 >> y0 >> x1 >> y1)) return "drag needs four numbers";
  ImGuiIO& io = ImGui::GetIO();
  surface_.move_mouse(x0, y0);
  settle(1);
  io.AddMouseButtonEvent(ImGuiMouseButton_Left, true);
  settle(1);
  for (const float share : {0.3F, 0.6F, 1.0F}) {
    surface_.move_mouse(x0 + share * (x1 - x0), y0 + share * (y1 - y0));
    settle(1);
  }
  io.AddMouseButtonEvent(ImGuiMouseButton_Left, false);
  settle();
  return "";
}

std::string Player::shot(const std::string& path) {
  settle();
  Image picture;
  surface_.frame([&] { draw_main_window(workspace_); }, &picture);
  const Result<std::size_t> written = write_png(picture, path);
  return written ? "" : written.error().message;
}

std::string Player::expect(const std::string& wanted) {
  const std::size_t sign = wanted.find_first_of("=~");
  if (sign == std::string::npos) return "expect needs KEY=VALUE or KEY~PART";
  const std::string key = wanted.substr(0, sign), value = wanted.substr(sign + 1);
  std::string pointer = "/" + key;
  std::replace(pointer.begin(), pointer.end(), '.', '/');
  const nlohmann::ordered_json model = window_model(workspace_);
  const nlohmann::ordered_json::json_pointer at(pointer);
  if (!model.contains(at)) return fmt::format("the model has no {}", key);
  const nlohmann::ordered_json& found = model[at];
  const std::string text = found.is_string() ? found.get<std::string>() : found.dump();
  const bool holds = wanted[sign] == '=' ? text == value : text.find(value) != std::string::npos;
  return holds ? "" : fmt::format("expected {}, but {} is '{}'", wanted, key, text);
}

std::string Player::play(const std::string& line) {
  std::istringstream words(line);
  std::string verb, rest;
  words >> verb;
  std::istringstream arguments;
  std::getline(words >> std::ws, rest);
  arguments.str(rest);
  if (verb == "expect") return expect(rest);
  if (verb == "shot") return shot(rest);
  ++actions_;
  if (verb == "key") return press(rest);
  if (verb == "click") return click(arguments, 1);
  if (verb == "doubleclick") return click(arguments, 2);
  if (verb == "drag") return drag(arguments);
  if (verb == "move") {
    float x = 0, y = 0;
    if (std::string error = point(arguments, x, y); !error.empty()) return error;
    surface_.move_mouse(x, y);
  } else if (verb == "type") {
    ImGui::GetIO().AddInputCharactersUTF8(rest.c_str());
  } else if (verb == "wheel") {
    float turns = 0;
    if (!(arguments >> turns)) return "wheel needs a number";
    ImGui::GetIO().AddMouseWheelEvent(0, turns);
  } else if (verb == "run") {
    const Command* command = find_command(rest);
    if (command == nullptr) return fmt::format("no command is called '{}'", rest);
    if (!command->possible(workspace_)) return fmt::format("{} is not possible here", rest);
    command->run(workspace_);
  } else {
    return fmt::format("unknown action '{}'{}",
                       verb,
                       did_you_mean(verb,
                                    {"key",
                                     "click",
                                     "doubleclick",
                                     "drag",
                                     "move",
                                     "type",
                                     "wheel",
                                     "run",
                                     "shot",
                                     "expect"}));
  }
  settle();
  return "";
}

} // namespace

Result<int> run_script(Workspace& workspace,
                       Surface& surface,
                       const std::string& script,
                       const std::string& name) {
  Player player(workspace, surface);
  player.settle();
  std::istringstream lines(script);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (line.empty() || line[0] == '#') continue;
    const std::string error = player.play(line);
    if (!error.empty())
      return fail("{}:{}: {}: {}", printable(name), number, printable(line), error);
  }
  return player.actions();
}

void run_random_commands(Workspace& workspace, Surface& surface, int count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  ImGuiIO& io = ImGui::GetIO();
  for (int i = 0; i < count; ++i) {
    serve_requests(workspace);
    const Command& command = commands()[random() % commands().size()];
    const bool harmless = command.id != "quit" && command.id != "screenshot";
    if (harmless && command.possible(workspace)) command.run(workspace);
    if (random() % 3 == 0) { // and a hand that moves the mouse meanwhile
      surface.move_mouse(static_cast<float>(random() % 1000) / 1000 * io.DisplaySize.x,
                         static_cast<float>(random() % 1000) / 1000 * io.DisplaySize.y);
      const bool down = random() % 2 == 0;
      io.AddMouseButtonEvent(static_cast<int>(random() % 3), down);
      if (random() % 4 == 0) io.AddMouseWheelEvent(0, random() % 2 == 0 ? 1.0F : -1.0F);
    }
    if (random() % 16 == 0) workspace.kernels.filter = random() % 2 == 0 ? "gemm" : "";
    surface.frame([&] { draw_main_window(workspace); });
  }
}

} // namespace assay
