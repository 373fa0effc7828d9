// GradientSync: averages the gradients of several ranks during the backward pass, with LibTorch's
// own engine (c10d::Reducer; Li et al., PyTorch Distributed, VLDB 2020, section 3.2). Gradients
// fill buckets in the order in which they come; a full bucket is all-reduced while the rest of the
// backward pass continues. After a pass g_i = (1/N) sum_r g_i^r on every rank.
#pragma once

#include <ATen/ATen.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "model/config/train_config.h"
#include "model/ddp/process_group.h"
#include "model/ddp/rank_sync.h"
#include "model/families/family.h"

namespace c10d {
class Reducer;
}

namespace assay {

class GradientSync : public RankSync {
public:
  // Collective. Throws bad input that names the rank and the parameter when the ranks' parameters
  // differ in number, name, shape or value.
  GradientSync(const std::vector<Parameter>& parameters,
               const TrainConfig& config,
               std::shared_ptr<ProcessGroup> ranks);
  ~GradientSync() override;
  GradientSync(const GradientSync&) = delete;
  GradientSync& operator=(const GradientSync&) = delete;

  bool averages(std::size_t index, std::size_t count) const override;
  void before_forward() override;
  void before_backward(const at::Tensor& loss) override;
  void after_backward() override;

private:
  TrainConfig config_;
  std::shared_ptr<ProcessGroup> ranks_;
  std::int64_t parameter_count_;
  std::int64_t passes_ = 0; // that averaged
  std::unique_ptr<c10d::Reducer> reducer_;
};

} // namespace assay
