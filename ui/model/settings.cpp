#include "ui/model/settings.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/files/atomic_file.h"
#include "core/result.h"
#include "ui/model/workspace.h"

namespace assay {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

} // namespace

std::string settings_path() {
  for (const auto& [variable, below] :
       {std::pair{"XDG_CONFIG_HOME", "assay"}, std::pair{"HOME", ".config/assay"}}) {
    const char* const root = std::getenv(variable);
    if (root != nullptr && *root != '\0')
      return (fs::path(root) / below / "settings.json").string();
  }
  return "";
}

void load_settings(Workspace& workspace, const std::string& path) {
  std::ifstream file(path);
  if (!file) return; // the first start
  const json settings = json::parse(file, nullptr, false);
  if (!settings.is_object()) {
    workspace.status = path + " is not JSON; it is written anew at the end";
    return;
  }
  const auto theme = settings.find("theme");
  if (theme != settings.end() && theme->is_string())
    workspace.theme = parse_theme(theme->get<std::string>()).value_or(workspace.theme);
  const auto scale = settings.find("scale");
  if (scale != settings.end() && scale->is_number()) set_scale(workspace, scale->get<float>());
  const auto wheel = settings.find("wheel_zooms");
  if (wheel != settings.end() && wheel->is_boolean())
    workspace.timeline.wheel_zooms = wheel->get<bool>();
  const auto recent = settings.find("recent");
  if (recent != settings.end() && recent->is_array())
    for (const json& entry : *recent)
      if (entry.is_string()) workspace.recent.push_back(entry.get<std::string>());
}

std::string save_settings(const Workspace& workspace, const std::string& path) {
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  const json settings{{"theme", workspace.theme == ThemeKind::Dark ? "dark" : "light"},
                      {"scale", workspace.scale},
                      {"wheel_zooms", workspace.timeline.wheel_zooms},
                      {"recent", workspace.recent}};
  try {
    write_file_atomically(path,
                          settings.dump(2, ' ', false, json::error_handler_t::replace) + "\n");
  } catch (const Failure& failure) {
    return std::string("cannot write the settings: ") + failure.what();
  }
  return "";
}

} // namespace assay
