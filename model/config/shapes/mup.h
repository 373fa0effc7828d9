// muP for Adam (Yang et al. 2022, arXiv 2203.03466, table 8; in the form of table 3, without
// multipliers): a learning rate that was found at d_model = mup_width holds at every d_model. With
// m = d_model / mup_width:
//
//   matrix       initial deviation           learning rate   decay a step
//   embedding    as without                  lr              lr * weight_decay
//   of a layer   as without: 1 / sqrt(in)    lr / m          the same
//   head         that without / sqrt(m)      lr / m          the same
//   router       that without / sqrt(m)      lr / m          none
//
// Vectors and convolutions keep lr. What a layer's matrices read is to grow with d_model: heads
// (head_dim stays, and with it the scale of attention), kv_rank, ffn_dim, expert_dim. Muon's steps
// need no such factor: muon_lr holds as it is.
#pragma once

#include "core/result.h"
#include "model/config/family_config.h"
#include "model/config/train_config.h"

namespace assay {

// m; 1 with mup_width = 0.
inline double mup_ratio(const TrainConfig& c) {
  return c.mup_width > 0 ? static_cast<double>(c.d_model) / static_cast<double>(c.mup_width) : 1;
}

inline Result<bool> check_mup(const TrainConfig& c) {
  if (c.mup_width == 0 || family_of(c).form.mup) return true;
  return fail("key 'mup_width' means nothing in family {}: its initial values are no muP's; remove "
              "it, or take family deltanet_mla",
              c.family);
}

} // namespace assay
