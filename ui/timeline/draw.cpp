#include "ui/timeline/draw.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/text.h"
#include "ui/model/navigate.h"
#include "ui/model/results/compare_model.h"
#include "ui/model/workspace.h"
#include "ui/style/input.h"
#include "ui/style/trace_colors.h"
#include "ui/style/widgets.h"

namespace assay {
namespace {

// The distance between ticks: 1, 2 or 5 times a power of ten, at least `least` ns.
double tick_distance(double least) {
  const double power = std::pow(10, std::floor(std::log10(std::max(1.0, least))));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= least) return factor * power;
  return 10 * power;
}

void draw_titles(const SideFrame& frame, const TraceView& view, const Palette& colors) {
  ImDrawList* const draw = ImGui::GetWindowDrawList();
  const float em = ImGui::GetFontSize();
  for (const TrackLayout& track : frame.layout.tracks) {
    const Track& of = view.tracks()[track.track];
    const float y = frame.corner.y + static_cast<float>(track.row - frame.first_row) * frame.row;
    const float bottom = y + static_cast<float>(of.lanes.size()) * frame.row;
    const float at = std::max(y, frame.corner.y); // stays in sight while its rows do
    const std::string words = of.left_out.empty() ? of.title : of.title + " (" + of.left_out + ")";
    const ImVec4 clip(frame.corner.x, at, frame.corner.x + frame.gutter - em * 0.4F, bottom);
    draw->AddText(nullptr,
                  0,
                  ImVec2(frame.corner.x, at + (frame.row - em) / 2),
                  to_u32(colors.muted),
                  words.c_str(),
                  nullptr,
                  0,
                  &clip);
    draw->AddLine(ImVec2(frame.corner.x, bottom + frame.row * 0.15F),
                  ImVec2(frame.corner.x + frame.gutter + frame.width, bottom + frame.row * 0.15F),
                  to_u32(colors.border, 0.5F));
  }
}

void draw_box(const SideFrame& frame,
              const TraceView& view,
              const Track& track,
              const Box& box,
              float top,
              bool label) {
  ImDrawList* const draw = ImGui::GetWindowDrawList();
  const Color color =
      box.count > 1 ? tag_color(track.source, box.tag) : event_color(view, event_of(track, box));
  const float left = frame.corner.x + frame.gutter;
  const float x0 = std::max(left, left + box.x0);
  const float x1 = std::min(left + frame.width, left + box.x1);
  if (x1 <= x0) return;
  const float full = frame.row * 0.86F;
  const float height = box.count > 1 ? full * std::max(0.2F, box.busy) : full;
  const float gap = label && x1 - x0 > 3 ? 1 : 0; // between neighbours
  const ImVec2 low(x0, top + full - height), high(std::max(x1 - gap, x0 + 1), top + full);
  draw->AddRectFilled(low, high, to_u32(color));
  const float em = ImGui::GetFontSize();
  if (!label || box.count > 1 || x1 - x0 < 2.5F * em) return;
  const ImVec4 clip(x0, top, x1 - em * 0.2F, top + full);
  const std::string& name = view.short_name(event_of(track, box));
  draw->AddText(nullptr,
                0,
                ImVec2(x0 + em * 0.25F, top + (full - em) / 2),
                to_u32(readable_on(color)),
                name.c_str(),
                nullptr,
                0,
                &clip);
}

// A stage is cut into many segments by short gaps; its name is drawn once over all of them.
void label_stages(const SideFrame& frame, const TrackLayout& track) {
  const float em = ImGui::GetFontSize(), left = frame.corner.x + frame.gutter;
  const float top = frame.corner.y + static_cast<float>(track.row - frame.first_row) * frame.row;
  const auto stage_of = [](const Box& box) { return static_cast<Stage>(box.tag); };
  const auto minor = [&](const Box& box) {
    return box.x1 - box.x0 < em * 0.5F || stage_of(box) == Stage::Idle ||
           stage_of(box) == Stage::HostGap;
  };
  for (std::size_t i = 0; i < track.boxes.size(); ++i) {
    const Stage stage = stage_of(track.boxes[i]);
    if (minor(track.boxes[i]) && track.boxes[i].count > 1)
      continue; // many; zooming in separates them
    std::size_t last = i;
    for (std::size_t next = i + 1; next < track.boxes.size(); ++next) {
      if (stage_of(track.boxes[next]) == stage)
        last = next;
      else if (!minor(track.boxes[next]))
        break;
    }
    const float x0 = std::max(left, left + track.boxes[i].x0);
    const float x1 = std::min(left + frame.width, left + track.boxes[last].x1);
    i = last;
    if (x1 - x0 < 2.5F * em) continue;
    const std::string words(to_string(stage));
    const ImVec4 clip(x0, top, x1 - em * 0.2F, top + frame.row);
    ImGui::GetWindowDrawList()->AddText(nullptr,
                                        0,
                                        ImVec2(x0 + em * 0.25F, top + (frame.row * 0.86F - em) / 2),
                                        to_u32(readable_on(stage_color(stage))),
                                        words.c_str(),
                                        nullptr,
                                        0,
                                        &clip);
  }
}

struct Placed { // the place of an event, not cut to what is in sight
  float x0 = 0, x1 = 0, top = 0, bottom = 0;
};

std::optional<Placed> place_of(const Workspace& workspace,
                               const SideFrame& frame,
                               const TraceView& view,
                               EventRef event) {
  for (const TrackLayout& track : frame.layout.tracks) {
    const Track& of = view.tracks()[track.track];
    if (of.source != event.source) continue;
    for (std::size_t lane = 0; lane < of.lanes.size(); ++lane) {
      const std::size_t place = of.lanes[lane].at(view.start(event));
      if (place == of.lanes[lane].size() || of.lanes[lane].event(place) != event.index) continue;
      const auto zero = static_cast<double>(anchor(workspace, frame.side));
      const float top =
          frame.corner.y +
          static_cast<float>(track.row + static_cast<double>(lane) - frame.first_row) * frame.row;
      return Placed{frame.x(workspace, static_cast<double>(view.start(event)) - zero),
                    frame.x(workspace, static_cast<double>(view.end(event)) - zero),
                    top,
                    top + frame.row * 0.86F};
    }
  }
  return std::nullopt;
}

// An outline around one event, at least as wide as can be seen.
void outline(const Workspace& workspace,
             const SideFrame& frame,
             const TraceView& view,
             EventRef event,
             ImU32 color,
             float thickness) {
  const auto placed = place_of(workspace, frame, view, event);
  const float left = frame.corner.x + frame.gutter, right = left + frame.width;
  if (!placed || placed->x1 < left || placed->x0 > right) return;
  const float half = ImGui::GetFontSize() * 0.15F;
  ImGui::GetWindowDrawList()->AddRect(
      ImVec2(std::max(left, placed->x0 - half), placed->top - 1),
      ImVec2(std::min(right, std::max(placed->x1, placed->x0 + 2) + half), placed->bottom + 1),
      color,
      0,
      0,
      thickness);
}

// From the call that launched the selected kernel to the kernel.
void draw_launch(const Workspace& workspace, const SideFrame& frame, const Palette& colors) {
  const std::optional<Selection>& selected = workspace.timeline.selected;
  if (!selected || selected->side != frame.side) return;
  const TraceView& view = *workspace.traces[frame.side].view;
  const auto call = launch_of(view, selected->event);
  const auto from = call ? place_of(workspace, frame, view, *call) : std::nullopt;
  const auto to = place_of(workspace, frame, view, selected->event);
  if (!from || !to) return;
  ImDrawList* const draw = ImGui::GetWindowDrawList();
  const float em = ImGui::GetFontSize(), left = frame.corner.x + frame.gutter;
  const ImVec2 start(from->x0, (from->top + from->bottom) / 2);
  const bool below = to->top < from->top; // the kernel is above its call
  const ImVec2 end(to->x0, below ? to->bottom : to->top);
  draw->PushClipRect(ImVec2(left, frame.corner.y),
                     ImVec2(left + frame.width, frame.corner.y + frame.height),
                     true);
  const ImU32 color = to_u32(colors.accent);
  const float bend = below ? 1.5F * em : -1.5F * em; // arrives straight
  draw->AddBezierCubic(start, start, ImVec2(end.x, end.y + bend), end, color, em / 8);
  draw->AddTriangleFilled(end,
                          ImVec2(end.x - em * 0.25F, end.y + bend / 4),
                          ImVec2(end.x + em * 0.25F, end.y + bend / 4),
                          color);
  draw->AddCircleFilled(start, em * 0.2F, color);
  draw->PopClipRect();
}

void draw_step_ends(const Workspace& workspace, const SideFrame& frame, const Palette& colors) {
  const TraceView& view = *workspace.traces[frame.side].view;
  const std::size_t step = workspace.timeline.step[frame.side];
  if (step >= view.steps().size()) return;
  ImDrawList* const draw = ImGui::GetWindowDrawList();
  const auto zero = anchor(workspace, frame.side);
  for (const std::int64_t time : {view.steps()[step].start, view.steps()[step].end}) {
    const float x = frame.x(workspace, static_cast<double>(time - zero));
    if (x < frame.corner.x + frame.gutter || x > frame.corner.x + frame.gutter + frame.width)
      continue;
    draw->AddLine(ImVec2(x, frame.corner.y),
                  ImVec2(x, frame.corner.y + frame.height),
                  to_u32(frame.side == 0 ? colors.reference : colors.level),
                  ImGui::GetFontSize() / 10);
  }
}

void draw_selection(const Workspace& workspace, const SideFrame& frame, const Palette& colors) {
  const TraceView& view = *workspace.traces[frame.side].view;
  const TimelineState& state = workspace.timeline;
  const float thick = std::max(2.0F, ImGui::GetFontSize() / 7);
  const std::optional<Selection>& lit = state.hovered ? state.hovered : state.selected;
  if (lit) {
    if (lit->side == frame.side)
      outline(workspace, frame, view, lit->event, to_u32(colors.text), thick);
    else if (const auto partner = partner_of(workspace, *lit); partner && partner->event)
      outline(workspace, frame, view, *partner->event, to_u32(colors.accent), thick);
  }
  if (state.selected && state.hovered && state.selected->side == frame.side)
    outline(workspace, frame, view, state.selected->event, to_u32(colors.text), thick);
  if (workspace.stage) // the stage that was chosen elsewhere, in the step that is shown
    for (std::size_t i = 0; i < view.segments().size(); ++i) {
      const StageSegment& segment = view.segments()[i];
      const StepSpan span = span_of_step(view, state.step[frame.side], Source::Stage);
      if (segment.start < span.start) continue;
      if (segment.start >= span.end) break;
      if (segment.stage == *workspace.stage)
        outline(workspace,
                frame,
                view,
                {Source::Stage, static_cast<std::uint32_t>(i)},
                to_u32(colors.accent),
                thick);
    }
}

// The outline of A's stages over B's.
void draw_ghost(const Workspace& workspace, const SideFrame& frame, const Palette& colors) {
  const TraceView* other = workspace.traces[1 - frame.side].view.get();
  if (other == nullptr || frame.layout.tracks.empty() || frame.layout.tracks[0].track != 0) return;
  const auto zero = static_cast<double>(anchor(workspace, 1 - frame.side));
  const StepSpan span =
      span_of_step(*other, workspace.timeline.step[1 - frame.side], Source::Stage);
  const float top =
      frame.corner.y + static_cast<float>(frame.layout.tracks[0].row - frame.first_row) * frame.row;
  const float left = frame.corner.x + frame.gutter;
  std::size_t drawn = 0;
  constexpr std::size_t kMost = 400;
  for (const StageSegment& segment : other->segments()) {
    if (segment.start < span.start) continue;
    if (segment.start >= span.end || drawn == kMost) break;
    const float x0 = frame.x(workspace, static_cast<double>(segment.start) - zero);
    const float x1 = frame.x(workspace, static_cast<double>(segment.end) - zero);
    if (x1 - x0 < 2 || x1 < left || x0 > left + frame.width) continue;
    ImGui::GetWindowDrawList()->AddRect(ImVec2(std::max(x0, left), top - 2),
                                        ImVec2(std::min(x1, left + frame.width), top + frame.row),
                                        to_u32(colors.text));
    ++drawn;
  }
}

} // namespace

