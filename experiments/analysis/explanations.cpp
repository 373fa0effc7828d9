#include "experiments/analysis/explanations.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <set>

#include "core/trace/trace_file.h"
#include "experiments/analysis/wording.h"
#include "experiments/evidence/owed/continuation.h"
#include "experiments/evidence/owed/plan_state.h"

namespace assay {

namespace {

constexpr const char* kNoFiles =
    "the files of the traced launch are not in traces/; `assay run` into a new directory records "
    "them";

// Time differs by the verdict's own estimate, in ns of the baseline's unit.
std::optional<TimedDifference> timed_difference(const Comparison& comparison) {
  if (!comparison.effect) return std::nullopt;
  const Effect& effect = *comparison.effect;
  TimedDifference timed;
  timed.a_ns = effect.a_ns;
  timed.delta_ns = effect.a_ns * std::expm1(effect.theta.value);
  if (effect.theta.at_95)
    timed.interval = Interval{effect.a_ns * std::expm1(effect.theta.at_95->lower),
                              effect.a_ns * std::expm1(effect.theta.at_95->upper)};
  return timed;
}

// The traces of one launch, each read once; a reference's trace serves every comparison.
class LaunchTraces {
public:
  LaunchTraces(const std::string& directory, std::int64_t launch)
      : directory_(directory), launch_(launch) {}

  const Result<Trace>& of(const std::string& variant) {
    auto& trace = traces_[variant];
    if (!trace) trace = std::make_unique<Result<Trace>>(read(0, variant));
    return *trace;
  }

  // Of every rank; a rank whose trace is missing (it ran on another machine) or fails its audit has
  // nothing.
  void add_waits(const std::string& variant, RankTimes& ranks) {
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      const auto [known, added] = waits_.try_emplace({variant, rank});
      if (added) {
        if (rank == 0) {
          if (const Result<Trace>& trace = of(variant)) known->second = traced_wait(*trace);
        } else if (const Result<Trace> trace = read(static_cast<int>(rank), variant)) {
          known->second = traced_wait(*trace);
        }
      }
      ranks[rank].traced = known->second;
    }
  }

  // Why files that are there cannot be read.
  const std::set<std::string>& damaged() const { return damaged_; }

private:
  // A report is the same wherever its directory is, so paths in it begin there.
  Result<Trace> read(int rank, const std::string& variant) {
    const std::string name = trace_file_name(launch_, rank, variant);
    const std::string path = directory_ + "/" + name;
    if (!std::filesystem::exists(path)) return fail(kNoFiles);
    Result<Trace> trace = read_trace(path, kTraceAll & ~static_cast<unsigned>(kTraceTelemetry));
    if (trace) {
      trace->path = name;
      return trace;
    }
    std::string message = trace.error().message;
    for (std::size_t at = 0; (at = message.find(path, at)) != std::string::npos; at += name.size())
      message.replace(at, path.size(), name);
    damaged_.insert(message);
    return Error{message};
  }

  std::string directory_;
  std::int64_t launch_;
  std::set<std::string> damaged_;
  std::map<std::string, std::unique_ptr<Result<Trace>>> traces_; // of rank 0
  std::map<std::pair<std::string, std::size_t>, std::optional<TracedWait>> waits_;
};

void attach(Comparison& comparison, const CellRow& cell, LaunchTraces& traces) {
  const Result<Trace>& a = traces.of(comparison.a);
  const Result<Trace>& b = traces.of(comparison.b);
  if (!a || !b) {
    comparison.no_explanation = (a ? b : a).error().message;
    return;
  }
  comparison.explanation = explain(*a, *b, timed_difference(comparison));
  comparison.explanation->cell = cell.name;
  comparison.explanation->a = comparison.a;
  comparison.explanation->b = comparison.b;
  traces.add_waits(comparison.a, comparison.a_ranks);
  traces.add_waits(comparison.b, comparison.b_ranks);
}

std::vector<Stage> stages_named(const ClaimRow& claim) {
  std::vector<Stage> stages;
  std::size_t from = 0;
  while (from < claim.stages.size()) {
    const std::size_t comma = std::min(claim.stages.find(',', from), claim.stages.size());
    if (const auto stage = stage_from(claim.stages.substr(from, comma - from)))
      stages.push_back(*stage);
    from = comma + 1;
  }
  return stages;
}

// Why no breakdown can show in which stages a gain is, or "".
std::string why_stages_show_nothing(const Comparison& comparison) {
  if (!comparison.explanation)
    return comparison.no_explanation.empty() ? "no trace was read" : comparison.no_explanation;
  const Waterfall& waterfall = comparison.explanation->waterfall;
  if (!waterfall.unusable.empty()) return waterfall.unusable;
  if (waterfall.timed_a_ns > 0 && !waterfall.closed)
    return "the traced parts do not add up to the timed difference";
  if (waterfall.traced_interval && waterfall.traced_delta_ns() < 0 &&
      waterfall.traced_interval->upper >= 0)
    return "the difference of the traced steps is not significant";
  return "";
}

} // namespace

