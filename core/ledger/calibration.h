// The fields of a calibration, each named once: columns of the ledger, keys of the store of this
// machine and of report.json.
#pragma once

#include <tuple>

#include "core/ledger/ledger.h"

namespace assay {

// Calls field("utc", row.utc), … for every one; names never change.
template <class AnyRow, class Field>
void for_each_calibration_field(AnyRow&& row, const Field& field) {
  field("utc", row.utc);
  field("build", row.build);
  field("host", row.host);
  field("cpu", row.cpu);
  field("cores", row.cores);
  field("gpu", row.gpu);
  field("device", row.device);
  field("cell", row.cell);
  field("preset", row.preset);
  field("precision", row.precision);
  field("unit_ns", row.unit_ns);
  field("launches", row.launches);
  field("aa_effect", row.aa.effect);
  field("aa_low", row.aa.low);
  field("aa_high", row.aa.high);
  field("aa_validity", row.aa.validity);
  field("aa_speed", row.aa.speed);
  field("planted_share", row.planted_share);
  field("planted_truth", row.planted_truth);
  field("planted_effect", row.planted.effect);
  field("planted_low", row.planted.low);
  field("planted_high", row.planted.high);
  field("planted_validity", row.planted.validity);
  field("planted_speed", row.planted.speed);
}

// What a calibration is about: it says nothing of another machine or device.
inline auto machine_key(const CalibrationRow& row) {
  return std::tie(row.host, row.cpu, row.cores, row.gpu, row.device);
}

} // namespace assay
