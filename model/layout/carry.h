// What layers keep of the tokens before, where one sequence is read in pieces (generation).
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <utility>

namespace assay {

// Recurrent layers read their slots before a piece and write them after it. Only without gradients.
class Carry {
public:
  // Of the layer at this address; undefined before the first piece.
  at::Tensor& slot(const void* layer, int number) { return slots_[{layer, number}]; }

  // The `count` rows of x [T, D] before each piece, in front of it: [count + T, D], rows of zeros
  // before the sequence. The slot then holds the last rows.
  at::Tensor
  with_rows_before(const void* layer, int number, const at::Tensor& x, std::int64_t count) {
    at::Tensor& before = slot(layer, number);
    if (!before.defined()) before = at::zeros({count, x.size(1)}, x.options());
    const at::Tensor joined = at::cat({before, x});
    before = joined.narrow(0, x.size(0), count).clone();
    return joined;
  }

private:
  std::map<std::pair<const void*, int>, at::Tensor> slots_;
};

} // namespace assay
