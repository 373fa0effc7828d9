// RWKV-6 and SSD in fp64 for tests of their kernels: random inputs, the recurrence token by token
// and its exact reverse. One notation for both: r, k, v, w are RWKV-6's, and c, b, x, a of SSD.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "tests/kernels/packed_chunks.h"

namespace assay::scan {

constexpr int kValues = 64; // of a head

struct Shape {
  bool ssd;
  std::vector<int> lengths; // of the segments
  int heads, groups, keys;  // groups: heads that have r and k of their own; keys: their width
  double slow, fast; // decay a token, as a rate; log-uniform over channels (RWKV-6) or heads (SSD)
  int tokens() const {
    int n = 0;
    for (int l : lengths) n += l;
    return n;
  }
  int rates() const { return ssd ? 1 : keys; } // log decays a token and head
};

using Halfs = std::vector<std::uint16_t>;

struct Inputs {
  Shape shape;
  Halfs r, k, v, w16, d_out; // [T, groups, keys] twice, [T, heads, 64], RWKV-6's w, [T, heads, 64]
  std::vector<float> w, u;   // [T, heads, rates], of w16 the values; [heads, keys]
  std::vector<float> begin, d_end; // [segments, heads, keys, 64]; empty: zeros
};

inline Inputs make_inputs(const Shape& shape, unsigned seed, bool states) {
  Inputs in;
  in.shape = shape;
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal;
  const auto draw = [&](std::size_t count) {
    std::vector<float> x(count);
    for (float& e : x) e = normal(rng);
    return x;
  };
  const auto halfs = [&](std::size_t count) {
    const std::vector<float> x = draw(count);
    Halfs h(count);
    std::transform(x.begin(), x.end(), h.begin(), test::half_of);
    return h;
  };
  const std::size_t t = std::size_t(shape.tokens());
  in.r = halfs(t * shape.groups * shape.keys), in.k = halfs(t * shape.groups * shape.keys);
  in.v = halfs(t * shape.heads * kValues), in.d_out = halfs(t * shape.heads * kValues);
  std::uniform_real_distribution<double> rate(std::log(shape.slow), std::log(shape.fast));
  std::vector<double> rates(std::size_t(shape.heads) * shape.rates());
  for (double& x : rates) x = rate(rng);
  in.w = draw(t * rates.size());
  for (std::size_t i = 0; i < in.w.size(); ++i) {
    in.w[i] = float(-std::min(shape.fast, std::exp(rates[i % rates.size()] + .5 * in.w[i])));
    if (!shape.ssd) in.w16.push_back(test::half_of(in.w[i])), in.w[i] = test::float_of(in.w16[i]);
  }
  if (!shape.ssd) in.u = draw(std::size_t(shape.heads) * shape.keys);
  if (states) {
    const std::size_t n = shape.lengths.size() * shape.heads * shape.keys * kValues;
    in.begin = draw(n), in.d_end = draw(n);
  }
  return in;
}

struct Reference {
  std::vector<double> out, end, dr, dk, dv, dw, du, d_begin;
};

// One head of one segment, from token `begin` on.
inline void
add_reference(const Inputs& in, std::size_t segment, std::size_t begin, int h, Reference& x) {
  const int H = in.shape.heads, G = in.shape.groups, K = in.shape.keys, V = kValues,
            R = in.shape.rates();
  const bool ssd = in.shape.ssd;
  const std::size_t square = std::size_t(K) * V, length = std::size_t(in.shape.lengths[segment]),
                    slot = (segment * H + h) * square;
  std::vector<double> S(square, 0.0), dS(square, 0.0), r(K), k(K), e(K), v(V), go(V);
  if (!in.begin.empty()) std::copy_n(in.begin.begin() + std::ptrdiff_t(slot), square, S.begin());
  if (!in.d_end.empty()) std::copy_n(in.d_end.begin() + std::ptrdiff_t(slot), square, dS.begin());
  const auto take = [&](std::size_t t) {
    for (int i = 0; i < K; ++i) {
      const std::size_t at = (t * G + h / (H / G)) * K + i;
      r[i] = test::float_of(in.r[at]), k[i] = test::float_of(in.k[at]);
      e[i] = std::exp(double(in.w[(t * H + h) * R + (ssd ? 0 : i)]));
    }
    for (int j = 0; j < V; ++j) {
      v[j] = test::float_of(in.v[(t * H + h) * V + j]);
      go[j] = test::float_of(in.d_out[(t * H + h) * V + j]);
    }
  };
  std::vector<double> before(length * square);
  for (std::size_t t = 0; t < length; ++t) {
    take(begin + t);
    std::copy(S.begin(), S.end(), before.begin() + std::ptrdiff_t(t * square));
    double* o = &x.out[((begin + t) * H + h) * V];
    for (int i = 0; i < K; ++i)
      for (int j = 0; j < V; ++j) {
        double& s = S[std::size_t(i) * V + j];
        if (!ssd) o[j] += r[i] * (s + in.u[h * K + i] * k[i] * v[j]);
        s = e[i] * s + k[i] * v[j];
        if (ssd) o[j] += r[i] * s;
      }
  }
  std::copy(S.begin(), S.end(), x.end.begin() + std::ptrdiff_t(slot));
  for (std::size_t t = length; t-- > 0;) {
    take(begin + t);
    const std::size_t row = (begin + t) * H + h, key = ((begin + t) * G + h / (H / G)) * K;
    for (int i = 0; i < K; ++i) {
      const double u = ssd ? 0 : in.u[h * K + i];
      double dr = 0, dk = 0, dw = 0, du = 0;
      for (int j = 0; j < V; ++j) {
        const double s = before[t * square + std::size_t(i) * V + j];
        double& d = dS[std::size_t(i) * V + j];
        if (ssd) d += r[i] * go[j];
        dk += d * v[j];
        x.dv[row * V + j] += d * k[i];
        dw += d * e[i] * s;
        d *= e[i];
        if (ssd) {
          dr += (e[i] * s + k[i] * v[j]) * go[j];
          continue;
        }
        const double vg = v[j] * go[j];
        dr += s * go[j] + u * k[i] * vg;
        dk += r[i] * u * vg;
        x.dv[row * V + j] += r[i] * u * k[i] * go[j];
        du += r[i] * k[i] * vg;
        d += r[i] * go[j];
      }
      x.dr[key + i] += dr, x.dk[key + i] += dk;
      x.dw[row * R + (ssd ? 0 : i)] += dw;
      if (!ssd) x.du[h * K + i] += du;
    }
  }
  std::copy(dS.begin(), dS.end(), x.d_begin.begin() + std::ptrdiff_t(slot));
}

inline Reference reference(const Inputs& in) {
  const std::size_t T = std::size_t(in.shape.tokens()),
                    states = in.shape.lengths.size() * in.shape.heads * in.shape.keys * kValues;
  Reference x;
  x.out.assign(T * in.shape.heads * kValues, 0), x.dv = x.out;
  x.dr.assign(T * in.shape.groups * in.shape.keys, 0), x.dk = x.dr;
  x.dw.assign(in.w.size(), 0), x.du.assign(in.u.size(), 0);
  x.end.assign(states, 0), x.d_begin = x.end;
  std::size_t begin = 0;
  for (std::size_t segment = 0; segment < in.shape.lengths.size(); ++segment) {
    for (int h = 0; h < in.shape.heads; ++h) add_reference(in, segment, begin, h, x);
    begin += std::size_t(in.shape.lengths[segment]);
  }
  return x;
}

} // namespace assay::scan
