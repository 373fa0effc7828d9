// What modules make, told to a Probe that listens on this thread (model/training/diagnosis.h).
// Without one nothing is computed.
#pragma once

#include <ATen/ATen.h>

#include <cstddef>
#include <string>

namespace assay {

class Probe {
public:
  virtual ~Probe() = default;
  virtual void layer(std::size_t index) = 0; // what follows is of this layer
  // "mixer", "feed_forward", "rwkv", "mamba": what the module adds to the stream, [T, d_model];
  // "stream": the residual stream before the layer.
  virtual void activation(const std::string& module, const at::Tensor& x) = 0;
  // Of a recurrent layer behind the last token: [H, K, V].
  virtual void state(const std::string& module, const at::Tensor& state) = 0;
};

namespace detail {
inline thread_local Probe* probe = nullptr;
}
inline Probe* active_probe() {
  return detail::probe;
}

class ProbeGuard {
public:
  explicit ProbeGuard(Probe& probe) : outer_(detail::probe) { detail::probe = &probe; }
  ~ProbeGuard() { detail::probe = outer_; }
  ProbeGuard(const ProbeGuard&) = delete;
  ProbeGuard& operator=(const ProbeGuard&) = delete;

private:
  Probe* outer_;
};

} // namespace assay
