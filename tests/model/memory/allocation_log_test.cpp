// What the bytes at the peak of memory are: by hand, and of whole trainers on the CPU.
#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>

#include "model/memory/allocation_log.h"
#include "model/memory/peak_memory.h"
#include "model/training/trainer.h"
#include "tests/model/model_fixture.h"

namespace assay {
namespace allocation_log_test {

using testing_model::random_batch;
using testing_model::small_config;

constexpr std::int64_t kMib = std::int64_t{1} << 20;

std::int64_t sum(const std::vector<MemoryPart>& parts) {
  return std::accumulate(parts.begin(), parts.end(), std::int64_t{0}, [](auto bytes, auto& part) {
    return bytes + part.bytes;
  });
}

std::int64_t bytes_of(const std::vector<MemoryPart>& parts, const std::string& phase) {
  std::int64_t bytes = 0;
  for (const MemoryPart& part : parts) bytes += part.phase == phase ? part.bytes : 0;
  return bytes;
}

std::int64_t bytes_of(const std::vector<MemoryPart>& parts,
                      const std::string& phase,
                      const std::string& module) {
  for (const MemoryPart& part : parts)
    if (part.phase == phase && part.module == module) return part.bytes;
  return 0;
}

const int kPlaces[8] = {};
const void* place(int i) {
  return &kPlaces[i];
}

// One layer: 100 bytes kept from its feed-forward, 7 freed in it, the head's 5 at the highest
// moment.
TEST(AllocationLog, KnowsWhatIsKeptBeyondItsModule) {
  AllocationLog log(1);
  log.begin_at(1000);
  log.begin("forward");
  log.allocated(place(0), 40, false);
  log.begin("feed_forward");
  log.allocated(place(1), 100, false);
  log.allocated(place(2), 7, false);
  log.allocated(place(2), -7, false);
  log.end("feed_forward");
  log.begin("loss_head/logits");
  log.allocated(place(3), 5, false);
  log.allocated(place(3), -5, false);
  log.end("loss_head/logits");
  log.end("forward");
  log.allocated(place(0), -40, false);
  log.allocated(place(1), -100, false);
  EXPECT_THAT(log.parts({}, 0),
              testing::ElementsAre(MemoryPart{"earlier", "", 1000},
                                   MemoryPart{"saved_for_backward", "layers.0.feed_forward", 100},
                                   MemoryPart{"saved_for_backward", "embedding", 40},
                                   MemoryPart{"forward", "layers.0.feed_forward", 7}));
}

// Waits of ranks are no modules, before the first pass and within a layer; their buffers are known.
TEST(AllocationLog, NamesWhatRanksExchange) {
  AllocationLog log(1);
  const at::Tensor weight = at::zeros({4});
  log.begin("exposed_communication");
  log.end("exposed_communication");
  log.allocated(weight.storage().data(), 16, false);
  log.begin("step");
  log.begin("forward");
  log.begin("exposed_communication");
  log.end("exposed_communication");
  log.begin("gated_deltanet");
  log.begin("ranks/buffers");
  log.allocated(place(1), 100, false);
  log.end("ranks/buffers");
  log.end("gated_deltanet");
  log.begin("feed_forward");
  log.end("feed_forward");
  log.end("forward");
  log.end("step");
  EXPECT_THAT(log.parts({{"model.layers.0.delta.in_proj", weight}}, 0),
              testing::UnorderedElementsAre(MemoryPart{"weights", "layers.0.gated_deltanet", 16},
                                            MemoryPart{"ranks", "", 100}));
}

// Looked for from the restart on only; what was freed of the bytes before is taken from them.
TEST(AllocationLog, TheHighestMomentIsLaterThanTheRestart) {
  AllocationLog log(1);
  log.begin_at(100);
  log.allocated(place(0), 500, false);
  log.allocated(place(0), -500, false);
  log.allocated(place(1), -30, false); // older than the log
  log.restart();
  log.allocated(place(2), 9, false);
  EXPECT_THAT(log.parts({}, 0),
              testing::ElementsAre(MemoryPart{"earlier", "", 70}, MemoryPart{"other", "", 9}));
}

// Replays allocate nothing; the graph's memory is what its capture needed, and a rest.
TEST(AllocationLog, DividesTheMemoryOfAGraph) {
  AllocationLog log(1);
  log.begin("forward");
  log.begin("feed_forward");
  log.allocated(place(0), 60, true);
  log.end("feed_forward");
  log.end("forward");
  log.allocated(place(0), -60, true);
  log.restart();
  EXPECT_THAT(log.parts({}, 64),
              testing::ElementsAre(MemoryPart{"saved_for_backward", "layers.0.feed_forward", 60},
                                   MemoryPart{"graph_rest", "", 4}));
}

TEST(AllocationLog, TheCurveIsOfTheStepThatHasTheHighestMoment) {
  AllocationLog log(1);
  log.begin_at(1000);
  for (const std::int64_t bytes : {90, 10, 30, 20}) {
    log.begin("step");
    log.begin("forward");
    log.allocated(place(0), bytes, false);
    log.end("forward");
    log.begin("backward");
    log.allocated(place(0), -bytes, false);
    log.end("backward");
    log.end("step");
    if (bytes == 90) log.restart();
  }
  const MemoryCurve curve = log.curve(0);
  EXPECT_THAT(curve.bytes, testing::ElementsAre(1000, 1030, 1000));
  ASSERT_EQ(curve.ns.size(), 3U);
  EXPECT_EQ(curve.ns[0], 0);
  EXPECT_LE(curve.ns[1], curve.ns[2]);
  ASSERT_EQ(curve.stages.size(), 2U);
  EXPECT_EQ(curve.stages[0].name, "forward");
  EXPECT_EQ(curve.stages[1].name, "backward");
  EXPECT_LE(curve.stages[0].from_ns, curve.ns[1]);
  EXPECT_GE(curve.stages[0].to_ns, curve.ns[1]);
  EXPECT_LE(curve.stages[0].to_ns, curve.stages[1].from_ns);
}

TEST(AllocationLog, TheCurveOfAGraphIsOfItsCapture) {
  AllocationLog log(1);
  log.begin_at(100);
  log.begin("step");
  log.allocated(place(0), 60, true);
  log.allocated(place(0), -60, true);
  log.end("step");
  log.restart();
  EXPECT_THAT(log.curve(64).bytes, testing::ElementsAre(104, 164, 104)); // 4 of it are a rest
  EXPECT_THAT(log.curve(0).bytes, testing::IsEmpty()); // nothing was allocated after the restart
}

TEST(AllocationLog, ALongCurveKeepsItsExtremes) {
  AllocationLog log(1);
  log.restart();
  log.begin("step");
  for (int i = 0; i < 5000; ++i) {
    const std::int64_t bytes = i == 3333 ? 700 : 1 + i % 7;
    log.allocated(place(i % 8), bytes, false);
    log.allocated(place(i % 8), -bytes, false);
  }
  log.end("step");
  const MemoryCurve curve = log.curve(0);
  EXPECT_LE(curve.ns.size(), MemoryCurve::kMostPoints);
  EXPECT_GT(curve.ns.size(), 2U);
  EXPECT_EQ(*std::ranges::max_element(curve.bytes), 700);
  EXPECT_EQ(*std::ranges::min_element(curve.bytes), 0);
  EXPECT_TRUE(std::ranges::is_sorted(curve.ns));
}

// A document ends in the middle of the first row.
Batch batch_of(const TrainConfig& config) {
  return random_batch(config, 1, {static_cast<std::int32_t>(config.seq_len / 2)});
}

struct Measured {
  std::int64_t peak = 0;
  std::vector<MemoryPart> parts;
  MemoryCurve curve;
};

Measured measure(const TrainConfig& config) {
  const Batch batch = batch_of(config);
  AllocationLog log(std::ssize(config.pattern));
  const SpanSinkGuard spans(log);
  PeakMemory memory(Device::Cpu, &log);
  Trainer trainer(config);
  for (const Parameter& parameter : trainer.parameters())
    log.watch(parameter.name, parameter.tensor);
  (void)trainer.step({batch});
  memory.restart();
  log.restart();
  (void)trainer.step({batch});
  return {memory.peak_bytes(), log.parts(trainer.lasting_tensors(), 0), log.curve(0)};
}

TEST(AllocationLog, PartsOfATrainerSumToItsPeak) {
  TrainConfig config = small_config();
  config.ema_decay = 0.9;
  const Measured measured = measure(config);
  EXPECT_EQ(sum(measured.parts), measured.peak);
  EXPECT_EQ(*std::ranges::max_element(measured.curve.bytes), measured.peak);
  std::vector<std::string> stages;
  for (const MemoryCurve::Stage& stage : measured.curve.stages) stages.push_back(stage.name);
  EXPECT_THAT(stages, testing::IsSupersetOf({"forward", "backward", "optimizer"}));
  const std::int64_t weights = 4 * model_size(config).parameters;
  const auto near = [&](std::int64_t bytes) {
    return testing::AllOf(testing::Ge(bytes), testing::Le(bytes + bytes / 20));
  };
  EXPECT_THAT(bytes_of(measured.parts, "weights"), near(weights)); // small tensors round up
  EXPECT_THAT(bytes_of(measured.parts, "ema"), near(weights));
  EXPECT_THAT(bytes_of(measured.parts, "optimizer"), near(2 * weights));
  EXPECT_GT(bytes_of(measured.parts, "saved_for_backward", "layers.1.feed_forward"), 0);
  EXPECT_GT(bytes_of(measured.parts, "weights", "layers.0.gated_deltanet"), 0);
  EXPECT_GT(bytes_of(measured.parts, "weights", "layers.1.latent_attention"), 0);
  EXPECT_GT(bytes_of(measured.parts, "saved_for_backward"), weights / 10);
}

// After the last backward pass all gradients are there, and the update frees none before its end.
TEST(AllocationLog, FindsTheGradientsOfALargeModelWithASmallBatch) {
  TrainConfig config;
  config.preset = "tiny";
  config.vocab_size = 16384;
  config.seq_len = 64;
  config.batch_rows = 1;
  config = value_or_throw(resolve(config));
  const Measured measured = measure(config);
  EXPECT_EQ(sum(measured.parts), measured.peak);
  EXPECT_GT(bytes_of(measured.parts, "gradients"), 3 * model_size(config).parameters);
}

TEST(AllocationLog, NamesPhaseAndModuleOfWhatIsPlanted) {
  TrainConfig config = small_config();
  const Measured without = measure(config);
  config.planted_mib = 64;
  const Measured with = measure(config);
  EXPECT_EQ(sum(with.parts), with.peak);
  EXPECT_EQ(bytes_of(with.parts, "saved_for_backward", "planted"), 64 * kMib);
  EXPECT_EQ(bytes_of(without.parts, "saved_for_backward", "planted"), 0);
}

// The clone of the weights during an evaluation on their average.
TEST(AllocationLog, FindsTheCloneOfTheSwap) {
  TrainConfig config = small_config();
  config.ema_decay = 0.9;
  config.ema_swap = EmaSwap::CloneCopy;
  const Batch batch = batch_of(config);
  AllocationLog log(std::ssize(config.pattern));
  const SpanSinkGuard spans(log);
  PeakMemory memory(Device::Cpu, &log);
  Trainer trainer(config);
  memory.restart();
  log.restart();
  (void)trainer.evaluate({batch});
  const std::vector<MemoryPart> parts = log.parts(trainer.lasting_tensors(), 0);
  EXPECT_EQ(sum(parts), memory.peak_bytes());
  EXPECT_GE(bytes_of(parts, "ema_swap"), 4 * model_size(config).parameters);
  EXPECT_GT(bytes_of(parts, "evaluation"), 0);
}

} // namespace allocation_log_test
} // namespace assay
