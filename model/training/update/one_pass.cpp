#include "model/training/update/one_pass.h"

#include <ATen/core/grad_mode.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/result.h"
#include "kernels/cuda_check.h"
#include "kernels/update/adamw.h"
#include "kernels/update/update.h"
#include "model/layout/parallel.h"

namespace assay {

namespace {

using update::kBlockElements;

// --- On a CPU ------------------------------------------------------------------------------------

struct Range { // of one parameter
  const PassParameter* parameter;
  std::int64_t begin, end;
};

constexpr std::int64_t kRangesOfAThread = 8; // fewer take less time than another thread's start

std::vector<Range> ranges_of(const std::vector<PassParameter>& parameters) {
  std::vector<Range> ranges;
  for (const PassParameter& p : parameters)
    for (std::int64_t begin = 0; begin < p.weight.numel(); begin += kBlockElements)
      ranges.push_back({&p, begin, std::min(begin + kBlockElements, p.weight.numel())});
  return ranges;
}

struct Sum {
  double squares = 0;
  bool found = false;
};

template <class T> Sum sum_of(const Range& range, T inverse) {
  const T* gradient = range.parameter->gradient.template const_data_ptr<T>();
  Sum sum;
  for (std::int64_t i = range.begin; i < range.end; ++i) {
    const auto g = static_cast<double>(gradient[i] * inverse);
    sum.squares += g * g;
    sum.found |= !std::isfinite(gradient[i]);
  }
  return sum;
}

template <class T> Sum sum_of(const std::vector<Range>& ranges, T inverse) {
  std::vector<Sum> parts(ranges.size());
  in_parallel(
      static_cast<std::int64_t>(ranges.size()), kRangesOfAThread, [&](auto begin, auto end) {
        for (auto i = begin; i < end; ++i) {
          const auto at = static_cast<std::size_t>(i);
          parts[at] = sum_of(ranges[at], inverse);
        }
      });
  Sum sum; // in a fixed order, whatever the threads
  for (const Sum& part : parts) sum.squares += part.squares, sum.found |= part.found;
  return sum;
}

template <class T> void write_copy(const at::Tensor& copy, std::int64_t at, T weight) {
  const auto value = static_cast<float>(weight);
  if (copy.scalar_type() == at::kBFloat16)
    copy.mutable_data_ptr<at::BFloat16>()[at] = value;
  else
    copy.mutable_data_ptr<at::Half>()[at] = value;
}

template <class T> void update_range(const Range& range, const update::Step<T>& step, bool skip) {
  const PassParameter& p = *range.parameter;
  T *weight = p.weight.template mutable_data_ptr<T>(),
    *first = p.first.template mutable_data_ptr<T>(),
    *second = p.second.template mutable_data_ptr<T>();
  const T* gradient = p.gradient.template const_data_ptr<T>();
  T* average = p.average.defined() ? p.average.template mutable_data_ptr<T>() : nullptr;
  for (std::int64_t i = range.begin; i < range.end; ++i) {
    update::Element<T> x{weight[i], first[i], second[i], average == nullptr ? T(0) : average[i]};
    if (!skip) {
      update::update_weight(x, gradient[i], step);
      weight[i] = x.weight, first[i] = x.first, second[i] = x.second;
      if (p.copy.defined()) write_copy(p.copy, i, x.weight);
    }
    if (average == nullptr) continue;
    update::update_average(x, step);
    average[i] = x.average;
  }
}

template <class T>
at::Tensor on_cpu(const std::vector<PassParameter>& parameters, const PassScalars& s) {
  const std::vector<Range> ranges = ranges_of(parameters);
  const T inverse = s.scale.defined() ? static_cast<T>(1 / s.scale.item<float>()) : T(1);
  const Sum sum = sum_of(ranges, inverse);
  const T norm = static_cast<T>(std::sqrt(sum.squares));
  const bool skip = s.found_inf.defined() && sum.found;
  if (s.found_inf.defined()) s.found_inf.fill_(skip ? 1 : 0);
  if (!skip) s.steps.add_(1);
  const auto lr = s.learning_rate.item<double>(), steps = s.steps.item<double>();
  update::Step<T> step{static_cast<T>(1 - s.beta1),
                       static_cast<T>(1 - s.beta2),
                       static_cast<T>(s.eps),
                       static_cast<T>(1 - s.ema_decay),
                       update::clip_factor(norm, static_cast<T>(s.max_norm)),
                       inverse,
                       T(0),
                       static_cast<T>(update::corrected_rate(lr, s.beta1, steps)),
                       static_cast<T>(update::corrected_root(s.beta2, steps))};
  in_parallel(
      static_cast<std::int64_t>(ranges.size()), kRangesOfAThread, [&](auto begin, auto end) {
        for (auto i = begin; i < end; ++i) {
          const Range& range = ranges[static_cast<std::size_t>(i)];
          update::Step<T> own = step;
          own.decay = static_cast<T>(lr * range.parameter->decay);
          update_range(range, own, skip);
        }
      });
  return at::scalar_tensor(static_cast<double>(norm), parameters.front().weight.options());
}

// --- On a GPU ------------------------------------------------------------------------------------

float* data_or_null(const at::Tensor& x) {
  return x.defined() ? x.mutable_data_ptr<float>() : nullptr;
}

std::uint16_t* bits_or_null(const at::Tensor& x) {
  return x.defined() ? static_cast<std::uint16_t*>(x.mutable_data_ptr()) : nullptr;
}

update::Tensor row_of(const PassParameter& p) {
  return {p.weight.mutable_data_ptr<float>(),
          p.first.mutable_data_ptr<float>(),
          p.second.mutable_data_ptr<float>(),
          data_or_null(p.average),
          bits_or_null(p.copy),
          p.weight.numel(),
          static_cast<float>(p.decay)};
}

bool same(const update::Tensor& a, const update::Tensor& b) {
  return a.weight == b.weight && a.first == b.first && a.second == b.second &&
         a.average == b.average && a.copy == b.copy && a.size == b.size && a.decay == b.decay;
}

template <class T> at::Tensor on_device(const std::vector<T>& values, at::Device device) {
  const auto bytes = static_cast<std::int64_t>(values.size() * sizeof(T));
  at::Tensor copy = at::empty({bytes}, at::kByte);
  std::memcpy(copy.mutable_data_ptr(), values.data(), static_cast<std::size_t>(bytes));
  return copy.to(device);
}

template <class T> at::Tensor room_for(std::size_t count, at::Device device) {
  return at::empty({static_cast<std::int64_t>(count * sizeof(T))},
                   at::TensorOptions().device(device).dtype(at::kByte));
}

void refuse_capture() {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  ASSAY_CUDA(cudaStreamIsCapturing(c10::cuda::getCurrentCUDAStream(), &status));
  if (status != cudaStreamCaptureStatusNone)
    internal_error("the update's table of parameters would be written inside a CUDA graph: make "
                   "one update outside of it first, and again after a weight has moved");
}

update::CopyType copy_type(const std::vector<PassParameter>& parameters) {
  for (const PassParameter& p : parameters)
    if (p.copy.defined())
      return p.copy.scalar_type() == at::kBFloat16 ? update::CopyType::Bf16
                                                   : update::CopyType::Fp16;
  return update::CopyType::Bf16;
}

void check(const std::vector<PassParameter>& parameters) {
  if (parameters.empty()) internal_error("an update needs at least one parameter");
  const at::ScalarType type = parameters.front().weight.scalar_type();
  for (const PassParameter& p : parameters)
    for (const at::Tensor& x : {p.weight, p.gradient, p.first, p.second, p.average, p.copy})
      if (x.defined() && (!x.is_contiguous() || x.numel() != p.weight.numel() ||
                          (x.scalar_type() != type && !x.is_same(p.copy))))
        internal_error("an update takes contiguous tensors of one shape and type for a parameter");
}

} // namespace

// Writes the table again where a tensor has moved: a new copy, or a weight after set_data().
void OnePass::place(const std::vector<PassParameter>& parameters) {
  std::vector<update::Tensor> rows;
  for (const PassParameter& p : parameters) rows.push_back(row_of(p));
  if (std::equal(rows.begin(), rows.end(), rows_.begin(), rows_.end(), same)) return;
  refuse_capture();
  std::vector<update::Block> blocks;
  block_begin_.assign(1, 0);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::int64_t at = 0; at < rows[i].size; at += kBlockElements)
      blocks.push_back(
          {static_cast<std::int32_t>(i), static_cast<std::int32_t>(at / kBlockElements)});
    block_begin_.push_back(static_cast<std::int32_t>(blocks.size()));
  }
  const at::Device device = parameters.front().weight.device();
  table_ = on_device(rows, device);
  blocks_ = on_device(blocks, device);
  partial_ = room_for<update::Partial>(blocks.size(), device);
  factors_ = room_for<update::Factors>(1, device);
  rows_ = std::move(rows);
}

