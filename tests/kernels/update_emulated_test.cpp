// kernels/update on the CPU against plain fp64 loops.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "tests/kernels/emulated_warp.h"

#include "kernels/update/update.cuh"

namespace assay::update {
namespace update_emulated_test {

constexpr Rule kRule{.9, .95, 1e-8, 1.0, .01};
constexpr float kRate = 2e-3F;
constexpr double kWide = 2e-6; // of fp32 results, relative to the largest

struct Sizes {
  std::int64_t size;
  float decay;
  bool average, copy;
  int shift; // of the addresses, in elements: above 0 no four elements are aligned
};

struct Parameter {
  Sizes sizes;
  std::vector<float> weight, gradient, first, second, average;
  std::vector<std::uint16_t> copy;
  std::vector<double> exact_weight, exact_first, exact_second, exact_average;
};

std::vector<float> normal(std::mt19937& generator, std::int64_t count, float scale) {
  std::normal_distribution<float> draw(0, scale);
  std::vector<float> x(static_cast<std::size_t>(count));
  for (float& value : x) value = draw(generator);
  return x;
}

std::vector<double> wide(const std::vector<float>& x) {
  return {x.begin(), x.end()};
}

// A model, its table, and what the host gives the launches.
class Model {
public:
  explicit Model(const std::vector<Sizes>& all, CopyType type = CopyType::Bf16) : type_(type) {
    std::mt19937 generator(3);
    for (const Sizes& s : all) {
      const std::int64_t room = s.size + s.shift;
      Parameter p{s, normal(generator, room, .5F), {}, {}, {}, {}, {}, {}, {}, {}, {}};
      p.first.assign(p.weight.size(), 0), p.second = p.first, p.average = p.weight;
      p.copy.assign(p.weight.size(), 0x1234);
      p.exact_weight = wide(p.weight), p.exact_average = wide(p.average);
      p.exact_first = p.exact_second = wide(p.first);
      parameters.push_back(p);
    }
    draw_gradients(1, 0);
    for (std::size_t i = 0; i < parameters.size(); ++i)
      for (std::int64_t at = 0; at < parameters[i].sizes.size; at += kBlockElements)
        blocks_.push_back({static_cast<int>(i), static_cast<int>(at / kBlockElements)});
    partial_.resize(blocks_.size());
  }

  void draw_gradients(float scale, unsigned seed) {
    std::mt19937 generator(seed + 10);
    for (Parameter& p : parameters)
      p.gradient = normal(generator, static_cast<std::int64_t>(p.weight.size()), scale);
  }

  // One update by the kernels; `scale` null: without a loss scaler.
  void update(const float* scale) {
    std::vector<Tensor> rows;
    Squares squares{};
    for (Parameter& p : parameters) {
      const int s = p.sizes.shift;
      rows.push_back({p.weight.data() + s,
                      p.first.data() + s,
                      p.second.data() + s,
                      p.sizes.average ? p.average.data() + s : nullptr,
                      p.sizes.copy ? p.copy.data() + s : nullptr,
                      p.sizes.size,
                      p.sizes.decay});
      squares.gradients.at[rows.size() - 1] = p.gradient.data() + s;
    }
    squares.tensors = rows.data(), squares.blocks = blocks_.data();
    squares.partial = partial_.data(), squares.scale = scale;
    const auto blocks = static_cast<unsigned>(blocks_.size());
    emu::launch(dim3(blocks), kThreads, 0, [&] { square_sums(squares); });
    const FactorsOf of{partial_.data(),
                       static_cast<int>(blocks),
                       &kRate,
                       scale,
                       &steps,
                       &norm,
                       scale == nullptr ? nullptr : &found_inf,
                       &factors_,
                       kRule};
    emu::launch(dim3(1), kFactorThreads, 0, [&] { factors(of); });
    const Update all{rows.data(),
                     blocks_.data(),
                     &factors_,
                     0,
                     type_,
                     static_cast<float>(1 - kRule.beta1),
                     static_cast<float>(1 - kRule.beta2),
                     static_cast<float>(kRule.eps),
                     static_cast<float>(kRule.average),
                     squares.gradients};
    emu::launch(dim3(blocks * kParts), kThreads, 0, [&] { update_weights(all); });
  }

  // The same in fp64, by the formulas of docs/model.md.
  void update_exactly(double scale, bool skip) {
    double squares = 0;
    for (const Parameter& p : parameters)
      for (std::size_t i = first(p); i < p.weight.size(); ++i)
        squares += std::pow(p.gradient[i] / scale, 2);
    exact_norm = std::sqrt(squares);
    if (!skip) ++exact_steps;
    for (Parameter& p : parameters)
      for (std::size_t i = first(p); i < p.weight.size(); ++i) update_exactly(p, i, scale, skip);
  }

  std::vector<Parameter> parameters;
  float steps = 0, norm = -1, found_inf = -1;
  double exact_norm = 0, exact_steps = 0;

  static std::size_t first(const Parameter& p) { return static_cast<std::size_t>(p.sizes.shift); }

private:
  void update_exactly(Parameter& p, std::size_t i, double scale, bool skip) const {
    double &w = p.exact_weight[i], &m = p.exact_first[i], &v = p.exact_second[i];
    if (!skip) {
      const double g = p.gradient[i] / scale * std::min(1., kRule.max_norm / (exact_norm + 1e-6));
      m = kRule.beta1 * m + (1 - kRule.beta1) * g;
      v = kRule.beta2 * v + (1 - kRule.beta2) * g * g;
      w -= kRate * p.sizes.decay * w;
      w -= kRate * (m / (1 - std::pow(kRule.beta1, exact_steps))) /
           (std::sqrt(v / (1 - std::pow(kRule.beta2, exact_steps))) + kRule.eps);
    }
    if (p.sizes.average) p.exact_average[i] += kRule.average * (w - p.exact_average[i]);
  }

