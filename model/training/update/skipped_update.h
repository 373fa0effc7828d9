// An update that may turn out to be skipped: what it changes, as it was before.
#pragma once

#include <ATen/ATen.h>

#include <vector>

namespace assay {

class SkippedUpdate {
public:
  // Copies `changed` where `found_inf` (1 element, or undefined: nothing is skipped) may be 1.
  SkippedUpdate(const std::vector<at::Tensor>& changed, const at::Tensor& found_inf)
      : found_inf_(found_inf) {
    if (!found_inf.defined()) return;
    changed_ = changed;
    for (const at::Tensor& tensor : changed) before_.push_back(tensor.detach().clone());
  }
  // Puts the copies back where it is 1, without waiting for the device.
  void put_back() const {
    for (std::size_t i = 0; i < before_.size(); ++i)
      changed_[i].copy_(at::where(found_inf_.gt(0), before_[i], changed_[i]));
  }

private:
  at::Tensor found_inf_;
  std::vector<at::Tensor> changed_, before_;
};

} // namespace assay
