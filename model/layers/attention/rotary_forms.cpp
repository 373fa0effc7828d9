#include "model/layers/attention/rotary_forms.h"

#include "model/layers/attention/attention.h"
#include "model/layers/autocast.h"

namespace assay {

at::Tensor rotate_transposed(const at::Tensor& x, const Rotary& rotary) {
  const at::ScalarType type = wide_type(x);
  const at::Tensor heads = x.to(type).transpose(0, 1).contiguous(); // [H, T, D]
  const at::Tensor pairs = heads.unflatten(-1, {x.size(-1) / 2, 2});
  const at::Tensor even = pairs.select(-1, 0).contiguous(), odd = pairs.select(-1, 1).contiguous();
  const auto of_every_head = [&](const at::Tensor& angles) {
    return angles.to(type).transpose(0, 1).expand_as(even).contiguous();
  };
  const at::Tensor cos = of_every_head(rotary.cos), sin = of_every_head(rotary.sin);
  const at::Tensor rotated = at::stack({even * cos - odd * sin, odd * cos + even * sin}, -1);
  return rotated.flatten(-2).transpose(0, 1).contiguous().to(x.scalar_type());
}

at::Tensor rotate_complex(const at::Tensor& x, const Rotary& rotary) {
  const at::ScalarType type = wide_type(x);
  const at::Tensor pairs = at::view_as_complex(x.to(type).unflatten(-1, {x.size(-1) / 2, 2}));
  const at::Tensor rotated = pairs * rotary.turn.to(pairs.scalar_type());
  return at::view_as_real(rotated).flatten(-2).to(x.scalar_type());
}

RotaryForm rotary_form(MlaInputs inputs) {
  if (inputs == MlaInputs::RotaryTranspose) return rotate_transposed;
  if (inputs == MlaInputs::RotaryComplex) return rotate_complex;
  return [](const at::Tensor& x, const Rotary& rotary) {
    return apply_rope(x, rotary.cos, rotary.sin);
  };
}

} // namespace assay
