// What somebody does around every layer of a model's forward pass, told to the LayerHooks of this
// thread. Without them nothing happens. A layer that the backward pass runs once more
// (recompute.h) is not told of again.
#pragma once

#include <ATen/ATen.h>

#include <cstddef>

namespace assay {

class LayerHooks {
public:
  virtual ~LayerHooks() = default;
  virtual void before_layer(std::size_t index) = 0;
  // `x`, `branch`: what the layer made, and what is added to it next. The backward pass reaches
  // one of them before any operator of the layer.
  virtual void after_layer(std::size_t index, const at::Tensor& x, const at::Tensor& branch) = 0;
};

namespace detail {
inline thread_local LayerHooks* layer_hooks = nullptr;
}
inline LayerHooks* active_layer_hooks() {
  return detail::layer_hooks;
}

class LayerHooksGuard {
public:
  explicit LayerHooksGuard(LayerHooks* hooks) : outer_(detail::layer_hooks) {
    detail::layer_hooks = hooks;
  }
  ~LayerHooksGuard() { detail::layer_hooks = outer_; }
  LayerHooksGuard(const LayerHooksGuard&) = delete;
  LayerHooksGuard& operator=(const LayerHooksGuard&) = delete;

private:
  LayerHooks* outer_;
};

} // namespace assay
