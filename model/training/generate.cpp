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
  // Carries a context of up to `limit` tokens; a longer one is computed again, its last `window`
  // tokens, for each token.
  NextToken(const Trainer& trainer,
            std::vector<std::int64_t> context,
            std::int64_t limit,
            std::int64_t window)
      : trainer_(trainer), context_(std::move(context)), limit_(limit), window_(window),
        carry_(std::make_shared<Carry>()) {}

  void append(std::int64_t id) { context_.push_back(id); }

  // fp32 [vocab_size] on the CPU.
  at::Tensor logits() {
    const std::int64_t size = std::ssize(context_), most = trainer_.config().seq_len;
    if (size > limit_) carry_.reset();
    if (!carry_) return read(size - std::min(size, window_), size);
    for (; size - read_ > most; read_ += most) (void)read(read_, read_ + most);
    return read(std::exchange(read_, size), size);
  }

private:
  // Behind the token before `end`, of a piece that begins at `begin`.
  at::Tensor read(std::int64_t begin, std::int64_t end) const {
    const std::vector<std::int64_t> piece(context_.begin() + begin, context_.begin() + end);
    const at::Tensor tokens = at::tensor(piece, at::kLong).unsqueeze(0);
    Batch batch = make_batch(tokens, tokens, {});
    batch.documents.carry = carry_;
    batch.documents.first_position = carry_ ? begin : 0;
    prepare(batch, trainer_.config());
    return trainer_.logits(batch)[end - begin - 1].to(at::kCPU, at::kFloat);
  }

  const Trainer& trainer_;
  std::vector<std::int64_t> context_;
  std::int64_t limit_, window_;
  std::shared_ptr<Carry> carry_; // null: layers see the tokens of a call alone
  std::int64_t read_ = 0;        // of the context, by `carry_`
};

} // namespace

std::int64_t context_limit(const TrainConfig& config) {
  bool attends = false;
  for (const char letter : config.pattern) {
    const LayerKind& kind = layer_kind(config, letter);
    if (!kind.carries) return 0;
    attends = attends || kind.head_width != nullptr;
  }
  return attends ? config.seq_len : std::numeric_limits<std::int64_t>::max();
}

std::int64_t context_limit(const TrainConfig& config, std::int64_t asked) {
  const std::int64_t limit = context_limit(config);
  if (asked == 0 || limit == std::numeric_limits<std::int64_t>::max()) return limit;
  if (limit == 0 && asked <= config.seq_len) return 0;
  if (limit == 0)
    bad_input("family {} reads seq_len ({}) tokens at most: its layers carry nothing from piece to "
              "piece; leave --context out",
              config.family,
              config.seq_len);
  if (config.positions > 0 && asked > config.positions)
    bad_input("--context {}: the model's table of positions has {} rows", asked, config.positions);
  return asked;
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
  const std::int64_t limit = context_limit(config, sampling.context);
  NextToken next(trainer, prompt, limit, sampling.context > 0 ? sampling.context : config.seq_len);
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
