#include "core/text.h"
#include "experiments/report/explain_wording.h"
#include "experiments/report/html/html_section.h"
#include "experiments/report/html/svg.h"
#include "experiments/report/render_explain.h"

namespace assay {

namespace {

constexpr std::size_t kRowsOnPage = 25;

std::string muted(const std::string& text) {
  return "<p class=\"muted\">" + html_prose(text) + "</p>\n";
}

} // namespace

std::string explanation_html(const Comparison& comparison) {
  if (!comparison.explanation) return "";
  const Explanation& explanation = *comparison.explanation;
  const Waterfall& waterfall = explanation.waterfall;
  std::string out;
  if (waterfall.pairs > 0) {
    out += two_shapes(waterfall_svg(waterfall, PlotShape::Wide),
                      waterfall_svg(waterfall, PlotShape::Narrow));
    out +=
        muted(traced_pairs_text(explanation) +
              ": change of the step's time by stage, from baseline to candidate. Each bar starts "
              "where the one above ends; whiskers: 95 % interval of the stage's difference.");
  }
  out += muted(closure_figures_text(waterfall)) + muted(audit_text(waterfall));
  return out + section_html(kernels_section(explanation, kRowsOnPage)) +
         section_html(operators_section(explanation, kRowsOnPage));
}

} // namespace assay
