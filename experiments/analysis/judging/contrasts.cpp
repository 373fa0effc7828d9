// Main effects and interactions of a cell's steps, judged by the rules of speeds.
#include <deque>
#include <map>

#include "core/statistics/design.h"
#include "experiments/analysis/judging/judge.h"
#include "experiments/analysis/wording.h"

namespace assay {

namespace {

// The judged comparisons of a cell, and those that only a contrast asks for, each made once.
class JudgedPairs {
public:
  JudgedPairs(const CellView& cell,
              const std::vector<Comparison>& known,
              const CellContext& context,
              const Levels& levels)
      : cell_(cell), context_(context), levels_(levels) {
    for (const Comparison& comparison : known)
      pairs_[{comparison.a_id, comparison.b_id}] = &comparison;
  }

  const Comparison& of(const VariantRow& a, const VariantRow& b) {
    const Comparison*& pair = pairs_[{a.id, b.id}];
    if (pair == nullptr) {
      made_.push_back(compare(cell_, {&a, &b, &a == cell_.baseline}, levels_));
      judge(made_.back(), context_);
      pair = &made_.back();
    }
    return *pair;
  }

private:
  const CellView& cell_;
  const CellContext& context_;
  const Levels& levels_;
  std::map<std::pair<std::int64_t, std::int64_t>, const Comparison*> pairs_;
  std::deque<Comparison> made_;
};

// Why no contrast with this pair can be believed, or none.
Reason problem_of(const Comparison& pair) {
  const auto of_pair = [&](ReasonCode code, const std::string& text) {
    return Reason{code, fmt::format("{}: {}", comparison_text(pair), text)};
  };
  if (!pair.pairs.work_mismatch.empty())
    return of_pair(ReasonCode::UnequalWork, "unequal work: " + pair.pairs.work_mismatch);
  if (pair.verdict.validity == Validity::Ok && pair.verdict.quality != Quality::Harmed) return {};
  const Reason& first = pair.verdict.reasons.front();
  return of_pair(first.code, fmt::format("{}, {}", verdict_word(pair.verdict), first.text));
}

ContrastState state_of(Speed speed, bool interaction) {
  switch (speed) {
  case Speed::NoEffect:
    return interaction ? ContrastState::AddUp : ContrastState::NoEffect;
  case Speed::Faster:
    return interaction ? ContrastState::Interact : ContrastState::Faster;
  case Speed::Slower:
    return interaction ? ContrastState::Interact : ContrastState::Slower;
  case Speed::Inconclusive:
    break;
  }
  return ContrastState::Undecided;
}

void decide(Contrast& contrast, double sesoi) {
  const std::size_t launches = contrast.effect ? contrast.effect->launches.size() : 0;
  if (launches < static_cast<std::size_t>(kProvisionalLaunches)) {
    contrast.reason = {ReasonCode::TooFewLaunches,
                       fmt::format("{} with rounds of all its variants; {} are needed",
                                   launch_count_text(launches),
                                   kProvisionalLaunches)};
    return;
  }
  contrast.state = state_of(decided_speed(*contrast.effect, sesoi),
                            contrast.row.kind == to_string(ContrastKind::Interaction));
  if (contrast.state == ContrastState::Undecided)
    contrast.reason = why_undecided(*contrast.effect, sesoi).front();
}

Contrast judge_contrast(const CellView& cell,
                        const ContrastRow& row,
                        JudgedPairs& pairs,
                        const EffectOptions& options) {
  Contrast contrast{.row = row};
  std::vector<WeightedEffect> terms;
  for (const ContrastTerm& term : row.terms) {
    const VariantRow *a = variant_of_level(cell, term.from), *b = variant_of_level(cell, term.to);
    if (a == nullptr || b == nullptr) {
      contrast.reason = {ReasonCode::NotMeasured,
                         fmt::format("the plan has no variant '{}'", a ? term.to : term.from)};
      return contrast;
    }
    const Comparison& pair = pairs.of(*a, *b);
    if (contrast.reason.empty()) contrast.reason = problem_of(pair);
    if (pair.effect) terms.push_back({&*pair.effect, term.weight});
  }
  if (terms.size() == row.terms.size()) contrast.effect = weighted_sum(terms, options);
  if (contrast.reason.empty()) decide(contrast, options.sesoi);
  return contrast;
}

} // namespace

std::string_view to_string(ContrastState state) {
  constexpr std::string_view kNames[] = {
      "undecided", "add_up", "interact", "no_effect", "faster", "slower"};
  return kNames[static_cast<int>(state)];
}

std::string contrast_word(ContrastState state) {
  return state == ContrastState::AddUp      ? "add up"
         : state == ContrastState::NoEffect ? "no effect"
                                            : std::string(to_string(state));
}

std::string contrast_kind_text(const ContrastRow& row) {
  return row.kind == to_string(ContrastKind::MainEffect) ? "main effect" : row.kind;
}

std::vector<Contrast> judge_contrasts(const CellView& cell,
                                      const std::vector<Comparison>& known,
                                      const CellContext& context,
                                      const Levels& levels) {
  std::vector<Contrast> contrasts;
  if (!cell.optimization || !cell.baseline) return contrasts;
  JudgedPairs pairs(cell, known, context, levels);
  const EffectOptions options{levels.judged_alpha, cell.spec->power, context.sesoi, false};
  for (const ContrastRow& row : cell.optimization->contrasts)
    contrasts.push_back(judge_contrast(cell, row, pairs, options));
  return contrasts;
}

} // namespace assay