std::string why_no_trace(const LedgerData& data, const CellView& cell) {
  if (cell.latest(LaunchKind::Traced, LaunchState::Complete) != nullptr) return kNoFiles;
  if (const LaunchRow* failed = cell.latest(LaunchKind::Traced, LaunchState::Failed))
    return fmt::format("the traced launch failed: {}", failed->reason);
  if (!cell.untraced.empty()) return "no trace was recorded: " + cell.untraced;
  if (const std::string why = blocked(data, *cell.cell); !why.empty())
    return "no trace was recorded: " + why;
  if (cell.cell->traced_rounds > 0) {
    const std::string why_not = why_not_continued(*cell.spec);
    return "no traced launch is complete; " +
           (why_not.empty() ? "`assay status` names the command that records it"
                            : "these results cannot be continued: " + why_not);
  }
  if (by_token(*cell.cell)) return "cells of unit `token` have no traces";
  return "no trace was recorded: the plan has none; set [trace] rounds = 10 in the matrix and run "
         "it into a new directory";
}

std::string why_no_trace(const LedgerData& data, std::int64_t cell) {
  std::map<std::string, std::vector<std::string>> cells; // by cause
  for (const CellView& view : cell_views(data))
    if (cell == 0 || view.cell->id == cell)
      cells[why_no_trace(data, view)].push_back(view.cell->name);
  std::vector<std::string> causes;
  for (const auto& [why, names] : cells)
    causes.push_back(fmt::format("{}: {}", fmt::join(names, ", "), why));
  return causes.empty() ? "the plan has no cell" : fmt::format("{}", fmt::join(causes, "; "));
}

std::vector<std::string> damaged_traces(const std::string& directory) {
  std::vector<std::string> names;
  for (const std::string& path : list_traces(directory))
    if (!read_trace(path))
      names.push_back("traces/" + std::filesystem::path(path).filename().string());
  return names;
}

std::vector<std::string> missing_traces(const std::string& directory, const LedgerData& data) {
  std::vector<std::string> names;
  for (const CellView& view : cell_views(data)) {
    const LaunchRow* launch = view.latest(LaunchKind::Traced, LaunchState::Complete);
    if (launch == nullptr) continue;
    const std::string built = " " + launch->build_order + " ";
    for (const VariantRow* variant : view.variants) {
      if (variant == view.control || built.find(" " + variant->name + " ") == std::string::npos)
        continue;
      const std::string name = trace_file_name(launch->id, 0, variant->name);
      if (!std::filesystem::exists(std::filesystem::path(directory) / name)) names.push_back(name);
    }
  }
  return names;
}

void apply_stage_clause(ClaimResult& result, const Comparison& comparison) {
  const auto metric = claim_metric(result.claim.metric);
  if (result.state != ClaimState::Confirmed || result.claim.stages.empty() ||
      (metric && !is_time(*metric)))
    return;
  const std::string why_not = why_stages_show_nothing(comparison);
  std::optional<double> share;
  if (why_not.empty())
    share = gain_share(comparison.explanation->waterfall, stages_named(result.claim));
  if (share && *share >= kNamedStagesShare) return;
  result.state = ClaimState::Consistent;
  if (!why_not.empty())
    result.reason = {ReasonCode::StagesNotChecked,
                     "the stages of the gain were not checked: " + why_not};
  else if (!share)
    result.reason = {
        ReasonCode::NoGainInStages,
        fmt::format("the traced steps show no gain in {}", claimed_stages_text(result.claim))};
  else
    result.reason = {ReasonCode::GainElsewhere,
                     fmt::format("{:.0f} % of the gain is in {}; a confirmed claim needs {:.0f} %",
                                 100 * *share,
                                 claimed_stages_text(result.claim),
                                 100 * kNamedStagesShare)};
}

void explain_from_traces(CellReport& report,
                         const LedgerData& data,
                         const CellView& cell,
                         const std::string& directory) {
  if (directory.empty()) return;
  const LaunchRow* launch = cell.latest(LaunchKind::Traced, LaunchState::Complete);
  LaunchTraces traces(directory, launch ? launch->id : 0);
  for (Comparison& comparison : report.comparisons) {
    if (launch)
      attach(comparison, report.cell, traces);
    else
      comparison.no_explanation = why_no_trace(data, cell);
  }
  report.damaged_traces = traces.damaged();
}

} // namespace assay
