// Rows in another order, whose gradient needs no atomics.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

namespace assay {

// x[index / copies]: x [R, D], `index` [R copies] int64, a permutation of copies of rows, and
// `place` [R copies] its inverse. The gradient is a sum in the copies' order.
at::Tensor gathered(const at::Tensor& x,
                    const at::Tensor& index,
                    const at::Tensor& place,
                    std::int64_t copies = 1);

// `place` of a permutation [n] int64.
at::Tensor inverse_of(const at::Tensor& order);

} // namespace assay
