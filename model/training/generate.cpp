#include "model/training/generate.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "core/result.h"
#include "model/config/family_config.h"
#include "model/layout/carry.h"
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

// What a model expects behind a context that grows.
class NextToken {
public:
  NextToken(const Trainer& trainer, std::vector<std::int64_t> context)
      : trainer_(trainer), context_(std::move(context)),
        carry_(carries_state(trainer.config()) ? std::make_shared<Carry>() : nullptr) {}

  void append(std::int64_t id) { context_.push_back(id); }

  // fp32 [vocab_size] on the CPU.
  at::Tensor logits() {
    const std::int64_t size = std::ssize(context_), most = trainer_.config().seq_len;
    if (!carry_) return read(size - std::min(size, most), size);
    for (; size - read_ > most; read_ += most) (void)read(read_, read_ + most);
    return read(std::exchange(read_, size), size);
  }

private:
  // Behind the token before `end`, of a piece that begins at `begin`.
  at::Tensor read(std::int64_t begin, std::int64_t end) const {
    const std::vector<std::int64_t> piece(context_.begin() + begin, context_.begin() + end);
    const at::Tensor tokens = at::tensor(piece, at::kLong).unsqueeze(0);
    Batch batch = make_batch(tokens, tokens, {});
    prepare(batch, trainer_.config());
    batch.documents.carry = carry_;
    return trainer_.logits(batch)[end - begin - 1].to(at::kCPU, at::kFloat);
  }

  const Trainer& trainer_;
  std::vector<std::int64_t> context_;
  std::shared_ptr<Carry> carry_; // null: layers see the tokens of a call alone
  std::int64_t read_ = 0;        // of the context, by `carry_`
};

} // namespace

bool carries_state(const TrainConfig& config) {
  return std::ranges::all_of(config.pattern,
                             [&](char letter) { return family_of(config).layer(letter)->carries; });
}

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
  NextToken next(trainer, prompt);
  std::vector<std::int64_t> made;
  for (std::int64_t i = 0; i < sampling.max_tokens; ++i) {
    const std::int64_t id = sample(next.logits(), sampling, generator);
    if (id == sampling.stop_token) break;
    next.append(id);
    made.push_back(id);
  }
  return made;
}

} // namespace assay
