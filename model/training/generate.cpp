#include "model/training/generate.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <limits>

#include "core/result.h"
#include "model/layout/segments.h"

namespace assay {

namespace {

std::int64_t
sample(const at::Tensor& logits, const Sampling& sampling, const at::Generator& generator) {
  if (sampling.temperature <= 0) return logits.argmax().item<std::int64_t>();
  at::Tensor scaled = logits / sampling.temperature;
  if (sampling.top_k > 0 && sampling.top_k < scaled.numel()) {
    const at::Tensor least = std::get<0>(scaled.topk(sampling.top_k)).min();
    scaled.masked_fill_(scaled.lt(least), -std::numeric_limits<float>::infinity());
  }
  return at::multinomial(scaled.softmax(0), 1, false, generator).item<std::int64_t>();
}

} // namespace

std::vector<std::int64_t>
generate(Trainer& trainer, const std::vector<std::int64_t>& prompt, const Sampling& sampling) {
  const TrainConfig& config = trainer.config();
  if (prompt.empty()) bad_input("the prompt is empty: give at least one token");
  for (const std::int64_t id : prompt)
    if (id < 0 || id >= config.vocab_size)
      bad_input("token {} of the prompt is outside the vocabulary of {}", id, config.vocab_size);
  const at::NoGradGuard no_grad;
  const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(sampling.seed);
  const auto averaged = trainer.use_ema();
  std::vector<std::int64_t> context = prompt, made;
  for (std::int64_t i = 0; i < sampling.max_tokens; ++i) {
    const auto length =
        std::min<std::int64_t>(static_cast<std::int64_t>(context.size()), config.seq_len);
    const std::vector<std::int64_t> window(context.end() - length, context.end());
    const at::Tensor tokens = at::tensor(window, at::kLong).unsqueeze(0);
    Batch batch = make_batch(tokens, tokens, {});
    prepare(batch, config);
    const at::Tensor last = trainer.logits(batch)[length - 1].to(at::kCPU, at::kFloat);
    const std::int64_t id = sample(last, sampling, generator);
    if (id == sampling.stop_token) break;
    context.push_back(id);
    made.push_back(id);
  }
  return made;
}

} // namespace assay
