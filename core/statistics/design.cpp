#include "core/statistics/design.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace assay {

namespace {

using Names = std::vector<std::string>;
using Mask = std::size_t; // bit i: the variant has step i

constexpr const char* kBase = "base";
constexpr const char* kAll = "all";
constexpr std::string_view kAllBut = "all but ";

bool has_step(Mask mask, std::size_t step) {
  return (mask >> step & 1U) != 0;
}

DesignVariant variant_of(Mask mask, const Names& steps) {
  DesignVariant variant;
  Names parts;
  for (std::size_t i = 0; i < steps.size(); ++i)
    if (has_step(mask, i)) {
      variant.steps.push_back(i);
      parts.push_back(steps[i]);
    }
  variant.name = parts.empty() ? kBase : fmt::format("{}", fmt::join(parts, "+"));
  return variant;
}

std::string name_of_all(const Names& steps) {
  return steps.size() == 2 ? fmt::format("{} x {}", steps[0], steps[1])
                           : fmt::format("all {} steps", steps.size());
}

DesignPlan ladder(const Names& steps) {
  const std::size_t n = steps.size();
  DesignPlan plan;
  DesignContrast contrast{name_of_all(steps), ContrastKind::Interaction, {}};
  plan.variants.push_back(variant_of(0, steps));
  for (std::size_t i = 0; i < n; ++i) { // rung i + 1 is variant i + 1
    plan.variants.push_back(variant_of((Mask{2} << i) - 1, steps));
    plan.pairs.emplace_back(i, i + 1);
  }
  for (std::size_t i = 1; i < n; ++i) { // the first step alone is the first rung
    const std::size_t alone = plan.variants.size();
    plan.variants.push_back(variant_of(Mask{1} << i, steps));
    plan.pairs.emplace_back(0, alone);
    contrast.terms.push_back({i, i + 1, 1});
    contrast.terms.push_back({0, alone, -1});
  }
  plan.pairs.emplace_back(0, n);
  plan.contrasts.push_back(std::move(contrast));
  return plan;
}

DesignPlan ablation(const Names& steps) {
  const std::size_t n = steps.size();
  const Mask full = (Mask{1} << n) - 1;
  DesignPlan plan;
  DesignContrast contrast{name_of_all(steps), ContrastKind::Interaction, {{0, 1, -1}}};
  plan.variants = {variant_of(0, steps), variant_of(full, steps)};
  plan.variants[1].name = kAll;
  plan.pairs.emplace_back(0, 1);
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t without = plan.variants.size();
    plan.variants.push_back(variant_of(full & ~(Mask{1} << i), steps));
    plan.variants.back().name = std::string(kAllBut) + steps[i];
    plan.pairs.emplace_back(without, 1);
    contrast.terms.push_back({without, 1, 1});
  }
  plan.contrasts.push_back(std::move(contrast));
  return plan;
}

// Every pair of variants that differ by step i alone, weighted by what `weight` gives for the
// other steps.
template <class Weight>
std::vector<DesignTerm> terms_of_step(std::size_t i, std::size_t steps, const Weight& weight) {
  std::vector<DesignTerm> terms;
  const Mask step = Mask{1} << i;
  for (Mask others = 0; others < Mask{1} << steps; ++others)
    if ((others & step) == 0) terms.push_back({others, others | step, weight(others)});
  return terms;
}

DesignPlan factorial(const Names& steps) {
  const std::size_t n = steps.size();
  const Mask full = (Mask{1} << n) - 1;
  const double half = static_cast<double>(Mask{1} << (n - 1)); // variants with, or without, a step
  DesignPlan plan;
  for (Mask mask = 0; mask <= full; ++mask) plan.variants.push_back(variant_of(mask, steps));
  for (std::size_t i = 0; i < n; ++i) {
    plan.pairs.emplace_back(0, Mask{1} << i);
    plan.contrasts.push_back(
        {steps[i], ContrastKind::MainEffect, terms_of_step(i, n, [&](Mask) { return 1 / half; })});
  }
  plan.pairs.emplace_back(0, full);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = i + 1; j < n; ++j)
      plan.contrasts.push_back({fmt::format("{} x {}", steps[i], steps[j]),
                                ContrastKind::Interaction,
                                terms_of_step(i, n, [&](Mask others) {
                                  return (has_step(others, j) ? 2 : -2) / half;
                                })});
  return plan;
}

} // namespace

std::string wrong_step_name(std::string_view name) {
  for (const std::string_view taken : {kBase, kAll})
    if (name == taken)
      return fmt::format("cannot be \"{}\", which is a variant of every design", taken);
  if (name.starts_with(kAllBut)) return "cannot begin with \"all but\", as variants do";
  if (name.find('+') != std::string_view::npos) return "cannot contain '+', which joins steps";
  return "";
}

DesignPlan plan_design(Design design, const std::vector<std::string>& steps) {
  switch (design) {
  case Design::Ladder:
    return ladder(steps);
  case Design::Ablation:
    return ablation(steps);
  case Design::Factorial:
    break;
  }
  return factorial(steps);
}

std::string_view to_string(Design value) {
  constexpr std::string_view kNames[] = {"ladder", "ablation", "factorial"};
  return kNames[static_cast<int>(value)];
}

std::string_view to_string(ContrastKind value) {
  constexpr std::string_view kNames[] = {"main_effect", "interaction"};
  return kNames[static_cast<int>(value)];
}

} // namespace assay
