#include "experiments/analysis/calibration.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/ledger/calibration.h"
#include "core/ledger/stored_config.h"
#include "core/statistics/statistics.h"
#include "experiments/analysis/wording.h"
#include "experiments/evidence/cell_view.h"

namespace assay {

namespace {

// "" where a stored configuration lacks the key.
std::string config_word(const nlohmann::json& config, const char* key) {
  const auto found = config.find(key);
  return found != config.end() && found->is_string() ? found->get<std::string>() : "";
}

CalibrationRow row_of_machine(const Identity& id, const CellRow& cell) {
  CalibrationRow row;
  row.build = id.build;
  row.host = id.host;
  row.cpu = id.cpu;
  row.cores = id.cores;
  row.gpu = id.gpu;
  row.device = config_word(stored_config(cell.config_json), "device");
  return row;
}

// The machine, build and device of all timed launches that count, or nothing.
std::optional<CalibrationRow> one_machine(const LedgerData& data) {
  std::optional<CalibrationRow> one;
  for (const LaunchRow& launch : data.launches) {
    if (!is_counted(launch) || data.superseded(launch.id)) continue;
    const CalibrationRow row = row_of_machine(launch.identity, data.cell(launch.cell));
    if (one && machine_key(*one) != machine_key(row)) return std::nullopt;
    one = row;
  }
  return one;
}

// The only comparison of a cell, with an interval.
Result<const Comparison*> measured_comparison(const Report& report, const char* cell) {
  for (const CellReport& known : report.cells) {
    if (known.cell.name != cell || known.comparisons.size() != 1) continue;
    const Comparison& one = known.comparisons.front();
    if (one.effect && one.effect->theta.at_95) return &one;
    return fail("cell '{}' has no interval: {}",
                cell,
                one.verdict.reasons.empty() ? "too few launches count"
                                            : one.verdict.reasons.front().text);
  }
  return fail("has no cell '{}' with one comparison, so `assay calibrate` did not write it", cell);
}

CalibrationReading reading_of(const Comparison& comparison) {
  const Estimate& theta = comparison.effect->theta;
  return {theta.value,
          theta.at_95->lower,
          theta.at_95->upper,
          std::string(to_string(comparison.verdict.validity)),
          std::string(to_string(comparison.verdict.speed))};
}

// What the planted waits really did: ln(time ratio), mean over the launches that count.
Result<double> planted_truth(const LedgerData& data, const Comparison& planted) {
  double sum = 0;
  for (const LaunchEffect& launch : planted.effect->launches) {
    const auto metric =
        std::find_if(data.metrics.begin(), data.metrics.end(), [&](const MetricRow& row) {
          return row.launch == launch.launch && row.variant == planted.b_id &&
                 row.path == kPlantedMetric;
        });
    if (metric == data.metrics.end() || !std::isfinite(metric->value))
      return fail("launch {} has no metric {}: too few steps to know what was planted",
                  launch.launch,
                  kPlantedMetric);
    sum += metric->value;
  }
  return sum / static_cast<double>(planted.effect->launches.size());
}

// Of launches alone, by the t interval: beyond 95 %, where a good machine would be in one of
// twenty.
bool excludes(const CalibrationReading& reading, double truth, int launches) {
  const double df = launches - 1, half = (reading.high - reading.low) / 2;
  const double wider =
      student_quantile(1 - kCalibrationAlarm / 2, df) / student_quantile(0.975, df);
  return std::abs(reading.effect - truth) > wider * half;
}

bool sees_nothing_there(const CalibrationRow& row) {
  return excludes(row.aa, 0, row.launches);
}

bool misreads(const CalibrationRow& row) {
  return excludes(row.planted, row.planted_truth, row.launches);
}

// "a planted 2 %"
std::string planted_words(const CalibrationRow& row) {
  return "a planted " + share_text(row.planted_share);
}

// What keeps a reading from its verdict, and what to do about it.
std::string undecided_text(const CalibrationReading& reading, const std::string& what) {
  if (reading.validity != to_string(Validity::Ok))
    return fmt::format(
        "undecided: {} is {}; measure it again on a quiet machine", what, reading.validity);
  return fmt::format(
      "undecided: the interval of {} is too wide; calibrate a cell of more rounds, or "
      "on a quieter machine",
      what);
}

bool decides(const CalibrationReading& reading, Speed speed) {
  return reading.validity == to_string(Validity::Ok) && reading.speed == to_string(speed);
}

// "+0.03 % [-0.10, +0.15] % (NO_EFFECT)"
std::string reading_text(const CalibrationReading& reading) {
  return fmt::format("{} {} ({})",
                     change_text(std::expm1(reading.effect)),
                     interval_text(Interval{reading.low, reading.high}),
                     reading.validity == to_string(Validity::Ok) ? reading.speed
                                                                 : reading.validity);
}

} // namespace

std::string_view to_string(CalibrationState state) {
  switch (state) {
  case CalibrationState::Passed:
    return "passed";
  case CalibrationState::Undecided:
    return "undecided";
  case CalibrationState::Alarm:
    return "alarm";
  }
  return "unknown";
}

CalibrationState calibration_state(const CalibrationRow& row) {
  if (sees_nothing_there(row) || misreads(row)) return CalibrationState::Alarm;
  return decides(row.aa, Speed::NoEffect) && decides(row.planted, Speed::Slower)
             ? CalibrationState::Passed
             : CalibrationState::Undecided;
}

bool is_calibration(const Report& report) {
  return report.cells.size() == 2 && report.cells[0].cell.name == kAaCell &&
         report.cells[1].cell.name == kPlantedCell;
}

Result<CalibrationRow> calibration_row(const LedgerData& data) {
  const Report report = judge_results(data);
  const Result<const Comparison*> aa = measured_comparison(report, kAaCell);
  if (!aa) return aa.error();
  const Result<const Comparison*> planted = measured_comparison(report, kPlantedCell);
  if (!planted) return planted.error();
  const Result<double> truth = planted_truth(data, **planted);
  if (!truth) return truth.error();
  std::optional<CalibrationRow> row = one_machine(data);
  if (!row) return fail("was measured on several machines, and a calibration is of one");
  const nlohmann::json config = stored_config(data.variant((*planted)->b_id).config_json);
  for (const LaunchRow& launch : data.launches) row->utc = std::max(row->utc, launch.ended_utc);
  row->cell = data.spec.name;
  row->preset = config_word(config, "preset");
  row->precision = config_word(config, "precision");
  row->unit_ns = (*aa)->effect->a_ns;
  row->launches = static_cast<int>(
      std::min((*aa)->effect->launches.size(), (*planted)->effect->launches.size()));
  row->aa = reading_of(**aa);
  row->planted = reading_of(**planted);
  row->planted_truth = *truth;
  if (const auto share = config.find("planted_spin"); share != config.end() && share->is_number())
    row->planted_share = share->get<double>();
  return *row;
}

std::optional<CalibrationRow> cited_calibration(const LedgerData& data) {
  const std::optional<CalibrationRow> here = one_machine(data);
  std::optional<CalibrationRow> newest;
  for (const CalibrationRow& row : data.calibrations)
    if (here && machine_key(row) == machine_key(*here) && (!newest || newest->utc <= row.utc))
      newest = row;
  return newest;
}

std::string calibration_conclusion(const CalibrationRow& row) {
  if (sees_nothing_there(row))
    return "ALARM: this machine sees a difference where there is none: the 99.5 % interval of the "
           "A/A comparison excludes 0";
  if (misreads(row))
    return fmt::format(
        "ALARM: this machine misreads {}: the 99.5 % interval excludes what was planted",
        planted_words(row));
  if (!decides(row.aa, Speed::NoEffect)) return undecided_text(row.aa, "the A/A comparison");
  if (!decides(row.planted, Speed::Slower))
    return undecided_text(row.planted, "the planted comparison");
  return fmt::format("this machine finds {}, and no effect where there is none",
                     share_text(row.planted_share));
}

std::string calibration_text(const CalibrationRow& row) {
  return fmt::format("{}; A/A {}; {} planted, read as {}; {} of {}, {} {} on {}, {}",
                     calibration_conclusion(row),
                     reading_text(row.aa),
                     change_text(std::expm1(row.planted_truth)),
                     reading_text(row.planted),
                     launch_count_text(static_cast<std::size_t>(row.launches)),
                     row.cell,
                     row.preset,
                     row.precision,
                     row.device,
                     row.utc);
}

std::string calibration_directory(const std::string& results) {
  return (std::filesystem::path(results) / "calibrate").string();
}

} // namespace assay
