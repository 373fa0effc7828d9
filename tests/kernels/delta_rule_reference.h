// The gated delta rule in fp64 for tests of its kernels: random inputs, the recurrence token by
// token and its exact reverse.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "tests/kernels/packed_chunks.h"

namespace assay::delta_rule {

struct Shape {
  std::vector<int> lengths; // of the segments
  int heads_k, heads, width;
  float alike = 0; // keys share a direction: their mean cosine is alike^2 / (1 + alike^2)
  int tokens() const {
    int n = 0;
    for (int l : lengths) n += l;
    return n;
  }
};

using test::cut, test::distance, test::float_of, test::half_of;

struct Inputs {
  Shape shape;
  std::vector<std::uint16_t> q, k, v, d_out;
  std::vector<float> g, beta;
  std::vector<int> chunk, first; // pairs; segments longest first
};

// `decay`: scale of -softplus(normal), the log decay.
inline Inputs make_inputs(const Shape& shape, unsigned seed, double decay) {
  Inputs in;
  in.shape = shape;
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal;
  const auto rows = [&](std::size_t count, bool unit, float shift = 0) {
    std::vector<std::uint16_t> x(count * shape.width);
    std::vector<float> row(shape.width);
    const std::size_t drawn = std::min<std::size_t>(count, 20000); // the rest repeats them
    for (std::size_t i = 0; i < drawn; ++i) {
      float sum = 0;
      for (float& e : row) e = normal(rng) + shift, sum += e * e;
      for (int j = 0; j < shape.width; ++j)
        x[i * shape.width + j] = half_of(unit ? row[j] / std::sqrt(sum) : row[j]);
    }
    for (std::size_t i = drawn; i < count; ++i)
      std::copy_n(x.begin() + std::ptrdiff_t(rng() % drawn * std::size_t(shape.width)),
                  shape.width,
                  x.begin() + std::ptrdiff_t(i * std::size_t(shape.width)));
    return x;
  };
  const std::size_t t = std::size_t(shape.tokens());
  in.q = rows(t * shape.heads_k, true), in.k = rows(t * shape.heads_k, true, shape.alike);
  in.v = rows(t * shape.heads, false), in.d_out = rows(t * shape.heads, false);
  for (std::size_t i = 0; i < t * shape.heads; ++i) {
    in.g.push_back(float(-decay * std::log1p(std::exp(normal(rng)))));
    in.beta.push_back(1 / (1 + std::exp(-normal(rng))));
  }
  const test::ChunkLists lists = cut(shape.lengths, 64);
  in.chunk = lists.chunk, in.first = lists.first;
  return in;
}

struct Reference {
  std::vector<double> out, dq, dk, dv, dg, d_beta; // dq, dk: summed over a key head's value heads
};

inline Reference reference(const Inputs& in, bool with_gradients) {
  const int H = in.shape.heads, K = in.shape.width, group = H / in.shape.heads_k;
  const std::size_t T = std::size_t(in.shape.tokens());
  const double scale = 1 / std::sqrt(double(K));
  Reference r;
  r.out.assign(T * H * K, 0);
  if (with_gradients) {
    r.dv = r.out;
    r.dq.assign(r.out.size() / group, 0), r.dk = r.dq;
    r.dg.assign(T * H, 0), r.d_beta = r.dg;
  }
  for (int h = 0; h < H; ++h) {
    std::size_t begin = 0;
    for (int length : in.shape.lengths) {
      const auto key = [&](const std::vector<std::uint16_t>& x, std::size_t t, int i) {
        return double(float_of(x[(t * in.shape.heads_k + h / group) * K + i]));
      };
      std::vector<double> S(std::size_t(K) * K, 0.0), rest(K, 0.0);
      std::vector<std::vector<double>> before, after, rests;
      for (std::size_t t = begin; t < begin + length; ++t) {
        const double e = std::exp(double(in.g[t * H + h])), beta = in.beta[t * H + h];
        for (double& s : S) s *= e;
        if (with_gradients) before.push_back(S);
        for (int j = 0; j < K; ++j) rest[j] = float_of(in.v[(t * H + h) * K + j]);
        for (int i = 0; i < K; ++i)
          for (int j = 0; j < K; ++j) rest[j] -= S[i * K + j] * key(in.k, t, i);
        for (int i = 0; i < K; ++i) {
          const double ki = key(in.k, t, i) * beta, qi = key(in.q, t, i) * scale;
          for (int j = 0; j < K; ++j) {
            S[i * K + j] += ki * rest[j];
            r.out[(t * H + h) * K + j] += qi * S[i * K + j];
          }
        }
        if (with_gradients) after.push_back(S), rests.push_back(rest);
      }
      if (with_gradients) {
        std::vector<double> dS(std::size_t(K) * K, 0.0);
        for (std::size_t t = begin + length; t-- > begin;) {
          const std::size_t at = t * H + h, at_key = t * in.shape.heads_k + h / group;
          const double beta = in.beta[at];
          const std::vector<double>&b = before[t - begin], &a = after[t - begin],
                &x = rests[t - begin];
          std::vector<double> du(K, 0.0), go(K);
          for (int j = 0; j < K; ++j) go[j] = float_of(in.d_out[at * K + j]);
          for (int i = 0; i < K; ++i)
            for (int j = 0; j < K; ++j) {
              dS[i * K + j] += scale * key(in.q, t, i) * go[j];
              r.dq[at_key * K + i] += scale * a[i * K + j] * go[j];
              du[j] += dS[i * K + j] * key(in.k, t, i);
            }
          for (int j = 0; j < K; ++j) {
            r.d_beta[at] += du[j] * x[j];
            r.dv[at * K + j] = beta * du[j];
          }
          for (int i = 0; i < K; ++i)
            for (int j = 0; j < K; ++j) {
              r.dk[at_key * K + i] += dS[i * K + j] * beta * x[j] - b[i * K + j] * r.dv[at * K + j];
            }
          for (int i = 0; i < K; ++i)
            for (int j = 0; j < K; ++j) {
              dS[i * K + j] -= key(in.k, t, i) * r.dv[at * K + j];
              r.dg[at] += dS[i * K + j] * b[i * K + j];
            }
          for (double& s : dS) s *= std::exp(double(in.g[at]));
        }
      }
      begin += length;
    }
  }
  return r;
}

} // namespace assay::delta_rule