  CopyType type_;
  std::vector<Block> blocks_;
  std::vector<Partial> partial_;
  Factors factors_{};
};

// Sizes around a word, a block's part and a block; unaligned addresses; without average or copy.
const std::vector<Sizes> kSizes{{1, 0, true, false, 0},
                                {7, .1F, true, true, 0},
                                {kBlockElements, .1F, true, true, 0},
                                {kBlockElements + 4097, .1F, true, true, 0},
                                {4099, 0, false, true, 0},
                                {4096, .1F, false, false, 0},
                                {5000, .1F, true, true, 1}};

void expect_near(const std::vector<float>& seen,
                 const std::vector<double>& exact,
                 std::size_t from) {
  double largest = 0;
  for (std::size_t i = from; i < exact.size(); ++i) largest = std::max(largest, std::abs(exact[i]));
  for (std::size_t i = from; i < exact.size(); ++i)
    ASSERT_NEAR(seen[i], exact[i], kWide * largest) << i;
}

void expect_exact(const Model& model) {
  EXPECT_NEAR(model.norm / model.exact_norm, 1, 1e-6);
  EXPECT_EQ(model.steps, model.exact_steps);
  for (const Parameter& p : model.parameters) {
    const std::size_t from = Model::first(p);
    expect_near(p.weight, p.exact_weight, from);
    expect_near(p.first, p.exact_first, from);
    expect_near(p.second, p.exact_second, from);
    expect_near(p.average, p.exact_average, from);
  }
}

void expect_copies(const Model& model, CopyType type) {
  for (const Parameter& p : model.parameters)
    for (std::size_t i = Model::first(p); i < p.weight.size(); ++i) {
      const std::uint32_t rounded =
          type == CopyType::Bf16 ? simt::bf16_bits(p.weight[i]) : simt::fp16_bits(p.weight[i]);
      ASSERT_EQ(p.copy[i], p.sizes.copy ? rounded : 0x1234U) << i;
    }
}

TEST(UpdateEmulated, ThreeUpdatesInDouble) {
  for (const CopyType type : {CopyType::Bf16, CopyType::Fp16}) {
    Model model(kSizes, type);
    for (unsigned i = 0; i < 3; ++i) {
      model.draw_gradients(i == 1 ? 1e-5F : 1, i); // the second is not clipped
      model.update(nullptr);
      model.update_exactly(1, false);
      expect_exact(model);
      expect_copies(model, type);
    }
    EXPECT_EQ(model.found_inf, -1) << "written without a loss scaler";
  }
}

// Large enough that a square of a scaled gradient overflows fp32.
TEST(UpdateEmulated, GradientsAreDividedByTheScale) {
  const float scale = std::ldexp(1.F, 80);
  Model model(kSizes);
  model.draw_gradients(scale, 4);
  model.update(&scale);
  model.update_exactly(scale, false);
  expect_exact(model);
  EXPECT_EQ(model.found_inf, 0);
}

// inf, NaN, in a word and in a tail: weights, moments and copies keep their bits, averages move.
TEST(UpdateEmulated, AnOverflowSkipsTheUpdate) {
  const float scale = 8;
  const float inf = std::numeric_limits<float>::infinity();
  for (const auto& [parameter, at, bad] :
       {std::tuple(3, 4097, inf), std::tuple(1, 6, -inf), std::tuple(6, 17, std::nanf(""))}) {
    Model model(kSizes);
    model.update(&scale);
    model.update_exactly(scale, false);
    model.draw_gradients(1, 7);
    model.parameters[static_cast<std::size_t>(parameter)].gradient[static_cast<std::size_t>(at)] =
        bad;
    const Model before = model;
    model.update(&scale);
    EXPECT_EQ(model.found_inf, 1);
    EXPECT_EQ(model.steps, 1);
    for (std::size_t i = 0; i < model.parameters.size(); ++i) {
      EXPECT_EQ(model.parameters[i].weight, before.parameters[i].weight) << i;
      EXPECT_EQ(model.parameters[i].first, before.parameters[i].first) << i;
      EXPECT_EQ(model.parameters[i].second, before.parameters[i].second) << i;
      EXPECT_EQ(model.parameters[i].copy, before.parameters[i].copy) << i;
    }
    for (Parameter& p : model.parameters) p.gradient.assign(p.gradient.size(), 1);
    model.update_exactly(scale, true);
    for (const Parameter& p : model.parameters)
      expect_near(p.average, p.exact_average, Model::first(p));
  }
}

// Without a loss scaler nothing is skipped: what is not finite shows, as with separate passes.
TEST(UpdateEmulated, NotFiniteStaysVisibleWithoutAScaler) {
  Model model(kSizes);
  model.parameters[2].gradient[5] = std::nanf("");
  model.update(nullptr);
  EXPECT_TRUE(std::isnan(model.norm));
  for (const Parameter& p : model.parameters)
    for (std::size_t i = Model::first(p); i < p.weight.size(); ++i)
      ASSERT_TRUE(std::isnan(p.weight[i]));
}

TEST(UpdateEmulated, RepeatsItselfBitForBit) {
  Model a(kSizes), b(kSizes);
  a.update(nullptr);
  emu::order.seed(99);
  b.update(nullptr);
  EXPECT_EQ(a.norm, b.norm);
  for (std::size_t i = 0; i < kSizes.size(); ++i)
    EXPECT_EQ(a.parameters[i].weight, b.parameters[i].weight) << i;
}

} // namespace update_emulated_test
} // namespace assay::update
