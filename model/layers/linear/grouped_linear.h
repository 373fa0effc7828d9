// Linears of several groups of rows, each with a weight of its own, as one product: LibTorch's
// _grouped_mm, whose kernel reads the groups' borders on the device.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

namespace assay {

// A CPU's product of fewer rows adds in another order. Who gathers rows for a product fills up to
// so many, since a token must not depend on how many others stand beside it.
inline constexpr std::int64_t kFewRows = 8;

// y_r = x_r W_g^T for the rows r of group g: x [R, in], weight [G, out, in], and `ends` [G], int32
// on x's device: the first row behind each group. Groups may be empty. Rows behind the last group
// are not computed: whatever their y and dx hold, the caller must not use. y [R, out] and dx have
// the type of `copy`, which is the weight rounded (dx then x's); dW is rounded to it and returned
// in the weight's type.
//
// On a GPU in 16 bits one kernel a product, without a wait, which needs in and out to be multiples
// of 8. Elsewhere a product for each group, whose borders the host reads.
at::Tensor grouped_linear(const at::Tensor& x,
                          const at::Tensor& weight,
                          const at::Tensor& copy,
                          const at::Tensor& ends);

// The weight in `type` for `copy`: a kept one where there is one. Without a gradient, also where no
// rounding makes it another tensor.
at::Tensor rounded_weight(const at::Tensor& weight, at::ScalarType type);

// x W^T of the first end[0] rows of x [R, in], by weight [out, in]; `end` [1] as `ends` above.
at::Tensor first_rows_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& end);

} // namespace assay
