// What families with groups of heads, which are rotated as a whole, have in common.
#pragma once

#include "core/result.h"
#include "model/config/family_config.h"

namespace assay {

// A head width that is given sets the rotary width too.
inline void rotate_whole_heads(TrainConfig& c, const Preset&) {
  if (c.rope_dim == 0) c.rope_dim = c.head_dim;
}

inline Result<bool> check_grouped_heads(const TrainConfig& c) {
  if (c.heads % c.kv_groups != 0)
    return fail("key 'kv_groups' ({}) must divide 'heads' ({})", c.kv_groups, c.heads);
  if (c.rope_dim != c.head_dim)
    return fail("key 'rope_dim' ({}) must equal 'head_dim' ({}) in family {}: leave it out",
                c.rope_dim,
                c.head_dim,
                c.family);
  return true;
}

} // namespace assay
