#include "experiments/unpaired/unpaired.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>

#include "core/text.h"
#include "experiments/analysis/report.h"
#include "experiments/evidence/cell_view.h"
#include "experiments/unpaired/unit_times.h"

namespace assay {

namespace {

// A run with everything that its cells are asked for.
struct Run {
  explicit Run(const NamedResults& results)
      : directory(results.directory),
        report(judge_results(results.data, {.run_again_in = results.directory})),
        cells(cell_views(results.data)) {}

  const CellView* cell(const std::string& name) const {
    const auto found =
        std::ranges::find_if(cells, [&](const CellView& view) { return view.cell->name == name; });
    return found == cells.end() ? nullptr : &*found;
  }
  const CellReport& report_of(const CellView& view) const {
    return report.cells[static_cast<std::size_t>(&view - cells.data())];
  }

  std::string directory;
  Report report;
  std::vector<CellView> cells;
};

// The same cell in both runs.
struct CellPair {
  const CellView &first, &second;
  const CellReport &first_report, &second_report;
};

const VariantRow* find_variant(const CellView& cell, const std::string& name) {
  for (const VariantRow* variant : cell.variants)
    if (variant->role != Role::Control && variant->name == name) return variant;
  return nullptr;
}

const Comparison*
find_comparison(const CellReport& cell, const std::string& a, const std::string& b) {
  for (const Comparison& comparison : cell.comparisons)
    if (comparison.a == a && comparison.b == b) return &comparison;
  return nullptr;
}

std::string why_not_judged(const Comparison& comparison, const char* run) {
  const Verdict& verdict = comparison.verdict;
  if (verdict.validity == Validity::Ok) return "";
  return fmt::format("{} in the {}{}",
                     to_string(verdict.validity),
                     run,
                     verdict.reasons.empty() ? "" : ": " + verdict.reasons.front().text);
}

// A variant's time stands if a comparison with it does.
std::string why_not_judged(const CellReport& cell, const std::string& variant, const char* run) {
  std::string why;
  for (const Comparison& comparison : cell.comparisons) {
    if (comparison.a != variant && comparison.b != variant) continue;
    const std::string here = why_not_judged(comparison, run);
    if (here.empty()) return "";
    if (why.empty()) why = here;
  }
  return why;
}

std::string too_few_text(const RunDifference& runs) {
  return fmt::format("{} and {} launches count; {}",
                     runs.first.size(),
                     runs.second.size(),
                     runs.difference
                         ? fmt::format("a direction needs {} in each run", kFullLaunches)
                         : "an interval needs 2 in each run");
}

void decide(RunDifference& runs, double alpha, const std::string& not_judged) {
  runs.difference = mean_difference(runs.first, runs.second);
  if (runs.difference) runs.interval = runs.difference->interval(alpha);
  const bool full =
      std::min(runs.first.size(), runs.second.size()) >= static_cast<std::size_t>(kFullLaunches);
  if (!not_judged.empty()) {
    runs.state = Unpaired::NotJudged;
    runs.reason = not_judged;
  } else if (runs.interval && runs.interval->contains(0)) {
    runs.state = Unpaired::NoDifferenceShown;
  } else if (runs.interval && full) {
    runs.state = runs.difference->value > 0 ? Unpaired::Slower : Unpaired::Faster;
  } else {
    runs.state = Unpaired::TooFewLaunches;
    runs.reason = too_few_text(runs);
  }
}

// Effects by launch of the paired comparison that a variant's time is held against.
std::vector<double> paired_effects(const CellReport& cell, const std::string& variant) {
  const Comparison* paired = nullptr;
  if (cell.control && cell.control->comparison.a == variant) paired = &cell.control->comparison;
  for (const Comparison& comparison : cell.comparisons)
    if (comparison.against_reference && comparison.b == variant) paired = &comparison;
  return paired && paired->effect ? paired->effect->theta.by_launch : std::vector<double>{};
}

std::optional<double> width_ratio(const CellPair& cells, const TimeChange& change, double alpha) {
  if (!change.runs.interval) return std::nullopt;
  double paired = 0;
  for (const CellReport* report : {&cells.first_report, &cells.second_report})
    if (const auto interval = t_interval(paired_effects(*report, change.variant), alpha))
      paired = std::max(paired, interval->half_width());
  if (paired == 0) return std::nullopt;
  return change.runs.interval->half_width() / paired;
}

// Why a variant of two cells with one name cannot be compared, or "".
std::string why_not_comparable(const VariantRow& first,
                               const VariantRow& second,
                               const UnitTimes& a,
                               const UnitTimes& b) {
  if (const std::string config = config_difference(first.config_json, second.config_json);
      !config.empty())
    return config;
  if (first.environment != second.environment || first.worker != second.worker)
    return "its process has another environment or worker program";
  if (a.tokens_per_unit && b.tokens_per_unit && *a.tokens_per_unit != *b.tokens_per_unit)
    return fmt::format("tokens per unit: {} in the first, {} in the second",
                       *a.tokens_per_unit,
                       *b.tokens_per_unit);
  return "";
}

void note_single_variants(const CellView& run,
                          const CellView& other,
                          const char* which,
                          UnpairedCell& cell) {
  for (const VariantRow* variant : run.variants)
    if (variant->role != Role::Control && find_variant(other, variant->name) == nullptr)
      cell.not_comparable.push_back(fmt::format("{}: only in the {}", variant->name, which));
}

// Why nothing of a cell can be compared, or "".
std::string why_not_comparable(const CellPair& cells) {
  const bool first = cells.first.counted.empty(), second = cells.second.counted.empty();
  if (first || second)
    return fmt::format("no timed launch in {}",
                       first && second ? "either"
                       : first         ? "the first"
                                       : "the second");
  if (cells.first.cell->unit == cells.second.cell->unit) return "";
  return fmt::format(
      "unit: {} in the first, {} in the second", cells.first.cell->unit, cells.second.cell->unit);
}

void match_times(const CellPair& cells, UnpairedCell& cell) {
  for (const VariantRow* first : cells.first.variants) {
    const VariantRow* second = find_variant(cells.second, first->name);
    if (first->role == Role::Control || second == nullptr) continue;
    UnitTimes a = unit_times(cells.first, *first), b = unit_times(cells.second, *second);
    if (const std::string why = why_not_comparable(*first, *second, a, b); !why.empty())
      cell.not_comparable.push_back(fmt::format("{}: {}", first->name, why));
    else
      cell.times.push_back(
          {first->name, {.first = std::move(a.by_launch), .second = std::move(b.by_launch)}});
  }
  note_single_variants(cells.first, cells.second, "first", cell);
  note_single_variants(cells.second, cells.first, "second", cell);
}

// Of comparisons whose two sides can be compared.
void match_effects(const CellPair& cells, UnpairedCell& cell) {
  const auto has = [&](const std::string& variant) {
    return std::ranges::find(cell.times, variant, &TimeChange::variant) != cell.times.end();
  };
  for (const Comparison& first : cells.first_report.comparisons) {
    const Comparison* second = find_comparison(cells.second_report, first.a, first.b);
    if (second == nullptr || !has(first.a) || !has(first.b)) continue;
    EffectChange change{first.a, first.b, {}};
    if (first.effect) change.runs.first = first.effect->theta.by_launch;
    if (second->effect) change.runs.second = second->effect->theta.by_launch;
    cell.effects.push_back(std::move(change));
  }
}

// Everything but the intervals, whose level depends on how many comparisons all cells have.
UnpairedCell match_cell(const CellPair& cells) {
  UnpairedCell cell{cells.first.cell->name, cells.first.cell->unit};
  if (std::string why = why_not_comparable(cells); !why.empty()) {
    cell.not_comparable.push_back(std::move(why));
    return cell;
  }
  match_times(cells, cell);
  match_effects(cells, cell);
  return cell;
}

void decide_cell(const CellPair& cells, UnpairedCell& cell, double alpha) {
  const auto either = [](const std::string& first, const std::string& second) {
    return first.empty() ? second : first;
  };
  for (TimeChange& change : cell.times) {
    decide(change.runs,
           alpha,
           either(why_not_judged(cells.first_report, change.variant, "first"),
                  why_not_judged(cells.second_report, change.variant, "second")));
    change.width_ratio = width_ratio(cells, change, alpha);
  }
  for (EffectChange& change : cell.effects) {
    const Comparison* first = find_comparison(cells.first_report, change.a, change.b);
    const Comparison* second = find_comparison(cells.second_report, change.a, change.b);
    decide(change.runs,
           alpha,
           either(why_not_judged(*first, "first"), why_not_judged(*second, "second")));
  }
}

UnpairedRun describe(const NamedResults& results, const Run& run, const Run& other) {
  UnpairedRun described{results.directory, results.data.spec.hash, results.data.spec.name};
  std::set<std::string> builds;
  for (const CellView& cell : run.cells) {
    if (other.cell(cell.cell->name) == nullptr) described.only_cells.push_back(cell.cell->name);
    for (const LaunchRow* launch : cell.counted) {
      builds.insert(launch->identity.build);
      std::string& earliest = described.first_utc;
      if (earliest.empty() || launch->started_utc < earliest) earliest = launch->started_utc;
      described.last_utc = std::max(described.last_utc, launch->ended_utc);
    }
  }
  builds.erase("");
  described.builds.assign(builds.begin(), builds.end());
  return described;
}

std::string names_of(const Run& run) {
  std::vector<std::string> names;
  for (const CellView& cell : run.cells) names.push_back(printable(cell.cell->name));
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string no_cell_text(const Run& first, const Run& second) {
  return fmt::format("{} and {} have no cell of one name: the first has {}, the second {}",
                     first.directory,
                     second.directory,
                     names_of(first),
                     names_of(second));
}

std::string nothing_text(const Run& first, const Run& second, const UnpairedReport& report) {
  std::string why = "no variant of one name";
  std::size_t reasons = 0;
  for (const UnpairedCell& cell : report.cells)
    for (const std::string& text : cell.not_comparable)
      if (++reasons == 1) why = fmt::format("cell '{}', {}", printable(cell.cell), printable(text));
  return fmt::format(
      "nothing in {} and {} can be compared: {}{}; measure the same cells with the "
      "same training keys in both",
      first.directory,
      second.directory,
      why,
      reasons > 1 ? fmt::format(" (and {} more reason{})", reasons - 1, reasons == 2 ? "" : "s")
                  : "");
}

} // namespace

std::string_view to_string(Unpaired value) {
  constexpr std::array<std::string_view, 5> kNames{
      "slower", "faster", "no_difference_shown", "too_few_launches", "not_judged"};
  return kNames.at(static_cast<std::size_t>(value));
}

Result<UnpairedReport> compare_runs(const NamedResults& first, const NamedResults& second) {
  const Run a(first), b(second);
  UnpairedReport report;
  report.first = describe(first, a, b);
  report.second = describe(second, b, a);
  report.alpha = std::min(first.data.spec.alpha, second.data.spec.alpha);
  std::vector<CellPair> pairs;
  for (const CellView& cell : a.cells)
    if (const CellView* other = b.cell(cell.cell->name)) {
      pairs.push_back({cell, *other, a.report_of(cell), b.report_of(*other)});
      if (const std::string launch = copied_launch(cell, *other); !launch.empty())
        return fail("{} and {} contain the same measurement: {} of cell '{}' has the same times in "
                    "both, to the nanosecond; name two results that were measured apart",
                    a.directory,
                    b.directory,
                    launch,
                    printable(cell.cell->name));
    }
  if (pairs.empty()) return fail("{}", no_cell_text(a, b));
  for (const CellPair& cells : pairs) {
    UnpairedCell cell = match_cell(cells);
    if (!cell.times.empty())
      cell.causes = possible_causes({&cells.first, &cells.first_report, &a.report.clocks},
                                    {&cells.second, &cells.second_report, &b.report.clocks});
    report.cells.push_back(std::move(cell));
    report.comparisons +=
        static_cast<int>(report.cells.back().times.size() + report.cells.back().effects.size());
  }
  if (report.comparisons == 0) return fail("{}", nothing_text(a, b, report));
  report.judged_alpha = report.alpha / report.comparisons;
  for (std::size_t i = 0; i < pairs.size(); ++i)
    decide_cell(pairs[i], report.cells[i], report.judged_alpha);
  return report;
}

} // namespace assay
