// The recurrences of ssd.h and rwkv6.h, token by token.
#include <vector>

#include "core/result.h"
#include "core/span.h"
#include "model/layers/autocast.h"
#include "model/layers/scan/rwkv6.h"
#include "model/layers/scan/ssd.h"

namespace assay {

at::Tensor ssd_loop(const at::Tensor& x,
                    const at::Tensor& a,
                    const at::Tensor& b,
                    const at::Tensor& c,
                    const Segments& segments) {
  const Span span("scan/loop");
  const AutocastGuard full_precision(x.device().type(), at::kFloat);
  const at::ScalarType type = wide_type(x);
  const std::int64_t heads = x.size(1), shared = heads / b.size(1);
  const at::Tensor input = x.to(type), decay = a.to(type).exp(),
                   write = b.to(type).repeat_interleave(shared, 1),
                   read = c.to(type).repeat_interleave(shared, 1);
  std::vector<at::Tensor> outputs;
  for (std::size_t i = 1; i < segments.cu_host.size(); ++i) {
    at::Tensor state = at::zeros({heads, b.size(2), x.size(2)}, input.options());
    for (std::int64_t t = segments.cu_host[i - 1]; t < segments.cu_host[i]; ++t) {
      state =
          state * decay[t].view({-1, 1, 1}) + at::bmm(write[t].unsqueeze(2), input[t].unsqueeze(1));
      outputs.push_back(at::bmm(read[t].unsqueeze(1), state).squeeze(1));
    }
  }
  return at::stack(outputs).to(x.scalar_type());
}

at::Tensor rwkv6_loop(const at::Tensor& r,
                      const at::Tensor& k,
                      const at::Tensor& v,
                      const at::Tensor& w,
                      const at::Tensor& u,
                      const Segments& segments) {
  const Span span("scan/loop");
  const AutocastGuard full_precision(r.device().type(), at::kFloat);
  const at::ScalarType type = wide_type(r);
  const at::Tensor read = r.to(type), key = k.to(type), value = v.to(type),
                   decay = w.to(type).exp(), bonus = u.to(type).unsqueeze(2);
  std::vector<at::Tensor> outputs;
  for (std::size_t i = 1; i < segments.cu_host.size(); ++i) {
    at::Tensor state = at::zeros({r.size(1), r.size(2), v.size(2)}, read.options()); // [H, K, V]
    for (std::int64_t t = segments.cu_host[i - 1]; t < segments.cu_host[i]; ++t) {
      const at::Tensor write = at::bmm(key[t].unsqueeze(2), value[t].unsqueeze(1));
      outputs.push_back(at::bmm(read[t].unsqueeze(1), state + bonus * write).squeeze(1));
      state = state * decay[t].unsqueeze(2) + write;
    }
  }
  return at::stack(outputs).to(v.scalar_type());
}

Ssd ssd_of(ScanForm form) {
  switch (form) {
  case ScanForm::Loop:
    return ssd_loop;
  case ScanForm::Chunked:
    return ssd_chunked;
  case ScanForm::Fused:
    return ssd_fused;
  }
  internal_error("no such form of a scan");
}

Rwkv6 rwkv6_of(ScanForm form) {
  switch (form) {
  case ScanForm::Loop:
    return rwkv6_loop;
  case ScanForm::Chunked:
    return rwkv6_chunked;
  case ScanForm::Fused:
    return rwkv6_fused;
  }
  internal_error("no such form of a scan");
}

} // namespace assay