float SideFrame::x(const Workspace& workspace, double after_anchor_ns) const {
  const TimeRange range = workspace.timeline.range[side];
  const double pixels = (after_anchor_ns - range.from) / range.span * static_cast<double>(width);
  return corner.x + gutter + static_cast<float>(std::clamp(pixels, -1e6, 1e6));
}

double SideFrame::time_at(const Workspace& workspace, float at) const {
  const TimeRange range = workspace.timeline.range[side];
  return range.from + static_cast<double>((at - corner.x - gutter) / width) * range.span;
}

void draw_step_strip(Workspace& workspace, std::size_t side, float gutter, float width) {
  const TraceView& view = *workspace.traces[side].view;
  const Palette& colors = palette(workspace.theme);
  const float em = ImGui::GetFontSize(), height = em * 1.5F;
  const ImVec2 corner = ImGui::GetCursorScreenPos();
  ImDrawList* const draw = ImGui::GetWindowDrawList();
  draw->AddText(ImVec2(corner.x, corner.y + em * 0.3F), to_u32(colors.muted), "all steps");
  ImGui::PushID(static_cast<int>(side));
  ImGui::InvisibleButton("strip", ImVec2(gutter + width, height));
  ImGui::PopID();
  const std::size_t count = view.steps().size();
  if (count == 0) return;
  const float wanted = width / static_cast<float>(count);
  const auto bars = static_cast<std::size_t>(
      std::min(static_cast<float>(count), std::max(1.0F, width / 3))); // of more, the longest each
  const float bar = width / static_cast<float>(bars);
  std::int64_t longest = 1;
  for (const StepTiling& step : view.steps()) longest = std::max(longest, step.wall_ns());
  for (std::size_t i = 0; i < bars; ++i) {
    const std::size_t first = i * count / bars, last = std::max(first + 1, (i + 1) * count / bars);
    std::int64_t wall = 0;
    bool counted = false;
    for (std::size_t step = first; step < last; ++step) {
      wall = std::max(wall, view.steps()[step].wall_ns());
      counted |= view.steps()[step].step.counted;
    }
    const std::size_t chosen = workspace.timeline.step[side];
    const bool current = chosen >= first && chosen < last;
    const float share =
        static_cast<float>(static_cast<double>(wall) / static_cast<double>(longest));
    const float x = corner.x + gutter + static_cast<float>(i) * bar;
    const ImVec2 low(x, corner.y + height * (1 - share)),
        high(x + std::max(1.0F, std::min(bar - 1, 2 * em)), corner.y + height);
    const Color mark = side == 0 ? colors.reference : colors.level;
    if (current || counted)
      draw->AddRectFilled(low, high, to_u32(mark, current ? 1.0F : 0.45F));
    else
      draw->AddRect(low, high, to_u32(mark, 0.8F)); // not counted: an outline
  }
  if (ImGui::IsItemHovered() && ImGui::IsMouseDown(ImGuiMouseButton_Left)) {
    const float at = (ImGui::GetIO().MousePos.x - corner.x - gutter) / std::max(0.01F, wanted);
    if (at >= 0) set_step(workspace, side, std::min(count - 1, static_cast<std::size_t>(at)));
  }
}

