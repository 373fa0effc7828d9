// Adds up the costs of a step's operations (step_cost.cpp).
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "model/config/cost/launch_counts.h"
#include "model/config/cost/step_cost.h"

namespace assay::step_costs {

using namespace launch_counts;

inline constexpr double kTraining = 3; // forward, and twice as much backward
inline constexpr double kWide = 4;     // bytes of an element in fp32

using Matrix = std::pair<std::int64_t, std::int64_t>; // in, out

// What writes x, and y's gradient, of a linear.
struct Around {
  bool wide = false;       // x is in fp32
  bool shared = false;     // x is the last linear's, whose cast to FP8 serves both
  bool x_largest = false;  // a kernel that finds the largest value writes x
  bool dy_largest = false; // and y's gradient
  bool x_written = false;  // with delayed scales it writes x in FP8, instead of 16 bits
  bool dy_written = false; // and y's gradient
};

// Adds up operations of one name and peak.
class Costs {
public:
  explicit Costs(const StepShape& shape) : shape_(shape), fp8_(shape.fp8_linears) {}

  // Whether the linears that follow are of the delta rule.
  void of_delta_rule(bool yes) { fp8_ = shape_.fp8_linears && (yes || !shape_.fp8_delta_alone); }

  void add(const std::string& name,
           double flops,
           double bytes,
           std::int64_t launches,
           Peak peak = Peak::Compute) {
    auto op = std::find_if(ops_.begin(), ops_.end(), [&](const OpCost& x) {
      return x.name == name && x.peak == peak;
    });
    if (op == ops_.end()) op = ops_.insert(op, {name, 0, 0, 0, peak});
    op->flops += flops;
    op->bytes += bytes;
    op->kernels += launches;
  }
  // y = x W^T for every token, its gradients, and the casts of W and x; launches of the products
  // are counted by their callers, but for those of a sum that is split.
  void linear(const std::string& name, std::int64_t in, std::int64_t out, const Around& around) {
    matrices_.emplace_back(in, out);
    if (fp8_ && in % kFp8Multiple == 0) return fp8_linear(name, in, out, around);
    plain_linear(name, in, out, around.wide);
  }
  // The same in the compute type, whatever the others run in. `wide`: as Around's.
  void plain_linear(const std::string& name, std::int64_t in, std::int64_t out, bool wide) {
    const auto tokens = static_cast<double>(shape_.tokens), k = static_cast<double>(in),
               n = static_cast<double>(out), e = static_cast<double>(shape_.compute_bytes);
    add(name, kTraining * 2 * tokens * k * n, kTraining * e * (tokens * (k + n) + k * n), 0);
    if (shape_.compute_bytes == 4) return;
    // Forward 4 -> e bytes of a weight, backward e -> 4 of its gradient; the input likewise.
    const bool kept = shape_.kept_weights;
    add("casts",
        0,
        2 * (4 + e) * ((kept ? 0 : k * n) + (wide ? tokens * k : 0)),
        kCastLaunches * ((kept ? 0 : 1) + (wide ? 1 : 0)));
    add(name, 0, kept ? (4 - e) * k * n : 0, kSplitLaunches); // a kept weight's gradient is fp32
    keep(in * out);
  }
  // The weights of `count` linears in one parameter, whose products others count.
  void stacked_weights(std::int64_t count, std::int64_t in, std::int64_t out) {
    matrices_.insert(matrices_.end(), static_cast<std::size_t>(count), {in, out});
    if (shape_.compute_bytes == 4) return;
    const auto all = static_cast<double>(count * in * out),
               e = static_cast<double>(shape_.compute_bytes);
    add("casts",
        0,
        (shape_.kept_weights ? 1 : 2) * (4 + e) * all, // kept: of the gradient alone
        0);
    keep(count * in * out);
  }
  // The bias of a linear: its gradient reads that of every result.
  void bias(const std::string& name, std::int64_t out) {
    if (!shape_.form.biases) return;
    if (shape_.epilogue == Epilogue::All) return add("casts", 0, 0, 1); // a product sums it
    const bool half = shape_.compute_bytes != 4, kept = shape_.kept_weights && !fp8_;
    const auto e = static_cast<double>(shape_.compute_bytes);
    add(name,
        0,
        e * static_cast<double>(shape_.tokens * out),
        kept ? kKeptBiasLaunches : kBiasLaunches + (fp8_ ? 1 : 0));
    // A kept weight's linear sums in fp32.
    if (half) add("casts", 0, 0, kept ? 1 : kCastLaunches);
  }
  // What another one has added up, of other numbers of tokens.
  void take_all_of(Costs& other) {
    for (const OpCost& op : other.ops_) add(op.name, op.flops, op.bytes, op.kernels, op.peak);
    matrices_.insert(matrices_.end(), other.matrices_.begin(), other.matrices_.end());
    once_.insert(once_.end(), other.once_.begin(), other.once_.end());
    kept_ += other.kept_, token_casts_ += other.token_casts_;
  }
  // A weight that has a copy.
  void keep(std::int64_t weight) {
    if (shape_.kept_weights) kept_ += weight;
  }
  std::int64_t kept() const { return kept_; }
  const std::vector<Matrix>& matrices() const { return matrices_; }
  // An operation that reads `in` and writes `out` elements a token, forward.
  void stream(const std::string& name, double in, double out, double bytes, std::int64_t launches) {
    add(name, 0, kTraining * static_cast<double>(shape_.tokens) * (in + out) * bytes, launches);
  }
  std::vector<OpCost> take() { return std::move(ops_); }
  // Once an optimizer step, whatever the number of micro-batches: casts of weights to FP8, and the
  // fills of all casts.
  std::vector<OpCost> take_once() {
    const std::int64_t casts = shape_.micro_batches * token_casts_,
                       fills = shape_.fp8_delayed
                                   ? 1
                                   : (casts + kFp8CastsPerFill - 1) / kFp8CastsPerFill;
    if (casts > 0) once_.push_back({"casts", 0, 0, fills + kFp8WeightLaunches});
    return std::move(once_);
  }

private:
  // Operands of 1 byte, results of 2 (y, dx) and 4 (dW).
  void
  fp8_linear(const std::string& name, std::int64_t in, std::int64_t out, const Around& around) {
    const auto tokens = static_cast<double>(shape_.tokens), k = static_cast<double>(in),
               n = static_cast<double>(out);
    const double forward = tokens * k + k * n + 2 * tokens * n,
                 input = tokens * n + k * n + 2 * tokens * k, weight = tokens * (n + k) + 4 * k * n;
    add(name, kTraining * 2 * tokens * k * n, forward + input + weight, 0, Peak::Fp8);
    cast(tokens * n, 2, around.dy_largest, around.dy_written);
    if (!around.shared) cast(tokens * k, around.wide ? 4 : 2, around.x_largest, around.x_written);
    if (around.wide) add("casts", 0, (2 + 4) * tokens * k, 1); // dx
    once_.push_back({"casts", 0, (2 * 4 + 2) * k * n, 0, Peak::Compute});
  }
  // Elements of `bytes`, read for the largest value unless it is known, and read again; written in
  // both orders. With delayed scales read once, and not where the kernel before writes both orders,
  // which have the bytes of 16 bits.
  void cast(double elements, double bytes, bool known, bool written) {
    ++token_casts_;
    if (shape_.fp8_delayed && written) return;
    const int reads = known || shape_.fp8_delayed ? 1 : 2;
    add("casts", 0, (reads * bytes + 2) * elements, reads);
  }

  const StepShape& shape_;
  bool fp8_;                     // linears multiply in FP8
  std::vector<Matrix> matrices_; // of the layers' linears
  std::int64_t kept_ = 0;        // weights with a copy
  std::int64_t token_casts_ = 0; // to FP8, of a micro-batch
  std::vector<OpCost> ops_, once_;
};

} // namespace assay::step_costs
