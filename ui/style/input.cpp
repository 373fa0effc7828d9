#include "ui/style/input.h"

#include "imgui.h"
#include "ui/model/workspace.h"
#include "ui/style/widgets.h"

namespace assay {
namespace {

int resize(ImGuiInputTextCallbackData* data) {
  auto& value = *static_cast<std::string*>(data->UserData);
  if (data->EventFlag == ImGuiInputTextFlags_CallbackResize) {
    value.resize(static_cast<std::size_t>(data->BufTextLen));
    data->Buf = value.data();
  }
  return 0;
}

} // namespace

bool input_text(const char* id, const char* hint, std::string& value, float width) {
  ImGui::SetNextItemWidth(width);
  return ImGui::InputTextWithHint(id,
                                  hint,
                                  value.data(),
                                  value.capacity() + 1,
                                  ImGuiInputTextFlags_CallbackResize |
                                      ImGuiInputTextFlags_EnterReturnsTrue,
                                  resize,
                                  &value);
}

bool link(Color color, std::string_view words) {
  text_cut(color, words);
  if (!ImGui::IsItemHovered()) return false;
  const ImVec2 low = ImGui::GetItemRectMin(), high = ImGui::GetItemRectMax();
  ImGui::GetWindowDrawList()->AddLine(ImVec2(low.x, high.y), high, to_u32(color));
  ImGui::SetMouseCursor(ImGuiMouseCursor_Hand);
  return ImGui::IsMouseClicked(ImGuiMouseButton_Left);
}

void scroll_by_keys(Workspace& workspace) {
  if (workspace.scroll_details != 0)
    ImGui::SetScrollY(ImGui::GetScrollY() +
                      workspace.scroll_details * ImGui::GetTextLineHeightWithSpacing());
  workspace.scroll_details = 0;
}

void mark_target(Workspace& workspace, std::string id) {
  const ImVec2 corner = ImGui::GetCursorScreenPos();
  const float half = ImGui::GetFontSize() / 2;
  mark_target(workspace, std::move(id), corner.x + 2 * half, corner.y + half);
}

void mark_target(Workspace& workspace, std::string id, float x, float y) {
  workspace.targets.push_back({std::move(id), x, y});
}

} // namespace assay