void draw_ruler(const Workspace& workspace, std::size_t side, float gutter, float width) {
  const Palette& colors = palette(workspace.theme);
  const TimeRange range = workspace.timeline.range[side];
  const float em = ImGui::GetFontSize();
  const ImVec2 corner = ImGui::GetCursorScreenPos();
  ImDrawList* const draw = ImGui::GetWindowDrawList();
  ImGui::Dummy(ImVec2(gutter + width, em * 1.2F));
  const double distance = tick_distance(range.span * 7 * em / std::max(1.0F, width));
  const TimeUnit unit =
      time_unit(std::max(std::abs(range.from), std::abs(range.from + range.span)));
  draw->AddText(corner, to_u32(colors.muted), fmt::format("time in {}", unit.word).c_str());
  const int decimals =
      std::max(0, static_cast<int>(std::ceil(std::log10(unit.ns / distance) - 1e-9)));
  for (double tick = std::ceil(range.from / distance) * distance; tick <= range.from + range.span;
       tick += distance) {
    const float x =
        corner.x + gutter + static_cast<float>((tick - range.from) / range.span) * width;
    const std::string words = fmt::format("{:.{}f}", tick / unit.ns + 0.0, decimals);
    const float room = ImGui::CalcTextSize(words.c_str()).x;
    draw->AddLine(
        ImVec2(x, corner.y + em * 0.8F), ImVec2(x, corner.y + em * 1.2F), to_u32(colors.muted));
    if (x + em * 0.2F + room < corner.x + gutter + width)
      draw->AddText(ImVec2(x + em * 0.25F, corner.y), to_u32(colors.muted), words.c_str());
  }
}

