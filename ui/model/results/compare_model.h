// The screen "Compare" as plain data. Effects, intervals, stages and closure are analysis' own;
// this file arranges them and chooses axes.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>
#include <vector>

#include "experiments/attribution/attribution.h"
#include "ui/model/results/verdict_model.h"

namespace assay {

struct Results;

struct EffectLine {
  std::string label, words;
  std::optional<IntervalPicture> interval;
};

struct WaterfallBar {
  enum class Kind { Total, Delta, Residual };
  Kind kind = Kind::Delta;
  std::string label, words;
  std::optional<Stage> stage;
  double from_ns = 0, to_ns = 0;    // a total runs from 0
  std::optional<Interval> interval; // 95 %, of to - from
  bool clear = true;                // the interval excludes 0; else "not significant"
};

struct WaterfallModel {
  std::vector<WaterfallBar> bars;
  double low_ns = 0, high_ns = 1; // axis; low above 0: broken
  std::vector<std::string> notes; // pairs, closure, health
  std::string warning;            // why nothing should rest on it, or ""
};

struct CompareModel {
  std::string title, badge, sentence;
  Tone tone = Tone::Neutral;
  std::vector<EffectLine> effects;
  double axis = 1;            // percent
  std::string interval_level; // of the interval that the verdict reads: "99.44 %"
  std::optional<WaterfallModel> waterfall;
  std::string why_no_waterfall;
  std::size_t pairs = 0, excluded = 0;
};

CompareModel compare_model(const Results& results, std::size_t row);
WaterfallModel waterfall_model(const Waterfall& waterfall);
nlohmann::ordered_json to_json(const CompareModel& model);

// "12.3 ms" with three digits; one unit for a whole column or axis: of the largest value.
struct TimeUnit {
  double ns = 1;
  const char* word = "ns";
};
TimeUnit time_unit(double largest_ns);
std::string in_unit(double ns, TimeUnit unit);        // "12.3"
std::string signed_in_unit(double ns, TimeUnit unit); // "+12.3"
std::string time_text(double ns);                     // "12.3 ms", in its own unit

} // namespace assay
