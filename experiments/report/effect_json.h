// What a comparison measured, as objects of report.json (docs/report-schema.md).
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "experiments/analysis/report.h"

namespace assay {

nlohmann::ordered_json number_json(double value); // dump() writes null for NaN and infinity
nlohmann::ordered_json text_json(const std::string& value);
nlohmann::ordered_json interval_json(const Interval& value);

template <class T, class F>
nlohmann::ordered_json or_null(const std::optional<T>& value, F convert) {
  return value ? convert(*value) : nlohmann::ordered_json(nullptr);
}

nlohmann::ordered_json estimate_json(const Estimate& value);
nlohmann::ordered_json effect_json(const Effect& value);
nlohmann::ordered_json memory_json(const MemoryEffect& value);
nlohmann::ordered_json energy_json(const EnergyEffect& value);
nlohmann::ordered_json scaling_json(const Comparison& comparison); // or null
nlohmann::ordered_json time_to_loss_json(const TimeToLoss& value);
nlohmann::ordered_json loss_json(const LossTest& value);
nlohmann::ordered_json data_wait_json(const DataWait& value);
nlohmann::ordered_json first_step_json(const FirstStep& value);
nlohmann::ordered_json end_to_end_json(const EndToEnd& value);

} // namespace assay