void draw_lanes(Workspace& workspace, const SideFrame& frame) {
  const TraceView& view = *workspace.traces[frame.side].view;
  const Palette& colors = palette(workspace.theme);
  ImDrawList* const draw = ImGui::GetWindowDrawList();
  draw->PushClipRect(
      frame.corner,
      ImVec2(frame.corner.x + frame.gutter + frame.width, frame.corner.y + frame.height),
      true);
  for (const TrackLayout& track : frame.layout.tracks) {
    const Track& of = view.tracks()[track.track];
    const bool stages = of.source == Source::Stage;
    for (const Box& box : track.boxes) {
      const float top =
          frame.corner.y + static_cast<float>(track.row + box.lane - frame.first_row) * frame.row;
      draw_box(frame, view, of, box, top, !stages);
    }
    if (stages) label_stages(frame, track);
  }
  draw_titles(frame, view, colors);
  draw_step_ends(workspace, frame, colors);
  if (workspace.timeline.ghost && frame.side == 1) draw_ghost(workspace, frame, colors);
  draw_selection(workspace, frame, colors);
  draw_launch(workspace, frame, colors);
  draw->PopClipRect();
}

const Box* box_at(const SideFrame& frame, const TraceView& view, ImVec2 mouse, std::size_t& track) {
  const float x = mouse.x - frame.corner.x - frame.gutter;
  const double row = (mouse.y - frame.corner.y) / frame.row + frame.first_row;
  if (x < 0 || x > frame.width || mouse.y < frame.corner.y ||
      mouse.y > frame.corner.y + frame.height)
    return nullptr;
  for (const TrackLayout& of : frame.layout.tracks) {
    const double lane = std::floor(row - of.row);
    if (lane < 0 || lane >= static_cast<double>(view.tracks()[of.track].lanes.size())) continue;
    const Box* nearest = nullptr;
    for (const Box& box : of.boxes) {
      if (box.lane != static_cast<std::uint32_t>(lane) || x < box.x0 - 1 || x > box.x1 + 1)
        continue;
      nearest = &box;
      if (x >= box.x0 && x <= box.x1) break;
    }
    track = of.track;
    return nearest;
  }
  return nullptr;
}

} // namespace assay
