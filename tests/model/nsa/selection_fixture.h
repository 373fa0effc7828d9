// Block selections that the tests of ranges and of selected attention share. Fixed seeds.
#pragma once

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <cstdint>
#include <functional>
#include <ostream>
#include <random>
#include <string>
#include <vector>

namespace assay::testing_model {

struct SelectionCase {
  std::string name;
  // The index in slot i of a query at place t, given the number of blocks that begin at or before t
  // and a random number.
  std::function<std::int64_t(std::int64_t slot, std::int64_t visible, std::uint64_t random)> index;
};

// What GoogleTest prints of a case that fails.
inline void PrintTo(const SelectionCase& how, std::ostream* out) {
  *out << how.name;
}

inline std::vector<SelectionCase> selection_cases() {
  using I = std::int64_t;
  using U = std::uint64_t;
  const auto below = [](U random, I bound) {
    return static_cast<I>(random % static_cast<U>(bound));
  };
  return {
      {"random", [=](I, I visible, U random) { return below(random, visible); }},
      {"random_with_unused",
       [=](I, I visible, U random) { return below(random, visible + 2) - 1; }},
      {"all_same", [](I, I visible, U) { return visible / 2; }},
      {"distinct_ascending", [](I slot, I, U) { return slot; }},
      {"distinct_apart", [](I slot, I, U) { return 2 * slot; }},
      {"descending", [](I slot, I visible, U) { return visible - 1 - slot; }},
      {"pairs", [](I slot, I visible, U) { return (slot * 7 / 2) % visible; }},
      {"nothing", [](I, I, U) { return I{-1}; }},
      {"other_negatives", [](I slot, I, U) { return -1 - slot * 1'000'000'007LL; }},
      {"after_the_query", [](I slot, I visible, U) { return visible + slot; }},
      {"far_after", [](I slot, I, U) { return (I{1} << 33) + slot; }},
      {"last_token_only", [](I slot, I visible, U) { return slot == 0 ? visible - 1 : I{-1}; }},
      {"sometimes_nothing",
       [=](I, I visible, U random) { return visible % 3 == 0 ? I{-1} : below(random, visible); }},
  };
}

// int64 [B, S, G, n] for queries at `positions` [B, S].
inline at::Tensor make_blocks(const SelectionCase& how,
                              const at::Tensor& positions,
                              std::int64_t groups,
                              std::int64_t slots,
                              std::int64_t block_size) {
  std::mt19937_64 random(7);
  const at::Tensor blocks =
      at::empty({positions.size(0), positions.size(1), groups, slots}, at::kLong);
  auto* out = blocks.mutable_data_ptr<std::int64_t>();
  for (std::int64_t query = 0; query < positions.numel(); ++query) {
    const std::int64_t t = positions.const_data_ptr<std::int32_t>()[query];
    for (std::int64_t g = 0; g < groups; ++g)
      for (std::int64_t i = 0; i < slots; ++i) *out++ = how.index(i, t / block_size + 1, random());
  }
  return blocks;
}

// The place of every token in its document, int32 [1, T].
inline at::Tensor positions_of(const std::vector<std::int32_t>& cu) {
  std::vector<std::int32_t> places;
  for (std::size_t i = 1; i < cu.size(); ++i)
    for (std::int32_t t = cu[i - 1]; t < cu[i]; ++t) places.push_back(t - cu[i - 1]);
  return at::tensor(places, at::kInt).unsqueeze(0);
}

// The first token of every token's document, int32 [T], for Selection::document_start.
inline at::Tensor document_starts(const std::vector<std::int32_t>& cu) {
  std::vector<std::int32_t> starts;
  for (std::size_t i = 1; i < cu.size(); ++i)
    starts.resize(static_cast<std::size_t>(cu[i]), cu[i - 1]);
  return at::tensor(starts, at::kInt);
}

inline at::Tensor plain_positions(std::int64_t rows, std::int64_t tokens) {
  return at::arange(tokens, at::kInt).expand({rows, tokens}).contiguous();
}

} // namespace assay::testing_model
