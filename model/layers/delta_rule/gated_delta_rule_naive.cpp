#include <cmath>
#include <vector>

#include "core/result.h"
#include "core/span.h"
#include "model/layers/autocast.h"
#include "model/layers/delta_rule/gated_delta_rule.h"

namespace assay {

at::Tensor of_value_heads(const at::Tensor& x, std::int64_t heads) {
  return x.size(1) == heads ? x : x.repeat_interleave(heads / x.size(1), 1);
}

namespace {

at::Tensor recurrence(const at::Tensor& q,
                      const at::Tensor& k,
                      const at::Tensor& v,
                      const at::Tensor& g,
                      const at::Tensor& beta,
                      const Segments& segments,
                      bool erases_decayed) {
  const AutocastGuard full_precision(q.device().type(), at::kFloat);
  const at::ScalarType type = wide_type(q);
  const std::int64_t heads = v.size(1);
  const at::Tensor query =
      of_value_heads(q, heads).to(type) / std::sqrt(static_cast<double>(q.size(2)));
  const at::Tensor key = of_value_heads(k, heads).to(type), value = v.to(type),
                   rate = beta.to(type), decay = g.to(type).exp();
  std::vector<at::Tensor> outputs;
  for (std::size_t i = 1; i < segments.cu_host.size(); ++i) {
    at::Tensor state = at::zeros({heads, q.size(2), v.size(2)}, query.options()); // [H, K, V]
    for (std::int64_t t = segments.cu_host[i - 1]; t < segments.cu_host[i]; ++t) {
      const at::Tensor kt = key[t].unsqueeze(2); // [H, K, 1]
      const at::Tensor decayed = state * decay[t].view({-1, 1, 1});
      const at::Tensor read =
          at::bmm(kt.transpose(1, 2), erases_decayed ? decayed : state); // [H, 1, V]
      const at::Tensor update = rate[t].view({-1, 1, 1}) * (value[t].unsqueeze(1) - read);
      state = decayed + at::bmm(kt, update);
      outputs.push_back(at::bmm(query[t].unsqueeze(1), state).squeeze(1));
    }
  }
  return at::stack(outputs).to(v.scalar_type());
}

at::Tensor undecayed_erase(const at::Tensor& q,
                           const at::Tensor& k,
                           const at::Tensor& v,
                           const at::Tensor& g,
                           const at::Tensor& beta,
                           const Segments& segments) {
  const Span span("delta_rule/undecayed_erase");
  return recurrence(q, k, v, g, beta, segments, false);
}

} // namespace

at::Tensor gated_delta_rule_naive(const at::Tensor& q,
                                  const at::Tensor& k,
                                  const at::Tensor& v,
                                  const at::Tensor& g,
                                  const at::Tensor& beta,
                                  const Segments& segments) {
  return recurrence(q, k, v, g, beta, segments, true);
}

DeltaRule delta_rule_of(DeltaForm form) {
  switch (form) {
  case DeltaForm::Naive:
    return gated_delta_rule_naive;
  case DeltaForm::Chunked:
    return gated_delta_rule_chunked;
  case DeltaForm::Fused:
    return gated_delta_rule_fused;
  case DeltaForm::UndecayedErase:
    return undecayed_erase;
  }
  internal_error("no such form of the delta rule");
}

} // namespace assay
