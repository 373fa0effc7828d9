// The gradient of selected keys and values, and the choice of blocks, on the CPU against plain fp64
// loops: groups of many and of few heads, one tile and many, blocks that end with their document.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/kernels/kernel_samples.h"

#include "kernels/nsa/select.cuh"
#include "kernels/nsa/selected_attention/selected_key_gradient.cuh"

namespace assay {
namespace selected_emulated_test {

using namespace test;

using Doubles = std::vector<double>;
using Halves = std::vector<bf16>;

// Starts of the documents, and the end.
const std::vector<int> kEnds{0, 1, 150, 171};

struct Tokens {
  std::vector<std::int32_t> start, position;
  Tokens() {
    for (std::size_t i = 1; i < kEnds.size(); ++i)
      for (int t = kEnds[i - 1]; t < kEnds[i]; ++t)
        start.push_back(kEnds[i - 1]), position.push_back(t - kEnds[i - 1]);
  }
};

// --- key gradient --------------------------------------------------------------------------------

struct Case {
  int heads, groups, block;
};

// Queries, in an order of no meaning, of every place; every query selects its document's first
// block, its own and one between.
struct Index {
  std::vector<std::int32_t> query_end, item_end, queries;

  Index(const Case& c, const Tokens& tokens) {
    const int count = kEnds.back();
    std::vector<std::vector<std::int32_t>> of(static_cast<std::size_t>(c.groups * count));
    for (int t = count - 1; t >= 0; --t)
      for (int g = 0; g < c.groups; ++g) {
        const int own = tokens.position[t] / c.block;
        for (const int block : std::set<int>{0, (own + g) / 2, own})
          of[g * count + tokens.start[t] + block * c.block].push_back(t);
      }
    int items = 0;
    for (const std::vector<std::int32_t>& place : of) {
      queries.insert(queries.end(), place.begin(), place.end());
      items += (static_cast<int>(place.size()) + kQueriesPerItem - 1) / kQueriesPerItem;
      query_end.push_back(static_cast<std::int32_t>(queries.size())), item_end.push_back(items);
    }
  }
};

template <int kWidth> struct KeySample {
  Case c;
  Tokens tokens;
  Index index{c, tokens};
  Halves q, k, v, grad;
  std::vector<float> lse, delta, grad_k, grad_v;
  double scale = 0.3;

  explicit KeySample(const Case& given) : c(given) {
    const std::size_t count = tokens.start.size(), heads = static_cast<std::size_t>(c.heads),
                      groups = static_cast<std::size_t>(c.groups);
    q = half(normal(count * heads * kWidth)), grad = half(normal(count * heads * kWidth));
    k = half(normal(count * groups * kWidth)), v = half(normal(count * groups * kWidth));
    lse = normal(count * heads, 1, 4), delta = normal(count * heads);
    grad_k.assign(k.size(), 0), grad_v.assign(v.size(), 0);
  }
  template <int kQueries> void run() {
    SelectedProblem p{};
    p.q = q.data(), p.k = k.data(), p.v = v.data();
    p.tokens = kEnds.back(), p.heads = c.heads, p.groups = c.groups, p.width = kWidth;
    p.block_size = c.block, p.scale = static_cast<float>(scale);
    SelectedGradients g{};
    g.grad_out = grad.data(), g.lse = lse.data(), g.delta = delta.data();
    g.grad_k = grad_k.data(), g.grad_v = grad_v.data();
    const SelectedIndex i{index.query_end.data(), index.item_end.data(), index.queries.data()};
    emu::launch(dim3(3), static_cast<unsigned>(2 * c.block), 0, [&] {
      key_gradient_kernel<Bf16, kWidth, kQueries, 256>(p, g, i);
    });
  }
  double dot(const Halves& a, std::size_t row, const Halves& b, std::size_t other) const {
    double sum = 0;
    for (std::size_t i = 0; i < kWidth; ++i)
      sum += value(a[row * kWidth + i]) * value(b[other * kWidth + i]);
    return sum;
  }
  void expect() const {
    Doubles e_k(k.size()), e_v(v.size());
    std::size_t at = 0;
    for (std::size_t place = 0; place < index.query_end.size(); ++place)
      for (; at < static_cast<std::size_t>(index.query_end[place]); ++at)
        add_query(index.queries[at], static_cast<int>(place), e_k, e_v);
    EXPECT_LE(off(e_k, grad_k), kHalf);
    EXPECT_LE(off(e_v, grad_v), kHalf);
  }
  void add_query(int t, int place, Doubles& e_k, Doubles& e_v) const {
    const int group = place / kEnds.back(), first = place % kEnds.back(), own = c.heads / c.groups;
    for (int key = first; key < std::min(first + c.block, t + 1); ++key)
      for (int h = group * own; h < (group + 1) * own; ++h) {
        const auto row = static_cast<std::size_t>(t * c.heads + h),
                   to = static_cast<std::size_t>(key * c.groups + group);
        const double p = std::exp(dot(q, row, k, to) * scale - lse[row]);
        const double ds = p * (dot(grad, row, v, to) - delta[row]) * scale;
        for (std::size_t i = 0; i < kWidth; ++i) {
          e_k[to * kWidth + i] += ds * value(q[row * kWidth + i]);
          e_v[to * kWidth + i] += p * value(grad[row * kWidth + i]);
        }
      }
  }
};

template <int kWidth, int kQueries> void check_keys(const Case& c) {
  SCOPED_TRACE(testing::Message() << c.heads << " heads, " << c.groups << " groups, blocks of "
                                  << c.block << ", width " << kWidth);
  KeySample<kWidth> sample(c);
  sample.template run<kQueries>();
  sample.expect();
}

TEST(SelectedEmulated, KeyGradientEqualsFp64) {
  check_keys<64, 1>({16, 1, 64}); // 149 queries of one block: two items
  check_keys<64, 2>({12, 2, 64}); // preset base
  check_keys<64, 2>({16, 2, 32});
  check_keys<64, 4>({6, 2, 16});
  check_keys<64, 4>({1, 1, 32});
  check_keys<64, 1>({9, 1, 16});
  check_keys<128, 1>({11, 1, 32});
  check_keys<128, 2>({5, 1, 128});
}

// --- choice --------------------------------------------------------------------------------------

struct Shape {
  int block, stride, select, count;
};

struct SelectSample {
  Shape s;
  int heads, groups, width;
  Tokens tokens;
  std::vector<std::int64_t> place, first, end, blocks;
  Halves q, k;
  std::vector<float> lse;
  std::int64_t compressed = 0;
  int most_keys = 0;
  double scale = 0.2;

