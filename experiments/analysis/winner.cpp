#include "experiments/analysis/winner.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/ledger/stored_config.h"
#include "core/text.h"
#include "experiments/analysis/wording.h"

namespace assay {

namespace {

constexpr const char* kConfirmFolder = "confirm";

// A report is the same wherever its directory is.
std::string below_results(std::string text, const std::string& directory) {
  const std::string name = kConfirmFolder;
  for (std::size_t at = 0; (at = text.find(directory, at)) != std::string::npos; at += name.size())
    text.replace(at, directory.size(), name);
  return text;
}

bool wins(const Comparison& comparison) {
  return comparison.verdict.validity == Validity::Ok && comparison.verdict.speed == Speed::Faster &&
         comparison.verdict.quality != Quality::Harmed;
}

const LaunchRow* first_launch(const Report& report) {
  for (const LaunchSummary& launch : report.launches)
    if (!launch.row.identity.build.empty()) return &launch.row;
  return nullptr;
}

// "-5.91 % [-6.31, -5.52] % in 5 fresh launches: confirmed"
std::string confirmed_text(const Confirmation& fresh, const std::string& first_build) {
  const auto counted = static_cast<int>(fresh.effect->launches.size());
  return fmt::format(
      "{} in {}{} fresh launches{}: {}",
      judged_text(fresh.effect->theta),
      counted,
      counted == fresh.measured_launches ? "" : fmt::format(" of {}", fresh.measured_launches),
      fresh.build == first_build ? ""
                                 : fmt::format(" of another build ({:.{}}, not {:.{}}; {})",
                                               fresh.build,
                                               kShortBuild,
                                               first_build,
                                               kShortBuild,
                                               fresh.first_utc.substr(0, 10)),
      fresh.verdict.speed == Speed::Faster ? "confirmed"
                                           : "not confirmed (" + verdict_word(fresh.verdict) + ")");
}

} // namespace

double effect_on_training(const Comparison& comparison) {
  return comparison.end_to_end ? comparison.end_to_end->log_ratio.value
                               : comparison.effect->theta.value;
}

std::optional<Winner> winner_of(const Report& report) {
  std::optional<Winner> best;
  int among = 0;
  double least = 0;
  for (std::size_t i = 0; i < report.cells.size(); ++i)
    for (std::size_t j = 0; j < report.cells[i].comparisons.size(); ++j) {
      const Comparison& comparison = report.cells[i].comparisons[j];
      among += comparison.effect.has_value();
      if (!wins(comparison) || effect_on_training(comparison) >= least) continue;
      least = effect_on_training(comparison);
      best = Winner{i, j};
    }
  if (!best || among < 2) return std::nullopt;
  best->among = among;
  return best;
}

std::string confirmation_directory(const std::string& results) {
  return (std::filesystem::path(results) / kConfirmFolder).string();
}

void read_confirmation(const std::string& results, Report& report) {
  const std::string directory = confirmation_directory(results);
  std::error_code ignored;
  if (!std::filesystem::exists(std::filesystem::symlink_status(directory, ignored))) return;
  const Result<LedgerData> data = read_ledger(directory);
  if (!data) {
    report.confirmation_unread = below_results(data.error().message, directory);
    return;
  }
  const Report fresh = judge_results(*data);
  if (fresh.cells.size() != 1 || fresh.cells[0].comparisons.size() != 1) {
    report.confirmation_unread =
        fmt::format("{}: has {} cells, and not one comparison alone, so `assay confirm` did not "
                    "write it; move it away and confirm again",
                    kConfirmFolder,
                    fresh.cells.size());
    return;
  }
  const Comparison& one = fresh.cells[0].comparisons[0];
  Confirmation& found = report.confirmation.emplace();
  found.cell = fresh.cells[0].cell.name;
  found.a = one.a, found.b = one.b;
  found.effect = one.effect;
  found.verdict = one.verdict;
  found.complete = fresh.complete();
  found.measured_launches =
      static_cast<int>(std::ranges::count_if(fresh.launches, [](const LaunchSummary& launch) {
        return launch.row.kind == LaunchKind::Timed && launch.rounds > 0 && !launch.replaced &&
               !launch.set_aside;
      }));
  if (const LaunchRow* launch = first_launch(fresh))
    found.build = launch->identity.build, found.first_utc = launch->started_utc;
}

std::string winner_text(const Report& report) {
  const std::optional<Winner>& winner = report.winner;
  if (!winner) return "";
  const CellReport& cell = report.cells[winner->cell];
  const Comparison& comparison = cell.comparisons[winner->comparison];
  const std::string what = fmt::format("{}: {} shortens training the most among {} comparisons",
                                       cell.cell.name,
                                       comparison_text(comparison),
                                       winner->among);
  const std::optional<Confirmation>& fresh = report.confirmation;
  const bool same = fresh && fresh->cell == cell.cell.name && fresh->a == comparison.a &&
                    fresh->b == comparison.b;
  if (same && fresh->effect && fresh->complete) {
    const LaunchRow* launch = first_launch(report);
    return fmt::format("{}: {} here, {}.",
                       what,
                       effect_text(comparison.effect->theta),
                       confirmed_text(*fresh, launch == nullptr ? "" : launch->identity.build));
  }
  const std::string doubt = what + "; chosen for its result, it likely looks better than it is";
  if (!report.confirmation_unread.empty())
    return fmt::format(
        "{}; its fresh launches cannot be read: {}.", doubt, report.confirmation_unread);
  if (same) return doubt + "; its fresh launches are not complete: `assay confirm` continues them.";
  if (fresh)
    return fmt::format("{}; the fresh launches in {}/ are of another comparison, {}: {} -> {}.",
                       doubt,
                       kConfirmFolder,
                       fresh->cell,
                       fresh->a,
                       fresh->b);
  const bool can_run = stored_config(cell.cell.config_json).contains("seed"); // a demo cannot
  return doubt + (can_run ? "; `assay confirm` measures it again in fresh launches." : ".");
}

} // namespace assay
