#include "experiments/analysis/speed.h"

#include <fmt/format.h>

#include "core/text.h"

namespace assay {

std::string token_count_text(double tokens) {
  if (tokens >= 999.5e3) return three_digits(tokens / 1e6) + " M tokens";
  if (tokens >= 999.5) return three_digits(tokens / 1e3) + " K tokens";
  return three_digits(tokens) + " tokens";
}

std::string token_rate_text(double tokens_per_second) {
  return token_count_text(tokens_per_second) + "/s";
}

std::string utilization_text(const VariantSpeed& speed) {
  if (!speed.peaks) return kUnknownText;
  return three_digits(100 * model_flops_utilization(
                                speed.flops, speed.step_seconds, speed.peaks->flops_per_second)) +
         " %";
}

std::string roofline_text(const VariantSpeed& speed) {
  return speed.roofline ? human_seconds(speed.roofline->seconds) : kUnknownText;
}

std::string bottleneck_text(const VariantSpeed& speed) {
  return speed.bound ? std::string(to_string(*speed.bound)) : kUnknownText;
}

std::string kernel_launches_text(const VariantSpeed& speed) {
  if (!speed.kernels) return kUnknownText;
  std::string text = std::to_string(*speed.kernels);
  if (speed.roofline) text += fmt::format(", {}", human_seconds(speed.roofline->launch_seconds));
  return text + (speed.kernels_traced ? ", traced" : ", by arithmetic");
}

} // namespace assay
