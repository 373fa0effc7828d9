#include "ui/style/trace_colors.h"

#include <algorithm>
#include <array>

namespace assay {
namespace {

constexpr std::array<Color, kStages> kStageColors{{
    {0xa8, 0x93, 0x7c}, // data wait: grey-brown
    {0xf0, 0xe4, 0x42}, // host to device: yellow
    {0x56, 0xb4, 0xe9}, // forward: sky
    {0x00, 0xa0, 0x78}, // backward: teal
    {0xcc, 0x79, 0xa7}, // optimizer: purple
    {0x98, 0x86, 0xd4}, // ema: violet
    {0xe6, 0x9f, 0x00}, // evaluation: amber
    {0xd5, 0x5e, 0x00}, // exposed communication: vermilion
    {0x7f, 0xb0, 0x3a}, // cuda graph: green
    {0x6b, 0x74, 0x7e}, // host gap: dark grey
    {0xa0, 0xa8, 0xb0}, // idle: grey
}};

constexpr std::array<Color, kKernelClasses> kClassColors{{
    {0x56, 0xb4, 0xe9}, // gemm
    {0xe6, 0x9f, 0x00}, // attention
    {0xcc, 0x79, 0xa7}, // norm
    {0x00, 0xa0, 0x78}, // elementwise
    {0xf0, 0xe4, 0x42}, // reduction
    {0xb8, 0xa3, 0x8c}, // copy
    {0xd5, 0x5e, 0x00}, // nccl
    {0xa0, 0xa8, 0xb0}, // other
}};

constexpr Color kHost{0x8f, 0xa3, 0xb8}, kWait{0xc2, 0x8a, 0x6a}, kOverhead{0xd9, 0x6c, 0x6c};

// 0.84 to 1 of the colour's light, by the name.
Color vary(Color color, std::uint32_t name) {
  const double factor = 0.84 + 0.04 * static_cast<double>((name * 2654435761U >> 16) % 5);
  const auto scale = [&](std::uint8_t c) { return static_cast<std::uint8_t>(c * factor); };
  return {scale(color.r), scale(color.g), scale(color.b)};
}

} // namespace

Color stage_color(Stage stage) {
  return kStageColors[static_cast<std::size_t>(stage)];
}

Color kernel_color(KernelClass kind) {
  return kClassColors[static_cast<std::size_t>(kind)];
}

Color tag_color(Source source, std::uint8_t tag) {
  switch (source) {
  case Source::Stage:
  case Source::Span:
    return tag < kStages ? kStageColors[tag] : kHost;
  case Source::Device:
  case Source::Operator:
    return tag < kKernelClasses ? kClassColors[tag] : kHost;
  case Source::Sync:
    return kWait;
  case Source::Overhead:
    return kOverhead;
  case Source::Api:
    return kHost;
  }
  return kHost;
}

Color event_color(const TraceView& view, EventRef event) {
  const std::uint8_t tag = view.tag(event);
  const Color color = tag_color(event.source, tag);
  const bool has_own = event.source == Source::Stage || event.source == Source::Sync ||
                       event.source == Source::Overhead ||
                       (event.source == Source::Span && tag != TraceView::kNoTag);
  return has_own ? color : vary(color, view.name_id(event));
}

Color readable_on(Color background) {
  constexpr Color kBlack{0, 0, 0}, kWhite{255, 255, 255};
  return contrast(kBlack, background) >= contrast(kWhite, background) ? kBlack : kWhite;
}

} // namespace assay
