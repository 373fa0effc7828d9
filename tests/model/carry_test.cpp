// A sequence read in pieces, whose layers carry their states, against the whole sequence at once.
#include "model/layout/carry.h"

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <vector>

#include "core/result.h"
#include "model/config/optimization.h"
#include "model/layers/delta_rule/gated_delta_rule.h"
#include "model/layers/scan/rwkv6.h"
#include "model/layers/scan/ssd.h"
#include "model/layout/segments.h"
#include "model/training/generate.h"
#include "tests/model/model_fixture.h"

namespace assay {
namespace carry_test {

using testing_model::small_config;
using testing_model::small_gpt;
using testing_model::small_rwmba;

// Of the family whose layers the pattern names.
TrainConfig config_of(const std::string& pattern) {
  TrainConfig config = pattern.find_first_of("GM") != std::string::npos ? small_config()
                       : pattern.front() == 'A'                         ? small_gpt()
                                                                        : small_rwmba();
  config.pattern = pattern;
  return value_or_throw(resolve(config));
}

std::vector<std::int64_t> text(std::int64_t tokens, std::int64_t vocabulary) {
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < tokens; ++i) ids.push_back((7 * i * i + 3 * i) % vocabulary);
  return ids;
}

Batch batch_of(const std::vector<std::int64_t>& ids,
               const TrainConfig& config,
               const std::shared_ptr<Carry>& carry = nullptr,
               std::int64_t first_position = 0) {
  const at::Tensor tokens = at::tensor(ids, at::kLong).unsqueeze(0);
  Batch batch = make_batch(tokens, tokens, {});
  batch.documents.carry = carry;
  batch.documents.first_position = first_position;
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
    const Batch batch =
        batch_of({ids.begin() + begin, ids.begin() + end}, trainer.config(), carry, begin);
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

INSTANTIATE_TEST_SUITE_P(All,
                         CarryPatterns,
                         testing::Values("RR", "SS", "PP", "RSP", "GG", "MM", "GMG", "AA"));

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
void expect_as_of_the_whole_context(const std::string& pattern,
                                    std::int64_t prompt_tokens,
                                    std::int64_t new_tokens,
                                    std::int64_t asked = 0) {
  Trainer trainer(config_of(pattern));
  std::vector<std::int64_t> context = text(prompt_tokens, trainer.config().vocab_size);
  const std::vector<std::int64_t> prompt = context;
  const Sampling sampling{.max_tokens = new_tokens, .temperature = 0, .context = asked};
  const std::vector<std::int64_t> made = generate(trainer, prompt, sampling);
  ASSERT_EQ(std::ssize(made), new_tokens);
  EXPECT_LE(prompt_tokens + new_tokens, context_limit(trainer.config(), asked));
  const auto averaged = trainer.use_ema();
  for (const std::int64_t id : made) {
    const at::Tensor logits = trainer.logits(batch_of(context, trainer.config()));
    EXPECT_EQ(logits[-1].argmax().item<std::int64_t>(), id);
    context.push_back(id);
  }
}

TEST(CarriedGeneration, WritesWhatTheWholeContextDoes) {
  for (const char* pattern : {"RSP", "GG"}) expect_as_of_the_whole_context(pattern, 9, 70);
  for (const char* pattern : {"GMG", "AA"}) expect_as_of_the_whole_context(pattern, 9, 39);
  expect_as_of_the_whole_context("GMG", 9, 70, 100); // of more tokens than seq_len, as asked
}

// A long prompt is read in pieces of seq_len tokens.
TEST(CarriedGeneration, ReadsALongPromptInPieces) {
  for (const char* pattern : {"RSP", "GG"}) expect_as_of_the_whole_context(pattern, 2 * 48 + 5, 12);
  expect_as_of_the_whole_context("GMG", 2 * 48 + 5, 12, 200);
}

// Attention sees no longer distance than in training, also where a table has rows for it: behind
// seq_len tokens the last ones are computed again for each token.
TEST(CarriedGeneration, AttentionSeesTheLastTokensOfALongerContext) {
  for (const char* pattern : {"AA", "GMG"}) {
    TrainConfig config = config_of(pattern);
    if (config.positions > 0) config.positions = 96;
    Trainer trainer(value_or_throw(resolve(config)));
    std::vector<std::int64_t> context = text(40, config.vocab_size);
    const std::vector<std::int64_t> made =
        generate(trainer, context, {.max_tokens = 20, .temperature = 0});
    const auto averaged = trainer.use_ema();
    for (const std::int64_t id : made) {
      const auto begin = context.size() > 48 ? context.end() - 48 : context.begin();
      const at::Tensor last = trainer.logits(batch_of({begin, context.end()}, config))[-1];
      EXPECT_EQ(last.argmax().item<std::int64_t>(), id) << pattern << ' ' << context.size();
      context.push_back(id);
    }
  }
}

TEST(CarriedGeneration, RefusesAContextThatCannotBeHad) {
  const auto ask = [](const TrainConfig& config, std::int64_t context) {
    Trainer trainer(config);
    (void)generate(trainer, {1}, {.max_tokens = 1, .context = context});
  };
  EXPECT_THROW(ask(config_of("AA"), 49), Failure); // rows of the table of positions: 48
  EXPECT_THROW(ask(testing_model::small_hydra(), 49), Failure);
  EXPECT_NO_THROW(ask(testing_model::small_hydra(), 48));
}

// In fp64, the chunks of a piece against the recurrence, cut anywhere.
TEST(CarriedStates, OfTheDeltaRuleAreThoseOfItsRecurrence) {
  const auto [q, k, v, g, beta] = testing_model::random_delta_inputs(150, 2, 6, 5, 4);
  const at::Tensor whole =
      gated_delta_rule_naive(q, k, v, g, beta, segments_of({0, 150}, at::kCPU));
  for (const std::int64_t cut : {1, 63, 64, 65, 149}) {
    at::Tensor state;
    std::vector<at::Tensor> parts;
    for (const auto& [begin, count] : {std::pair(std::int64_t{0}, cut), {cut, 150 - cut}}) {
      const auto of = [begin = begin, count = count](const at::Tensor& all) {
        return all.narrow(0, begin, count);
      };
      parts.push_back(gated_delta_rule_piece(of(q), of(k), of(v), of(g), of(beta), state));
    }
    EXPECT_LT((at::cat(parts) - whole).abs().max().item<double>(), 1e-12) << cut;
  }
}

} // namespace carry_test
} // namespace assay
