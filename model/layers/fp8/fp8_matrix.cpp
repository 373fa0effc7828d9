#include "model/layers/fp8/fp8_matrix.h"

#include <utility>

namespace assay {

namespace {

void forget_matrix(void* matrix) {
  delete static_cast<Fp8Matrix*>(matrix);
}

} // namespace

// The matrix is the context of a null pointer to data, of which the storage claims one element: all
// elements are that one.
at::Tensor fp8_only(at::IntArrayRef sizes, Fp8Matrix matrix) {
  const at::TensorOptions options = matrix.by_rows.options().dtype(at::kBFloat16);
  const at::Device device = matrix.by_rows.device();
  c10::Storage storage(
      c10::Storage::use_byte_size_t(),
      sizeof(at::BFloat16),
      at::DataPtr(nullptr, new Fp8Matrix(std::move(matrix)), &forget_matrix, device),
      nullptr,
      false);
  at::Tensor x = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), options.computeDispatchKey(), options.dtype());
  x.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, std::vector<std::int64_t>(sizes.size()));
  return x;
}

const Fp8Matrix* fp8_of(const at::Tensor& x) {
  if (!x.has_storage()) return nullptr;
  const at::DataPtr& data = x.storage().data_ptr();
  return data.get_deleter() == &forget_matrix ? static_cast<const Fp8Matrix*>(data.get_context())
                                              : nullptr;
}

} // namespace assay
