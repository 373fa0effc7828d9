// Designs of experiments with several steps: which combinations of the steps are measured, which of
// them are compared, and which contrasts are judged. Pure functions of the steps' names. A contrast
// is a weighted sum of effects, each ln(time ratio) of a pair of variants:
//   ladder     base, s1, s1+s2, ...; each step alone. Interaction: over the steps after the first,
//              the sum of what a step adds on its rung minus what it adds to the base alone. So it
//              is the effect of the stack minus the sum of the effects of its steps alone.
//   ablation   base, all, all but one. Interaction: the sum of what each step adds last minus the
//              effect of all.
//   factorial  all 2^n combinations. Main effect of step i: the mean, over the settings of the
//              others, of what i adds. Interaction of i and j: the mean, over the settings of the
//              others, of what i adds with j minus what it adds without j. (Box, Hunter and Hunter,
//              Statistics for Experimenters, 2nd edition, ch. 5, where an interaction is half of
//              this one.)
// With two steps the three interactions estimate one quantity. With more, those of ladder and
// ablation are the sum of all two-way interactions where steps interact in pairs only.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace assay {

enum class Design { Ladder, Ablation, Factorial };
enum class ContrastKind { MainEffect, Interaction };

struct DesignVariant {
  std::string name;               // "base", "amp", "amp+norm", "all", "all but norm"
  std::vector<std::size_t> steps; // that it has, in their order
};

// weight * ln(time of `to` / time of `from`), by index of the variant.
struct DesignTerm {
  std::size_t from, to;
  double weight;
};

struct DesignContrast {
  std::string name; // "amp", "amp x norm", "all 3 steps"
  ContrastKind kind{};
  std::vector<DesignTerm> terms;
};

struct DesignPlan {
  std::vector<DesignVariant> variants;                    // the base first
  std::vector<std::pair<std::size_t, std::size_t>> pairs; // baseline and candidate
  std::vector<DesignContrast> contrasts;
};

inline constexpr std::size_t kFewestSteps = 2;
// 2^5 combinations; of the others, whose variants grow with the steps, what a person still reads.
constexpr std::size_t most_steps(Design design) {
  return design == Design::Factorial ? 5 : 12;
}

// Why no step can have this name, or "": it would be that of another of the design's variants.
std::string wrong_step_name(std::string_view name);

// `steps`: kFewestSteps to most_steps names, different ones, none of them a wrong_step_name.
DesignPlan plan_design(Design design, const std::vector<std::string>& steps);

std::string_view to_string(Design value);       // "ladder", "ablation", "factorial"
std::string_view to_string(ContrastKind value); // "main_effect", "interaction"

} // namespace assay
