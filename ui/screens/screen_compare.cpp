// Compare: the verdict first, then how large, how sure, and where in the step.
#include <algorithm>
#include <cmath>

#include "imgui.h"
#include "ui/model/results/compare_model.h"
#include "ui/screens/details_panel.h"
#include "ui/screens/loss_plot.h"
#include "ui/screens/memory_plot.h"
#include "ui/screens/pair_plot.h"
#include "ui/screens/screens.h"
#include "ui/screens/section_table.h"
#include "ui/screens/waterfall.h"
#include "ui/style/input.h"
#include "ui/style/widgets.h"

namespace assay {
namespace {

void draw_sentence(const CompareModel& model, const Palette& colors) {
  ImGui::PushFont(nullptr, ImGui::GetStyle().FontSizeBase * 1.35F);
  text_cut(colors.text, model.title);
  ImGui::PopFont();
  badge(colors, model.tone, model.badge);
  ImGui::SameLine(0, ImGui::GetFontSize() * 0.8F);
  ImGui::AlignTextToFramePadding();
  text_wrapped(colors.text, model.sentence);
}

void draw_effects(const CompareModel& model, const Palette& colors) {
  const float em = ImGui::GetFontSize();
  text_wrapped(colors.accent,
               fmt::format("Effects: change from baseline to candidate; time of a unit with the "
                           "verdict's {} interval, others with 95 %",
                           model.interval_level));
  if (model.effects.empty()) {
    text_wrapped(colors.muted, "No pair of visits counts yet, so there is no effect to show.");
    return;
  }
  float labels = 0;
  for (const EffectLine& line : model.effects)
    labels = std::max(labels, ImGui::CalcTextSize(line.label.c_str()).x);
  const float left = ImGui::GetCursorPosX();
  const float bar = std::max(6 * em, ImGui::GetContentRegionAvail().x - labels - 2 * em);
  ImGui::SetCursorPosX(left + labels + em);
  axis_labels(colors, model.axis, bar);
  ImGui::Dummy(ImVec2(0, em));
  for (const EffectLine& line : model.effects) {
    ImGui::AlignTextToFramePadding();
    text(colors.text, line.label);
    ImGui::SameLine();
    ImGui::SetCursorPosX(left + labels + em);
    if (line.interval)
      interval_bar(colors, *line.interval, model.axis, ImVec2(bar, ImGui::GetFrameHeight()));
    else
      text(colors.muted, "no interval yet");
    ImGui::SetCursorPosX(left + labels + em);
    text_cut(colors.muted, line.words);
  }
  interval_legend(colors);
}

// The heading: what the right side can show, and what it shows.
void draw_panes(Workspace& workspace, ComparePane shown, const Palette& colors) {
  const float right = ImGui::GetCursorScreenPos().x + ImGui::GetContentRegionAvail().x;
  for (const ComparePane pane : compare_panes(workspace)) {
    const std::string title(title_of(pane));
    if (pane != ComparePane::Stages) ImGui::SameLine(0, 1.5F * ImGui::GetFontSize());
    if (ImGui::GetCursorScreenPos().x + ImGui::CalcTextSize(title.c_str()).x > right)
      ImGui::NewLine();
    mark_target(workspace, fmt::format("pane.{}", to_string(pane)));
    if (pane == shown)
      text(colors.accent, title);
    else if (link(colors.muted, title))
      workspace.pane = pane;
  }
}

void draw_where(Workspace& workspace, const CompareModel& model, const Palette& colors) {
  const ComparePane shown = shown_pane(workspace);
  draw_panes(workspace, shown, colors);
  if (shown == ComparePane::Loss)
    draw_loss(*workspace.loss(), colors);
  else if (shown == ComparePane::Memory)
    draw_memory(*workspace.memory(), colors);
  else if (shown == ComparePane::Speed)
    draw_section(*workspace.speed(), colors);
  else if (model.waterfall)
    draw_waterfall(workspace, *model.waterfall);
  else
    text_wrapped(colors.muted,
                 model.why_no_waterfall.empty() ? "No trace was recorded."
                                                : model.why_no_waterfall);
}

} // namespace

TextTable compare_table(const Workspace& workspace) {
  const CompareModel model = compare_model(*workspace.results, workspace.row);
  TextTable table{{"what", "value"}};
  for (const EffectLine& line : model.effects) table.push_back({line.label, line.words});
  if (model.waterfall)
    for (const WaterfallBar& bar : model.waterfall->bars) table.push_back({bar.label, bar.words});
  if (const Section* speed = workspace.speed())
    for (const SectionRow& row : speed->rows)
      table.push_back({row.texts[0], "baseline " + row.texts[1] + ", candidate " + row.texts[2]});
  if (const MemoryModel* memory = workspace.memory())
    for (const MemorySide& side : memory->sides)
      if (!side.words.empty()) table.push_back({"memory of " + side.variant, side.words});
  if (const LossModel* loss = workspace.loss()) table.push_back({"training loss", loss->words});
  return table;
}

void draw_compare(Workspace& workspace) {
  const Palette& colors = palette(workspace.theme);
  const CompareModel model = compare_model(*workspace.results, workspace.row);
  draw_sentence(model, colors);
  ImGui::Separator();
  const ImVec2 space = ImGui::GetContentRegionAvail();
  const float half = std::floor(space.x * 0.5F);
  const float upper = space.y * (workspace.details ? 0.56F : 1.0F);
  if (ImGui::BeginChild("effects", ImVec2(half, upper))) {
    draw_effects(model, colors);
    draw_pair_plot(workspace);
  }
  ImGui::EndChild();
  ImGui::SameLine();
  if (ImGui::BeginChild("where", ImVec2(0, upper))) draw_where(workspace, model, colors);
  ImGui::EndChild();
  if (!workspace.details) return;
  ImGui::Separator();
  if (ImGui::BeginChild("details", ImVec2(0, 0))) draw_details(workspace);
  ImGui::EndChild();
}

} // namespace assay
