#include "ui/model/workspace.h"

#include <filesystem>

#include "core/trace/trace_file.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxHistory = 64;
constexpr std::size_t kMaxRecent = 10;

Location here(const Workspace& workspace) {
  return {workspace.screen, workspace.row, workspace.stage};
}

void restore(Workspace& workspace, const Location& location) {
  workspace.screen = location.screen;
  workspace.stage = location.stage;
  select_comparison(workspace, location.row);
}

void clear_traces(Workspace& workspace) {
  for (TraceSlot& slot : workspace.traces) {
    const std::uint64_t ticket = slot.ticket + 1; // what is under way is no longer wanted
    slot = TraceSlot{};
    slot.ticket = ticket;
  }
  workspace.timeline.selected.reset();
  workspace.timeline.hovered.reset();
  workspace.timeline.area.reset();
  workspace.timeline.gap.reset();
  workspace.gaps.clear();
  workspace.difference.reset();
  workspace.timeline.fit = true;
}

void request_trace(Workspace& workspace, std::size_t side, const std::string& path) {
  TraceSlot& slot = workspace.traces[side];
  slot.path = path;
  slot.loading = true;
  slot.why_none.clear();
  workspace.requests.push_back({LoadRequest::Kind::Trace, path, side, ++slot.ticket});
}

void remember(Workspace& workspace, const std::string& path) {
  auto& recent = workspace.recent;
  recent.erase(std::remove(recent.begin(), recent.end(), path), recent.end());
  recent.insert(recent.begin(), path);
  if (recent.size() > kMaxRecent) recent.resize(kMaxRecent);
}

} // namespace

const CellReport* Workspace::cell() const {
  if (!results || row >= results->places.size()) return nullptr;
  return &results->report.cells[results->places[row].cell];
}

const Comparison* Workspace::comparison() const {
  const CellReport* of = cell();
  return of == nullptr ? nullptr : &of->comparisons[results->places[row].comparison];
}

const Explanation* Workspace::explanation() const {
  if (single_trace) return difference.get();
  const Comparison* of = comparison();
  return of == nullptr || !of->explanation ? nullptr : &*of->explanation;
}

const LossModel* Workspace::loss() const {
  if (!results || row >= results->losses.size() || !results->losses[row]) return nullptr;
  return &*results->losses[row];
}

const MemoryModel* Workspace::memory() const {
  if (!results || row >= results->memories.size() || !results->memories[row]) return nullptr;
  return &*results->memories[row];
}

const Section* Workspace::speed() const {
  if (!results || row >= results->speeds.size() || !results->speeds[row]) return nullptr;
  return &*results->speeds[row];
}

void open_path(Workspace& workspace, const std::string& path, const std::string& other) {
  if (path.empty()) return;
  workspace.other_path = other;
  clear_traces(workspace);
  workspace.path = path;
  workspace.results.reset();
  workspace.open_error.clear();
  workspace.row = workspace.launch = 0;
  workspace.stage.reset();
  workspace.back.clear();
  workspace.forward.clear();
  const fs::path given(path);
  if (given.filename() == "ledger.sqlite" && given.has_parent_path())
    workspace.path = given.parent_path().string();
  remember(workspace, workspace.path);
  std::error_code none;
  workspace.single_trace = fs::is_regular_file(workspace.path, none);
  workspace.screen = workspace.single_trace ? ScreenId::Timeline : ScreenId::Runs;
  reload(workspace);
}

void reload(Workspace& workspace) {
  if (workspace.path.empty()) return;
  clear_traces(workspace);
  if (workspace.single_trace) {
    request_trace(workspace, 0, workspace.path);
    if (!workspace.other_path.empty()) request_trace(workspace, 1, workspace.other_path);
    return;
  }
  workspace.loading = true;
  workspace.requests.push_back({LoadRequest::Kind::Results, workspace.path, 0, ++workspace.ticket});
}

void go_to(Workspace& workspace, ScreenId screen) {
  if (workspace.screen == screen) return;
  workspace.back.push_back(here(workspace));
  if (workspace.back.size() > kMaxHistory) workspace.back.erase(workspace.back.begin());
  workspace.forward.clear();
  workspace.screen = screen;
  workspace.scroll_to_selected = workspace.kernels.scroll_to_row = true;
}

void go_back(Workspace& workspace) {
  if (workspace.back.empty()) return;
  workspace.forward.push_back(here(workspace));
  const Location location = workspace.back.back();
  workspace.back.pop_back();
  restore(workspace, location);
}

void go_forward(Workspace& workspace) {
  if (workspace.forward.empty()) return;
  workspace.back.push_back(here(workspace));
  const Location location = workspace.forward.back();
  workspace.forward.pop_back();
  restore(workspace, location);
}

void select_comparison(Workspace& workspace, std::size_t row) {
  const std::size_t rows = workspace.verdicts() ? workspace.verdicts()->rows.size() : 0;
  const std::size_t wanted = rows == 0 ? 0 : std::min(row, rows - 1);
  workspace.scroll_to_selected = true;
  if (wanted == workspace.row) return;
  workspace.row = wanted;
  workspace.stage.reset();
  workspace.kernels.row = 0;
  if (!workspace.single_trace) clear_traces(workspace);
}

void select_row(Workspace& workspace, std::ptrdiff_t step) {
  const auto wanted = static_cast<std::ptrdiff_t>(workspace.row) + step;
  select_comparison(workspace, static_cast<std::size_t>(std::max<std::ptrdiff_t>(0, wanted)));
}

void set_scale(Workspace& workspace, float scale) {
  workspace.scale = std::clamp(scale, kMinScale, kMaxScale);
}

void request_traces(Workspace& workspace) {
  const Comparison* comparison = workspace.comparison();
  const bool shown =
      workspace.screen == ScreenId::Timeline || workspace.screen == ScreenId::Telemetry;
  if (!shown || comparison == nullptr || workspace.single_trace) return;
  const std::array<std::string, 2> variants{comparison->a, comparison->b};
  for (std::size_t side = 0; side < 2; ++side) {
    TraceSlot& slot = workspace.traces[side];
    if (slot.variant == variants[side]) continue;
    slot.variant = variants[side];
    const TracePath trace = workspace.results->trace_path(workspace.row, side);
    if (trace.path.empty())
      slot.why_none = trace.why_none;
    else
      request_trace(workspace, side, trace.path);
  }
}

std::string_view to_string(Align align) {
  switch (align) {
  case Align::StepStart:
    return "step start";
  case Align::StageStart:
    return "stage start";
  case Align::Free:
    return "free";
  }
  return "";
}

std::string_view id_of(ScreenId screen) {
  constexpr std::array<std::string_view, kScreens> kIds{
      "start", "runs", "compare", "timeline", "kernels", "telemetry"};
  return kIds[static_cast<std::size_t>(screen)];
}

} // namespace assay
