// Loss scaler (arXiv 1710.03740, section 3.2): off, or a dynamic power of two. Nothing here waits
// for the device: an overflow is a device flag that the fused optimizer reads.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "model/config/train_config.h"
#include "model/training/update/optimizer.h"

namespace assay {

class LossScaler {
public:
  LossScaler(const TrainConfig& config, at::Device device);

  at::Tensor scale(const at::Tensor& loss) const;
  // What scale() multiplies by: 0-dim, fp32, on the device; undefined when off.
  at::Tensor device_scale() const;
  // Divides the gradients by the scale and looks for inf and NaN. Returns the flag for AdamW::step,
  // undefined when off.
  at::Tensor unscale(const std::vector<at::Tensor>& gradients);
  // The flag that unscale() returns, for an update that looks for inf and NaN by itself.
  at::Tensor found_inf() const { return found_inf_; }
  // Doubles the scale after scale_growth_interval good steps, halves it after an overflow.
  void update();

  std::int64_t skipped_steps() const; // waits for the device when the scaler is on
  double current_scale() const;       // likewise
  NamedTensors
  state() const; // "scaler.scale", "scaler.growth_tracker", "scaler.skipped"; empty when off

private:
  bool dynamic_;
  std::int64_t growth_interval_;
  at::Tensor scale_, growth_tracker_, found_inf_, skipped_;
};

} // namespace assay
