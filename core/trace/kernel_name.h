// The short form of a kernel's demangled name, as traces contain it and tables print it.
#pragma once

#include <string>
#include <string_view>

namespace assay {

// "void at::native::vectorized_elementwise_kernel<4, …>(int, …)" ->
// "vectorized_elementwise_kernel": without return type, namespaces, template and call arguments.
// Names of other forms as they are.
std::string short_kernel_name(std::string_view name);

} // namespace assay
