#include "experiments/attribution/kernel_class.h"

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <string>

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

} // namespace assay
