// HYDRA's routing on a GPU in bf16: products of the taken rows alone, whose number stays on the
// device, against those of all rows.
#include <gtest/gtest.h>

#include "model/training/trainer.h"
#include "tests/model/gpu/step_graph_gpu.h"
#include "tests/model/model_fixture.h"

namespace assay {
namespace routing_gpu_test {

using namespace testing_model;

TrainConfig gpu_hydra(Routing form) {
  TrainConfig config;
  config.family = "hydra";
  config.preset = "tiny";
  config.device = Device::Cuda;
  config.precision = Precision::Bf16;
  config.attention = Attention::Varlen;
  config.loss_chunk_mib = 64;
  config.steps = 40;
  config.warmup_steps = 20;
  config.routing = form;
  return value_or_throw(resolve(config));
}

// Rounding differs where products have other shapes, and may choose another token: fp32 is nearer.
TEST(RoutingGpu, AllFormsAreOneFunction) {
  TrainConfig config = gpu_hydra(Routing::Masked);
  config.precision = Precision::Fp32;
  config.residual = Residual::Fp32;
  Trainer masked(value_or_throw(resolve(config)));
  const Batch batch = ragged_batch(config);
  const at::Tensor logits = masked.logits(batch);
  const auto a = masked.gradients(batch);
  for (const Routing form : {Routing::Compacted, Routing::Static}) {
    config.routing = form;
    Trainer trainer(value_or_throw(resolve(config)));
    EXPECT_LE(relative_rms(trainer.logits(batch), logits), 1e-4);
    const auto b = trainer.gradients(batch);
    for (std::size_t i = 0; i < a.size(); ++i)
      EXPECT_LE(relative_rms(b[i], a[i]), 1e-3) << masked.parameters()[i].name;
  }
}

// How many tokens of other documents are taken changes no bit of a document.
TEST(RoutingGpu, OtherDocumentsAreUnseenToTheBit) {
  for (const Routing form : {Routing::Masked, Routing::Compacted, Routing::Static}) {
    const TrainConfig config = gpu_hydra(form);
    Trainer trainer(config);
    const Batch batch = random_batch(config, 3, {100, 150});
    const at::Tensor before = trainer.logits(batch, Attention::Varlen);
    for (std::int64_t token = 0; token < 8; ++token) {
      Batch other = batch;
      other.tokens = batch.tokens.clone();
      other.tokens.view(-1).narrow(0, 0, 100).fill_(token);
      const at::Tensor after = trainer.logits(other, Attention::Varlen);
      EXPECT_TRUE(at::equal(before.narrow(0, 100, 156), after.narrow(0, 100, 156)))
          << static_cast<int>(form) << ", " << token;
    }
  }
}

// A step that waited for the device could not be captured.
TEST(RoutingGpu, ReplaysDifferNoMoreThanEagerRunsDo) {
  for (const Routing form : {Routing::Masked, Routing::Static}) {
    const TrainConfig off = gpu_hydra(form);
    expect_as_near_as_eager_runs(off);
    Trainer trainer(with_graph(off));
    (void)train(trainer, batches_of(off, 6));
    EXPECT_EQ(trainer.graph_counts()->replays, 6 - kWarmUp);
  }
}

TEST(RoutingGpu, OneBatchIsLearnedByHeart) {
  TrainConfig config = gpu_hydra(Routing::Static);
  config.lr = 1e-2;
  config.steps = 300;
  config.warmup_steps = 10;
  Trainer trainer(with_graph(value_or_throw(resolve(config))));
  const Batch batch = ragged_batch(config);
  double loss = 0;
  for (int i = 0; i < 300 && (i == 0 || loss >= 0.1); ++i) loss = trainer.step({batch}).loss();
  EXPECT_LT(loss, 0.1);
}

} // namespace routing_gpu_test
} // namespace assay
