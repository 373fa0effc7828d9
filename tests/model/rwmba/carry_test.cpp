// A sequence read in pieces, whose layers carry their states, against the whole sequence at once.
#include "model/layout/carry.h"

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <vector>

#include "model/layers/scan/rwkv6.h"
#include "model/layers/scan/ssd.h"
#include "model/layout/segments.h"
#include "model/training/generate.h"
#include "tests/model/model_fixture.h"

namespace assay {
namespace carry_test {

using testing_model::small_rwmba;

TrainConfig config_of(const std::string& pattern) {
  TrainConfig config = small_rwmba();
  config.pattern = pattern;
  return value_or_throw(resolve(config));
}

std::vector<std::int64_t> text(std::int64_t tokens, std::int64_t vocabulary) {
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < tokens; ++i) ids.push_back((7 * i * i + 3 * i) % vocabulary);
  return ids;
}

Batch batch_of(const std::vector<std::int64_t>& ids, const TrainConfig& config) {
  const at::Tensor tokens = at::tensor(ids, at::kLong).unsqueeze(0);
  Batch batch = make_batch(tokens, tokens, {});
  prepare(batch, config);
  return batch;
}

// [tokens, vocabulary] by pieces that end at `ends`.
at::Tensor in_pieces(const Trainer& trainer,
                     const std::vector<std::int64_t>& ids,
                     const std::vector<std::int64_t>& ends) {
  const auto carry = std::make_shared<Carry>();
  std::vector<at::Tensor> logits;
  std::int64_t begin = 0;
  for (const std::int64_t end : ends) {
    Batch batch = batch_of({ids.begin() + begin, ids.begin() + end}, trainer.config());
    batch.documents.carry = carry;
    logits.push_back(trainer.logits(batch));
    begin = end;
  }
  return at::cat(logits);
}

class CarryPatterns : public testing::TestWithParam<const char*> {};

TEST_P(CarryPatterns, PiecesAreTheWholeSequence) {
  const Trainer trainer(config_of(GetParam()));
  const std::vector<std::int64_t> ids = text(41, trainer.config().vocab_size);
  const at::Tensor whole = trainer.logits(batch_of(ids, trainer.config()));
  for (const std::vector<std::int64_t>& ends :
       {std::vector<std::int64_t>{41}, {1, 2, 3, 41}, {17, 18, 40, 41}}) {
    const double worst = (in_pieces(trainer, ids, ends) - whole).abs().max().item<double>();
    EXPECT_LT(worst, 1e-5) << ends.size() << " pieces";
  }
  // What a piece does not carry is missed.
  const at::Tensor alone =
      trainer.logits(batch_of({ids.begin() + 17, ids.end()}, trainer.config()));
  EXPECT_GT((alone - whole.narrow(0, 17, 24)).abs().max().item<double>(), 1e-3);
}

INSTANTIATE_TEST_SUITE_P(All, CarryPatterns, testing::Values("RR", "SS", "PP", "RSP"));

// In fp64, both recurrences cut at every token.
TEST(CarriedStates, AreThoseOfOneLoop) {
  const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(8);
  const auto drawn = [&](at::IntArrayRef shape) {
    return at::empty(shape, at::kDouble).normal_(0, 1, generator);
  };
  const std::int64_t tokens = 9;
  Segments whole;
  whole.cu_host = {0, static_cast<std::int32_t>(tokens)};
  const at::Tensor x = drawn({tokens, 4, 3}), a = -drawn({tokens, 4}).abs(),
                   b = drawn({tokens, 2, 5}), c = drawn({tokens, 2, 5});
  const at::Tensor w = -drawn({tokens, 4, 3}).abs(), u = drawn({4, 3}), k = drawn({tokens, 4, 3}),
                   v = drawn({tokens, 4, 6});
  const at::Tensor ssd = ssd_loop(x, a, b, c, whole), rwkv = rwkv6_loop(x, k, v, w, u, whole);
  for (std::int64_t cut = 1; cut < tokens; ++cut) {
    at::Tensor ssd_state, rwkv_state;
    std::vector<at::Tensor> ssd_parts, rwkv_parts;
    for (const auto& [begin, count] : {std::pair(std::int64_t{0}, cut), {cut, tokens - cut}}) {
      const auto of = [&, begin = begin, count = count](const at::Tensor& all) {
        return all.narrow(0, begin, count);
      };
      ssd_parts.push_back(ssd_piece(of(x), of(a), of(b), of(c), ssd_state));
      rwkv_parts.push_back(rwkv6_piece(of(x), of(k), of(v), of(w), u, rwkv_state));
    }
    EXPECT_LT((at::cat(ssd_parts) - ssd).abs().max().item<double>(), 1e-12) << cut;
    EXPECT_LT((at::cat(rwkv_parts) - rwkv).abs().max().item<double>(), 1e-12) << cut;
  }
}

// The likeliest tokens, computed again from the whole context each time; each token is read once.
void expect_as_of_the_whole_context(std::int64_t prompt_tokens, std::int64_t new_tokens) {
  Trainer trainer(config_of("RSP"));
  std::vector<std::int64_t> context = text(prompt_tokens, trainer.config().vocab_size);
  const std::vector<std::int64_t> prompt = context;
  const Sampling sampling{.max_tokens = new_tokens, .temperature = 0};
  const std::vector<std::int64_t> made = generate(trainer, prompt, sampling);
  ASSERT_EQ(std::ssize(made), new_tokens);
  EXPECT_GT(prompt_tokens + new_tokens, trainer.config().seq_len);
  const auto averaged = trainer.use_ema();
  for (const std::int64_t id : made) {
    const at::Tensor logits = trainer.logits(batch_of(context, trainer.config()));
    EXPECT_EQ(logits[-1].argmax().item<std::int64_t>(), id);
    context.push_back(id);
  }
}

TEST(CarriedGeneration, WritesWhatTheWholeContextDoes) {
  expect_as_of_the_whole_context(9, 70);
}

// A long prompt is read in pieces of seq_len tokens.
TEST(CarriedGeneration, ReadsALongPromptInPieces) {
  expect_as_of_the_whole_context(2 * 48 + 5, 12);
}

} // namespace carry_test
} // namespace assay
