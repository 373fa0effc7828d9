#include "experiments/attribution/kernel_class.h"

#include <algorithm>
#include <cctype>
#include <initializer_list>

namespace assay {

namespace {

struct Rule {
  std::string_view kernel_class;
  std::initializer_list<std::string_view> words; // lower case; one of them is in the name
};

// The first rule that matches decides. A fused name has its most specific part first: attention
// kernels carry "gemm" in theirs, copy kernels run inside elementwise templates, norms are reduced.
const Rule kRules[] = {
    {"nccl", {"nccl"}},
    {"attention", {"flash", "fmha", "attention", "attn", "sdpa", "delta_rule", "mha_"}},
    {"norm", {"norm", "gammabeta"}},
    {"gemm",
     {"gemm",
      "cutlass",
      "cublas",
      "nvjet",
      "xmma",
      "wgmma",
      "splitk",
      "matmul",
      "aten::mm",
      "aten::addmm",
      "aten::bmm",
      "aten::baddbmm",
      "aten::linear",
      "mkldnn_linear",
      "gemv"}},
    {"copy",
     {"memcpy",
      "memset",
      "copy",
      "catarray",
      "aten::cat",
      "aten::clone",
      "aten::contiguous",
      "aten::to",
      "gather",
      "scatter",
      "index_select",
      "indexselect",
      "embedding",
      "transpose"}},
    {"reduction",
     {"reduce",
      "softmax",
      "aten::sum",
      "aten::mean",
      "aten::max",
      "aten::min",
      "aten::argmax",
      "nll_loss",
      "cross_entropy",
      "scan",
      "cumsum",
      "sort",
      "topk"}},
    {"elementwise", {"elementwise", "vectorized",    "multi_tensor",  "foreach",     "unrolled",
                     "aten::add",   "aten::mul",     "aten::sub",     "aten::div",   "aten::silu",
                     "aten::gelu",  "aten::sigmoid", "aten::exp",     "aten::neg",   "aten::pow",
                     "aten::sqrt",  "aten::rsqrt",   "aten::where",   "aten::fill_", "aten::zero_",
                     "aten::lerp",  "aten::addcmul", "aten::addcdiv", "fused_adam",  "_fused_adam",
                     "rope"}},
};

// The name without a trailing balanced pair `open` … `close`.
std::string_view without_arguments(std::string_view name, char open, char close) {
  if (name.empty() || name.back() != close) return name;
  int depth = 0;
  for (std::size_t i = name.size(); i-- > 0;) {
    if (name[i] == close) ++depth;
    if (name[i] == open && --depth == 0) return name.substr(0, i);
  }
  return name;
}

} // namespace

std::string_view kernel_class(std::string_view name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  for (const Rule& rule : kRules)
    for (const std::string_view word : rule.words)
      if (lower.find(word) != std::string::npos) return rule.kernel_class;
  return "other";
}

std::string short_kernel_name(std::string_view name) {
  std::string_view rest = without_arguments(name, '(', ')');
  if (rest.size() == name.size() && name.find('<') == std::string_view::npos)
    return std::string(name); // "Memcpy HtoD", "aten::mm", a C kernel
  rest = without_arguments(rest, '<', '>');
  int depth = 0; // of template arguments in a qualifying namespace or class
  for (std::size_t i = rest.size(); i-- > 0;) {
    if (rest[i] == '>') ++depth;
    if (rest[i] == '<') --depth;
    if (depth == 0 && (rest[i] == ':' || rest[i] == ' ')) {
      rest = rest.substr(i + 1);
      break;
    }
  }
  return std::string(rest.empty() ? name : rest);
}

} // namespace assay
