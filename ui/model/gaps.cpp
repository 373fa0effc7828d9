#include "ui/model/gaps.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/text.h"
#include "ui/model/align.h"
#include "ui/model/navigate.h"
#include "ui/model/results/compare_model.h"
#include "ui/model/side.h"
#include "ui/model/workspace.h"

namespace assay {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kDumped = 20; // rows of the model's JSON

bool longer(const IdleGap& a, const IdleGap& b) {
  return a.length() > b.length();
}

std::string meanwhile(const TraceView& view, std::int64_t start, std::int64_t end) {
  const std::vector<StageSegment>& all = view.segments();
  auto at = std::partition_point(
      all.begin(), all.end(), [&](const StageSegment& segment) { return segment.end <= start; });
  StageTimes times{};
  for (; at != all.end() && at->start < end; ++at)
    times[static_cast<std::size_t>(at->stage)] +=
        std::min(end, at->end) - std::max(start, at->start);
  const auto most = std::max_element(times.begin(), times.end());
  return *most == 0 ? "" : std::string(kStageNames[static_cast<std::size_t>(most - times.begin())]);
}

bool has_device(const Workspace& workspace) {
  return std::any_of(workspace.traces.begin(), workspace.traces.end(), [](const TraceSlot& slot) {
    return slot.view && !slot.view->trace().device.empty();
  });
}

} // namespace

std::vector<IdleGap>
gaps_inside_steps(const TraceView& view, std::size_t side, const std::vector<DeviceGap>& gaps) {
  std::vector<IdleGap> inside;
  for (const DeviceGap& gap : gaps) {
    const std::size_t step = view.step_at(gap.start);
    if (step == view.steps().size() || gap.end > view.steps()[step].end) continue;
    inside.push_back({side,
                      step,
                      gap.start,
                      gap.end,
                      gap.device,
                      printable(gap.after),
                      printable(gap.before),
                      meanwhile(view, gap.start, gap.end)});
  }
  return inside;
}

void gather_gaps(Workspace& workspace) {
  workspace.gaps.clear();
  workspace.timeline.gap.reset();
  for (const TraceSlot& slot : workspace.traces)
    workspace.gaps.insert(workspace.gaps.end(), slot.gaps.begin(), slot.gaps.end());
  std::stable_sort(workspace.gaps.begin(), workspace.gaps.end(), longer);
}

void show_gap(Workspace& workspace, std::size_t index) {
  if (index >= workspace.gaps.size()) return;
  const IdleGap gap = workspace.gaps[index];
  TimelineState& state = workspace.timeline;
  state.gap = index;
  state.side = gap.side;
  state.fit = false;
  set_step(workspace, gap.side, gap.step);
  const double from = static_cast<double>(gap.start - anchor(workspace, gap.side));
  focus_on(workspace, gap.side, gap.start, gap.end);
  state.area = TimeRange{from, gap.length()};
}

void next_gap(Workspace& workspace, std::ptrdiff_t by) {
  if (workspace.gaps.empty()) return;
  const auto last = static_cast<std::ptrdiff_t>(workspace.gaps.size()) - 1;
  const std::ptrdiff_t at =
      workspace.timeline.gap ? static_cast<std::ptrdiff_t>(*workspace.timeline.gap) + by : 0;
  workspace.timeline.scroll_to_gap = true;
  show_gap(workspace, static_cast<std::size_t>(std::clamp<std::ptrdiff_t>(at, 0, last)));
}

std::string gap_words(const Workspace& workspace) {
  std::string failed;
  bool reading = false;
  for (std::size_t side = 0; side < workspace.traces.size(); ++side) {
    const TraceSlot& slot = workspace.traces[side];
    reading = reading || slot.loading || slot.gaps_loading;
    if (!slot.why_no_gaps.empty())
      failed += fmt::format("{}idle gaps of {} cannot be read: {}",
                            failed.empty() ? "" : "; ",
                            side_title(side, slot.variant),
                            printable(slot.why_no_gaps));
  }
  if (!failed.empty()) return failed;
  if (!workspace.gaps.empty())
    return fmt::format("The longest idle gaps inside steps: {}, up to {}",
                       workspace.gaps.size(),
                       time_text(workspace.gaps.front().length()));
  if (reading) return "Reading the idle gaps …";
  return has_device(workspace) ? "No device was idle inside a step."
                               : "No device in these traces, so no idle gaps.";
}

std::vector<std::string> gap_cells(const Workspace& workspace, const IdleGap& gap) {
  const TraceView* view = workspace.traces[gap.side].view.get();
  const bool warmup = view != nullptr && !view->steps()[gap.step].step.counted;
  return {time_text(gap.length()),
          fmt::format("{}{}", gap.step + 1, warmup ? ", warm-up" : ""),
          gap.meanwhile,
          gap.after,
          gap.before};
}

std::string one_gap_words(const Workspace& workspace, std::size_t index) {
  const std::vector<std::string> cells = gap_cells(workspace, workspace.gaps[index]);
  return fmt::format("idle gap {} of {}: {} in step {}, {}, after {}, before {}",
                     index + 1,
                     workspace.gaps.size(),
                     cells[0],
                     cells[1],
                     cells[2],
                     cells[3],
                     cells[4]);
}

ordered_json gaps_json(const Workspace& workspace) {
  ordered_json rows = ordered_json::array();
  for (const IdleGap& gap : workspace.gaps) {
    if (rows.size() == kDumped) break;
    rows.push_back({{"side", side_word(gap.side)},
                    {"length_ns", gap.end - gap.start},
                    {"start_ns", gap.start},
                    {"device", gap.device},
                    {"step", gap.step + 1},
                    {"stage", gap.meanwhile},
                    {"after", gap.after},
                    {"before", gap.before}});
  }
  ordered_json shown = nullptr;
  if (workspace.timeline.gap) shown = *workspace.timeline.gap;
  return {{"words", gap_words(workspace)},
          {"count", workspace.gaps.size()},
          {"shown", shown},
          {"longest", rows}};
}

} // namespace assay
