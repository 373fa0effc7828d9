// Screens: one table row each. A screen's content is computed as plain data first (model), then
// drawn; --dump-model, tests and scripts read the same data.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ui/model/workspace.h"

namespace assay {

using TextTable = std::vector<std::vector<std::string>>; // first row: column names

struct Screen {
  ScreenId screen = ScreenId::Start;
  std::string_view id, title, key;
  nlohmann::ordered_json (*model)(const Workspace&) = nullptr;
  void (*draw)(Workspace&) = nullptr;
  TextTable (*table)(const Workspace&) = nullptr; // what Ctrl+C copies; null: nothing
  std::string_view help;
};

const std::vector<Screen>& screens(); // in the order of ScreenId
const Screen& current_screen(const Workspace& workspace);
std::optional<ScreenId> find_screen(std::string_view id);

// What replaces a screen that needs results: none open, being read, unreadable, empty.
struct Blocked {
  Notice notice;
  bool failed = false;
};
std::optional<Blocked> blocked(const Workspace& workspace);

// The whole content of the window, as JSON.
std::string dump_model(const Workspace& workspace);
nlohmann::ordered_json window_model(const Workspace& workspace);

std::string markdown(const TextTable& table);
std::string csv(const TextTable& table);

// The rows of the table, one function a file.
nlohmann::ordered_json start_model(const Workspace& workspace);
void draw_start(Workspace& workspace);
nlohmann::ordered_json runs_model(const Workspace& workspace);
void draw_runs(Workspace& workspace);
TextTable runs_table(const Workspace& workspace);
void draw_compare(Workspace& workspace);
TextTable compare_table(const Workspace& workspace);
void draw_timeline(Workspace& workspace);
void draw_kernels(Workspace& workspace);
TextTable kernels_table(const Workspace& workspace);
void draw_telemetry(Workspace& workspace);
TextTable telemetry_table(const Workspace& workspace);

} // namespace assay
