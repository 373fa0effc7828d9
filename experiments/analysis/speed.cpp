#include "experiments/analysis/speed.h"

#include <fmt/format.h>

#include "core/text.h"

namespace assay {

namespace {

constexpr const char* kUnknown = "unknown";

} // namespace

std::string token_rate_text(double tokens_per_second) {
  if (tokens_per_second >= 999.5e3)
    return fmt::format("{:.3g} M tokens/s", tokens_per_second / 1e6);
  if (tokens_per_second >= 999.5) return fmt::format("{:.3g} K tokens/s", tokens_per_second / 1e3);
  return fmt::format("{:.3g} tokens/s", tokens_per_second);
}

std::string utilization_text(const VariantSpeed& speed) {
  if (!speed.peaks) return kUnknown;
  return fmt::format("{:.3g} %",
                     100 * model_flops_utilization(
                               speed.flops, speed.step_seconds, speed.peaks->flops_per_second));
}

std::string light_text(const VariantSpeed& speed) {
  return speed.light ? human_seconds(speed.light->seconds) : kUnknown;
}

std::string bottleneck_text(const VariantSpeed& speed) {
  return speed.bound ? std::string(to_string(*speed.bound)) : kUnknown;
}

std::string kernel_launches_text(const VariantSpeed& speed) {
  if (!speed.launches) return kUnknown;
  std::string text = std::to_string(*speed.launches);
  if (speed.light) text += fmt::format(", {}", human_seconds(speed.light->launch_seconds));
  return text + (speed.launches_traced ? ", traced" : ", by arithmetic");
}

} // namespace assay
