#include "model/layers/fp8/fp8_written.h"

#include <cstddef>

namespace assay {

Fp8Result
fp8_result(std::int64_t rows, std::int64_t columns, at::ScalarType format, const at::Tensor& slot) {
  const std::int64_t padded = fp8_padded(rows);
  const at::TensorOptions bytes = slot.options().dtype(format);
  Fp8Result result;
  result.matrix = {at::empty({padded, columns}, bytes),
                   at::empty({columns, padded}, bytes),
                   slot[offsetof(Fp8Slot, inverse_scale) / sizeof(float)]};
  auto* kept = static_cast<Fp8Slot*>(slot.data_ptr());
  result.to = {padded,
               &kept->largest,
               &kept->now,
               &kept->inverse_scale,
               result.matrix.by_rows.mutable_data_ptr(),
               result.matrix.by_columns.mutable_data_ptr()};
  return result;
}

std::optional<at::Tensor> delayed_slot(bool wanted, const at::Tensor& weight, Fp8Of of) {
  const at::Tensor slot = wanted ? fp8_delayed_slot(weight, of) : at::Tensor();
  return slot.defined() ? std::optional<at::Tensor>(slot) : std::nullopt;
}

} // namespace assay