at::Tensor OnePass::on_cuda(const std::vector<PassParameter>& parameters, const PassScalars& s) {
  const c10::cuda::CUDAGuard guard(parameters.front().weight.device());
  place(parameters);
  std::vector<const float*> gradients;
  for (const PassParameter& p : parameters) gradients.push_back(p.gradient.const_data_ptr<float>());
  at::Tensor norm = at::empty({}, parameters.front().weight.options().requires_grad(false));
  update::Pass pass{};
  pass.tensors = static_cast<const update::Tensor*>(table_.const_data_ptr());
  pass.blocks = static_cast<const update::Block*>(blocks_.const_data_ptr());
  pass.block_begin = block_begin_.data();
  pass.gradients = gradients.data();
  pass.tensor_count = static_cast<int>(parameters.size());
  pass.copy_type = copy_type(parameters);
  pass.rule = {s.beta1, s.beta2, s.eps, s.max_norm, 1 - s.ema_decay};
  pass.lr = s.learning_rate.const_data_ptr<float>();
  pass.steps = s.steps.mutable_data_ptr<float>();
  pass.scale = data_or_null(s.scale);
  pass.found_inf = data_or_null(s.found_inf);
  pass.norm = norm.mutable_data_ptr<float>();
  pass.partial = static_cast<update::Partial*>(partial_.mutable_data_ptr());
  pass.factors = static_cast<update::Factors*>(factors_.mutable_data_ptr());
  update::launch_update(pass, c10::cuda::getCurrentCUDAStream());
  check_cuda(cudaGetLastError(), "update of all parameters");
  return norm;
}

at::Tensor OnePass::run(const std::vector<PassParameter>& parameters, const PassScalars& scalars) {
  check(parameters);
  const at::NoGradGuard no_grad;
  const at::Tensor& weight = parameters.front().weight;
  if (weight.is_cuda()) return on_cuda(parameters, scalars);
  return weight.scalar_type() == at::kDouble ? on_cpu<double>(parameters, scalars)
                                             : on_cpu<float>(parameters, scalars);
}

} // namespace assay
