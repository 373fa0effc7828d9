// AdamW (arXiv 1711.05101, algorithm 2) and the moving average of one element, in fp32 on the
// device and in the weights' type on a CPU.
#pragma once

#include <cmath>

#include "kernels/update/table.h"

#ifdef __CUDACC__
#define ASSAY_BOTH __host__ __device__ __forceinline__
#else
#define ASSAY_BOTH inline
#endif

namespace assay::update {

template <class T> struct Element { T weight, first, second, average; };

// The rule in the type that elements have, with this update's factors.
template <class T> struct Step {
  T first, second, eps, average;      // shares of the new value: 1 - beta1, 1 - beta2, 1 - decay
  T clip, inverse, decay, rate, root; // decay: lr * weight_decay
};

// min(1, max_norm / (norm + 1e-6)); 1 without clipping; NaN for NaN.
template <class T> ASSAY_BOTH T clip_factor(T norm, T max_norm) {
  if (!(max_norm > T(0))) return T(1);
  const T factor = max_norm / (norm + T(1e-6));
  return factor > T(1) ? T(1) : factor;
}

// The corrections of update number `steps`: lr / (1 - beta1^steps) and 1 / sqrt(1 - beta2^steps).
ASSAY_BOTH double corrected_rate(double lr, double beta1, double steps) {
  return lr / (1 - pow(beta1, steps));
}
ASSAY_BOTH double corrected_root(double beta2, double steps) {
  return 1 / sqrt(1 - pow(beta2, steps));
}

template <class T> ASSAY_BOTH void update_weight(Element<T>& x, T gradient, const Step<T>& s) {
  using std::sqrt;
  const T g = gradient * s.inverse * s.clip;
  x.first += s.first * (g - x.first);
  x.second += s.second * (g * g - x.second);
  x.weight -= s.decay * x.weight + s.rate * x.first / (sqrt(x.second) * s.root + s.eps);
}

// As at::lerp: the form whose rounding is smaller.
template <class T> ASSAY_BOTH void update_average(Element<T>& x, const Step<T>& s) {
  const T difference = x.weight - x.average;
  x.average = s.average < T(0.5) ? x.average + s.average * difference
                                 : x.weight - difference * (T(1) - s.average);
}

} // namespace assay::update

#undef ASSAY_BOTH
