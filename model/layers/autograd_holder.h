// Carries a shared pointer to plain data from a custom autograd function's forward to its backward.
#pragma once

#include <ATen/core/ivalue.h>
#include <torch/custom_class.h>

#include <memory>
#include <utility>

namespace assay {

template <class T> struct AutogradHolder : torch::CustomClassHolder {
  explicit AutogradHolder(std::shared_ptr<const T> held) : value(std::move(held)) {}
  std::shared_ptr<const T> value;
};

template <class T> c10::IValue hold(std::shared_ptr<const T> value) {
  return c10::IValue::make_capsule(c10::make_intrusive<AutogradHolder<T>>(std::move(value)));
}

template <class T> const T& held(const c10::IValue& value) {
  return *c10::static_intrusive_pointer_cast<AutogradHolder<T>>(value.toCapsule())->value;
}

} // namespace assay
