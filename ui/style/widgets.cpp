#include "ui/style/widgets.h"

#include <algorithm>

namespace assay {
namespace {

// Maps percent to pixels of one bar and draws its parts; what is outside ends at the edge.
class BarPainter {
public:
  BarPainter(ImVec2 corner, ImVec2 size, double axis)
      : draw_(ImGui::GetWindowDrawList()), corner_(corner), size_(size), axis_(axis) {}

  float x(double percent) const {
    const double share = (std::clamp(percent, -axis_, axis_) + axis_) / (2 * axis_);
    return corner_.x + static_cast<float>(share) * size_.x;
  }
  float y(float share) const { return corner_.y + share * size_.y; }

  void area(double lo, double hi, float top, float bottom, ImU32 color) const {
    draw_->AddRectFilled(
        ImVec2(x(lo), y(top)), ImVec2(std::max(x(hi), x(lo) + 1), y(bottom)), color);
  }
  void vertical(double at, float top, float bottom, ImU32 color, float width) const {
    draw_->AddLine(ImVec2(x(at), y(top)), ImVec2(x(at), y(bottom)), color, width);
  }
  void interval(const IntervalPicture& picture, ImU32 color, float line) const;

private:
  ImDrawList* draw_;
  ImVec2 corner_, size_;
  double axis_;
};

void BarPainter::interval(const IntervalPicture& picture, ImU32 color, float line) const {
  draw_->AddLine(ImVec2(x(picture.lo), y(0.5F)), ImVec2(x(picture.hi), y(0.5F)), color, line);
  vertical(picture.lo, 0.22F, 0.78F, color, line);
  vertical(picture.hi, 0.22F, 0.78F, color, line);
  const float half = size_.y * 0.13F; // the candidate is always a square
  const ImVec2 centre(x(picture.point), y(0.5F));
  const ImVec2 low(centre.x - half, centre.y - half), high(centre.x + half, centre.y + half);
  const bool unclear = picture.lo <= 0 && picture.hi >= 0;
  draw_->AddRectFilled(low, high, unclear ? ImGui::GetColorU32(ImGuiCol_WindowBg) : color);
  draw_->AddRect(low, high, color, 0, 0, line);
}

void centred(Color color, std::string_view words, float width) {
  const float left = ImGui::GetCursorPosX();
  const ImVec2 size = ImGui::CalcTextSize(words.data(), words.data() + words.size(), false, width);
  ImGui::SetCursorPosX(left + std::max(0.0F, (width - size.x) / 2));
  ImGui::PushTextWrapPos(left + width);
  text(color, words);
  ImGui::PopTextWrapPos();
}

} // namespace

ImVec4 to_vec4(Color color, float alpha) {
  return {static_cast<float>(color.r) / 255,
          static_cast<float>(color.g) / 255,
          static_cast<float>(color.b) / 255,
          alpha};
}

ImU32 to_u32(Color color, float alpha) {
  return ImGui::ColorConvertFloat4ToU32(to_vec4(color, alpha));
}

void text(Color color, std::string_view words) {
  ImGui::PushStyleColor(ImGuiCol_Text, to_vec4(color));
  ImGui::TextUnformatted(words.data(), words.data() + words.size());
  ImGui::PopStyleColor();
}

void text_wrapped(Color color, std::string_view words) {
  ImGui::PushTextWrapPos(0);
  text(color, words);
  ImGui::PopTextWrapPos();
}

void text_cut(Color color, std::string_view words) {
  const float available = ImGui::GetContentRegionAvail().x;
  std::string fitting(words);
  if (ImGui::CalcTextSize(fitting.c_str()).x > available) {
    const float room = available - ImGui::CalcTextSize("…").x;
    while (!fitting.empty() && ImGui::CalcTextSize(fitting.c_str()).x > room) {
      while (fitting.size() > 1 && (static_cast<unsigned char>(fitting.back()) & 0xC0U) == 0x80U)
        fitting.pop_back(); // all bytes of a UTF-8 character
      fitting.pop_back();
    }
    fitting += "…";
  }
  text(color, fitting);
  if (fitting != words && ImGui::IsItemHovered())
    ImGui::SetTooltip("%.*s", static_cast<int>(words.size()), words.data());
}

void side_mark(const Palette& palette, std::size_t side) {
  const float em = ImGui::GetFontSize();
  const ImVec2 corner = ImGui::GetCursorScreenPos();
  const ImVec2 centre(corner.x + em * 0.45F, corner.y + em * 0.52F);
  const float half = em * 0.34F;
  ImDrawList* const draw = ImGui::GetWindowDrawList();
  if (side == 0)
    draw->AddCircleFilled(centre, half, to_u32(palette.reference));
  else
    draw->AddRectFilled(ImVec2(centre.x - half, centre.y - half),
                        ImVec2(centre.x + half, centre.y + half),
                        to_u32(palette.level));
  ImGui::Dummy(ImVec2(em * 0.9F, em));
  ImGui::SameLine(0, em * 0.3F);
}

void hatch(ImVec2 low, ImVec2 high, ImU32 color) {
  ImDrawList* const draw = ImGui::GetWindowDrawList();
  const float step = ImGui::GetFontSize() * 0.4F, height = high.y - low.y;
  draw->PushClipRect(low, high, true);
  for (float x = low.x - height; x < high.x; x += step)
    draw->AddLine(ImVec2(x, high.y), ImVec2(x + height, low.y), color, step * 0.25F);
  draw->PopClipRect();
}

void badge(const Palette& palette, Tone tone, std::string_view words) {
  const float em = ImGui::GetFontSize();
  const ImVec2 corner = ImGui::GetCursorScreenPos();
  const ImVec2 inside = ImGui::CalcTextSize(words.data(), words.data() + words.size());
  const ImVec2 padding(em * 0.5F, ImGui::GetStyle().FramePadding.y);
  const ImVec2 end(corner.x + inside.x + 2 * padding.x, corner.y + inside.y + 2 * padding.y);
  ImDrawList* const draw = ImGui::GetWindowDrawList();
  draw->AddRectFilled(corner, end, to_u32(palette.tone(tone)));
  draw->AddText(ImVec2(corner.x + padding.x, corner.y + padding.y),
                to_u32(palette.on_badge),
                words.data(),
                words.data() + words.size());
  ImGui::Dummy(ImVec2(end.x - corner.x, end.y - corner.y));
}

void interval_bar(const Palette& palette,
                  const IntervalPicture& picture,
                  double axis,
                  ImVec2 size) {
  const float line = std::max(1.0F, ImGui::GetFontSize() / 10);
  const BarPainter painter(ImGui::GetCursorScreenPos(), size, axis);
  if (picture.claim_lo && picture.claim_hi)
    painter.area(*picture.claim_lo, *picture.claim_hi, 0.04F, 0.96F, to_u32(palette.claim));
  if (picture.band_lo && picture.band_hi)
    painter.area(*picture.band_lo, *picture.band_hi, 0.16F, 0.84F, to_u32(palette.band));
  painter.vertical(0, 0, 1, to_u32(palette.muted), line * 0.6F);
  const bool unclear = picture.lo <= 0 && picture.hi >= 0;
  painter.interval(picture, to_u32(unclear ? palette.neutral : palette.level), line);
  ImGui::Dummy(size);
}

void axis_labels(const Palette& palette, double axis, float width) {
  const ImVec2 corner = ImGui::GetCursorScreenPos();
  ImDrawList* const draw = ImGui::GetWindowDrawList();
  const double shown = std::stod(fmt::format("{:.2g}", axis)); // two digits, and never "1e+02"
  const std::string ends[] = {fmt::format("{:+g} %", -shown), "0", fmt::format("{:+g} %", shown)};
  float share = 0;
  for (const std::string& words : ends) {
    const float x = corner.x + share * (width - ImGui::CalcTextSize(words.c_str()).x);
    draw->AddText(ImVec2(x, corner.y), to_u32(palette.muted), words.c_str());
    share += 0.5F;
  }
}

void interval_legend(const Palette& palette) {
  const float em = ImGui::GetFontSize();
  const float right = ImGui::GetCursorScreenPos().x + ImGui::GetContentRegionAvail().x;
  // Continues the line if the words still fit.
  const auto place = [&](const char* words, float extra) {
    ImGui::SameLine(0, 1.2F * em);
    if (ImGui::GetCursorScreenPos().x + extra + ImGui::CalcTextSize(words).x > right)
      ImGui::NewLine();
  };
  const auto swatch = [&](Color color, const char* words) {
    const ImVec2 corner = ImGui::GetCursorScreenPos();
    ImGui::GetWindowDrawList()->AddRectFilled(ImVec2(corner.x, corner.y + em * 0.2F),
                                              ImVec2(corner.x + em, corner.y + em * 0.85F),
                                              to_u32(color));
    ImGui::Dummy(ImVec2(em, em));
    ImGui::SameLine(0, em * 0.4F);
    text(palette.muted, words);
  };
  swatch(palette.level, "measured, interval of the verdict");
  place("claimed range", 1.4F * em);
  swatch(palette.claim, "claimed range");
  place("A/A band", 1.4F * em);
  swatch(palette.band, "A/A band");
  const char* const reading = "change of time, left of 0 is faster; a hollow square covers 0";
  place(reading, 0);
  text_wrapped(palette.muted, reading);
}

void notice(const Palette& palette, const Notice& notice, bool failed) {
  const float em = ImGui::GetFontSize();
  const float left = ImGui::GetCursorPosX();
  const float available = ImGui::GetContentRegionAvail().x;
  const float width = std::min(available, 52 * em);
  ImGui::SetCursorPosY(ImGui::GetCursorPosY() + ImGui::GetContentRegionAvail().y * 0.28F);
  const auto line = [&](Color color, const std::string& words) {
    ImGui::SetCursorPosX(left + (available - width) / 2);
    centred(color, words, width);
    ImGui::Dummy(ImVec2(0, em * 0.4F));
  };
  ImGui::PushFont(nullptr, ImGui::GetStyle().FontSizeBase * 1.5F);
  line(failed ? palette.bad : palette.text, notice.title);
  ImGui::PopFont();
  line(palette.text, notice.explanation);
  if (!notice.action.empty()) line(palette.accent, notice.action);
}

} // namespace assay