  int per_group() const { return heads / groups; }
  SelectSample(const Shape& shape, int h, int g, int d) : s(shape), heads(h), groups(g), width(d) {
    for (std::size_t i = 1; i < kEnds.size(); ++i) {
      const int length = kEnds[i] - kEnds[i - 1],
                whole = length < s.block ? 0 : (length - s.block) / s.stride + 1;
      for (int t = 0; t < length; ++t) {
        const int seen = t + 1 < s.block ? 0 : (t + 1 - s.block) / s.stride + 1;
        first.push_back(compressed), end.push_back(compressed + seen);
        place.push_back(seen == 0 ? -1 : compressed * s.stride + t + 1 - s.block);
      }
      compressed += whole, most_keys = std::max(most_keys, whole);
    }
    const std::size_t count = tokens.start.size();
    q = half(normal(count * static_cast<std::size_t>(heads * width)));
    k = half(normal(static_cast<std::size_t>(compressed * groups * width)));
    lse.assign(static_cast<std::size_t>(heads * s.stride * compressed), NAN);
    blocks.assign(count * static_cast<std::size_t>(groups * s.count), -7);
  }
  // ln of the sum over what query t sees, and the probability of block i.
  double score(std::size_t t, int head, std::int64_t i) const {
    double sum = 0;
    for (int d = 0; d < width; ++d)
      sum += value(q[(t * static_cast<std::size_t>(heads) + static_cast<std::size_t>(head)) *
                         static_cast<std::size_t>(width) +
                     static_cast<std::size_t>(d)]) *
             value(k[static_cast<std::size_t>((i * groups + head / per_group()) * width + d)]);
    return sum * scale;
  }
  double exact_lse(std::size_t t, int head) const {
    double sum = 0;
    for (std::int64_t i = first[t]; i < end[t]; ++i) sum += std::exp(score(t, head, i));
    return std::log(sum);
  }
  template <int kWidth> void run() {
    for (std::size_t t = 0; t < place.size(); ++t)
      for (int h = 0; h < heads && place[t] >= 0; ++h)
        lse[static_cast<std::size_t>((h * s.stride + place[t] % s.stride) * compressed +
                                     place[t] / s.stride)] = static_cast<float>(exact_lse(t, h));
    SelectProblem p{};
    p.q = q.data(), p.k = k.data(), p.lse = lse.data(), p.place = place.data();
    p.first = first.data(), p.end = end.data(), p.position = tokens.position.data();
    p.blocks = blocks.data(), p.compressed = compressed;
    p.tokens = static_cast<int>(place.size()), p.heads = heads, p.groups = groups;
    p.width = width, p.stride = s.stride, p.compressed_overlap = s.block / s.stride;
    p.select_block = s.select, p.count = s.count, p.most_keys = most_keys;
    p.most_blocks = 150 / s.select + 1, p.scale = static_cast<float>(scale);
    const int floats = p.most_keys + p.most_blocks;
    const auto grid = static_cast<unsigned>((p.tokens * groups + 3) / 4);
    emu::launch(dim3(grid), 128, static_cast<std::size_t>(16 * floats), [&] {
      nsa_select::select_kernel<Bf16, kWidth>(p, floats, 4);
    });
  }
  Doubles block_scores(std::size_t t, int group) const {
    const int count = tokens.position[t] / s.select + 1, ratio = s.select / s.stride;
    Doubles scores(static_cast<std::size_t>(count));
    for (int h = group * per_group(); h < (group + 1) * per_group(); ++h)
      for (int j = 0; j < count; ++j)
        for (int m = 0; m < ratio; ++m)
          for (int n = 0; n < s.block / s.stride; ++n)
            if (const std::int64_t i = first[t] + ratio * j + m - n; i >= first[t] && i < end[t])
              scores[static_cast<std::size_t>(j)] += std::exp(score(t, h, i) - exact_lse(t, h));
    for (const int j : {0, count - 2, count - 1})
      if (j >= 0) scores[static_cast<std::size_t>(j)] = 1e9;
    return scores;
  }
  // The n best, or others as good but for rounding.
  void expect_query(std::size_t t, int group) const {
    const Doubles scores = block_scores(t, group);
    Doubles best = scores;
    std::sort(best.rbegin(), best.rend());
    best.resize(std::min(best.size(), static_cast<std::size_t>(s.count)));
    const auto* mine =
        &blocks[(t * static_cast<std::size_t>(groups) + static_cast<std::size_t>(group)) *
                static_cast<std::size_t>(s.count)];
    double sum = 0, most = 0;
    for (int i = 0; i < s.count; ++i) {
      if (static_cast<std::size_t>(i) >= best.size()) {
        EXPECT_EQ(mine[i], -1);
        continue;
      }
      ASSERT_GE(mine[i], i == 0 ? 0 : mine[i - 1] + 1);
      ASSERT_LT(mine[i], static_cast<std::int64_t>(scores.size()));
      sum += scores[static_cast<std::size_t>(mine[i])], most += best[static_cast<std::size_t>(i)];
    }
    EXPECT_GE(sum, most - 1e-4);
  }
};

template <int kWidth> void check_select(const Shape& shape, int heads, int groups) {
  SCOPED_TRACE(testing::Message() << heads << " heads, " << groups << " groups, width " << kWidth);
  SelectSample sample(shape, heads, groups, kWidth);
  sample.run<kWidth>();
  for (std::size_t t = 0; t < sample.place.size(); ++t)
    for (int g = 0; g < groups; ++g) sample.expect_query(t, g);
}

TEST(SelectedEmulated, TheBestBlocksAreChosen) {
  check_select<64>({8, 4, 16, 4}, 12, 2);
  check_select<64>({4, 2, 8, 5}, 16, 1); // 74 compressed blocks: three rounds
  check_select<64>({16, 16, 16, 16}, 3, 3);
  check_select<128>({8, 8, 32, 3}, 9, 1);
}

} // namespace selected_emulated_test
} // namespace assay
