#include <algorithm>

#include "core/text.h"
#include "experiments/report/explain_wording.h"
#include "experiments/report/html/svg.h"
#include "experiments/report/render_explain.h"

namespace assay {

namespace {

constexpr std::size_t kRowsOnPage = 25;

std::string
diff_table(const char* title, const std::vector<DiffRow>& rows, const TimeScale& scale) {
  if (rows.empty()) return "";
  const std::size_t shown = std::min(kRowsOnPage, rows.size());
  std::string out = fmt::format(
      "<details><summary>{} ({} of {} rows, by size of the difference)</summary><div "
      "class=\"wide\"><table><tr><th>status</th><th>stage</th><th>name</th><th>class</th><th "
      "class=\"num\">calls a step</th><th class=\"num\">A {}</th><th class=\"num\">B {}</th><th "
      "class=\"num\">difference</th><th class=\"num\">95 % interval</th></tr>\n",
      title,
      shown,
      rows.size(),
      scale.unit,
      scale.unit);
  for (std::size_t i = 0; i < shown; ++i) {
    const DiffRow& row = rows[i];
    out += fmt::format(
        "<tr><td>{}</td><td>{}</td><td title=\"{}\">{}</td><td>{}</td><td "
        "class=\"num\">{} → {}</td><td class=\"num\">{}</td><td "
        "class=\"num\">{}</td><td class=\"num\">{}</td><td class=\"num\">{}</td></tr>\n",
        to_string(row.status),
        to_string(row.stage),
        escape_html(printable(row.name)),
        escape_html(printable(row.short_name)),
        row.kernel_class,
        calls_text(row.calls_a),
        calls_text(row.calls_b),
        time_text(row.a_ns, scale),
        time_text(row.b_ns, scale),
        difference_text(row.delta_ns, scale),
        difference_interval_text(row.interval, scale));
  }
  return out + "</table></div></details>\n";
}

std::string muted(const std::string& text) {
  return "<p class=\"muted\">" + escape_html(printable(text)) + "</p>\n";
}

} // namespace

std::string explanation_html(const Comparison& comparison) {
  const std::string ranks_line = ranks_text(comparison);
  const std::string ranks = ranks_line.empty() ? "" : muted(ranks_line);
  if (!comparison.explanation)
    return ranks + (comparison.no_explanation.empty()
                        ? ""
                        : muted("not explained: " + comparison.no_explanation));
  const Explanation& explanation = *comparison.explanation;
  const Waterfall& waterfall = explanation.waterfall;
  std::string out = "<p><b>" + escape_html(printable(where_text(explanation))) + "</b></p>\n";
  if (waterfall.pairs > 0) {
    out += waterfall_svg(waterfall);
    out += muted(fmt::format("Change of a step's time by stage, from A's step to B's, over {} "
                             "pairs of traced steps, tiled "
                             "by the {} clock. Bars follow one another; whiskers: 95 % interval of "
                             "the stage's difference.",
                             waterfall.pairs,
                             explanation.traced_as == "device" ? "device's" : "host's"));
  }
  out += muted(closure_text(waterfall)) + muted(audit_text(waterfall));
  const TimeScale scale = scale_of(waterfall);
  return out + ranks + diff_table("kernels and copies", explanation.kernels, scale) +
         diff_table("operators", explanation.operators, scale);
}

} // namespace assay
