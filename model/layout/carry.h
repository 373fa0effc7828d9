// What layers keep of the tokens before, where one sequence is read in pieces (generation).
#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace assay {

// Layers read their slots before a piece and write them after it: recurrent ones their states,
// attention all keys and values so far. Only without gradients.
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

  // The rows of all pieces so far, those of x [T, ...] last. They lie in a slot with room for more,
  // so that a sequence is copied a bounded number of times.
  at::Tensor appended(const void* layer, int number, const at::Tensor& x) {
    at::Tensor& kept = slot(layer, number);
    std::int64_t& rows = rows_[{layer, number}];
    const std::int64_t all = rows + x.size(0);
    if (!kept.defined() || kept.size(0) < all) {
      std::vector<std::int64_t> sizes = x.sizes().vec();
      sizes.front() = std::max<std::int64_t>(2 * all, kLeastRows);
      at::Tensor larger = at::empty(sizes, x.options());
      if (rows > 0) larger.narrow(0, 0, rows).copy_(kept.narrow(0, 0, rows));
      kept = std::move(larger);
    }
    kept.narrow(0, rows, x.size(0)).copy_(x);
    rows = all;
    return kept.narrow(0, 0, all);
  }

private:
  static constexpr std::int64_t kLeastRows = 64;

  std::map<std::pair<const void*, int>, at::Tensor> slots_;
  std::map<std::pair<const void*, int>, std::int64_t> rows_; // of appended()
};

} // namespace assay
