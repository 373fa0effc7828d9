// Two processes train one model. The parent starts this program twice more, as rank 0 and rank 1
// with Gloo over a FileStore; they run the cases of the suite DISABLED_TwoRanks in order, in one
// process group. A failed case of either shows up in the parent with its output.
#include <ATen/Parallel.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <vector>

#include "core/result.h"
#include "core/stopwatch.h"
#include "model/ddp/process_group.h"
#include "model/gates/code_path.h"
#include "model/gates/gates.h"
#include "model/training/trainer.h"
#include "tests/model/model_fixture.h"
#include "tests/scratch.h"

namespace assay {
namespace ddp_test {

using testing_model::ragged_batch;
using testing_model::small_config;

constexpr int kRanks = 2;
constexpr std::chrono::seconds kLimit{120};

// ---- The parent -------------------------------------------------------------------------------

class RankProcess {
public:
  RankProcess(int rank, const std::filesystem::path& directory)
      : log_(directory / ("rank" + std::to_string(rank) + ".log")) {
    const std::string rank_text = std::to_string(rank), log = log_.string();
    ::setenv("ASSAY_TEST_RANK", rank_text.c_str(), 1); // exec hands it on
    ::setenv("ASSAY_TEST_STORE", (directory / "store").c_str(), 1);
    pid_ = ::fork();
    if (pid_ != 0) return;
    const int file = ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || ::dup2(file, STDOUT_FILENO) < 0 || ::dup2(file, STDERR_FILENO) < 0) ::_exit(3);
    ::execl("/proc/self/exe",
            "tests_ddp",
            "--gtest_filter=DISABLED_TwoRanks.*",
            "--gtest_also_run_disabled_tests",
            nullptr);
    ::_exit(3);
  }

  // Exit code; 128 + signal where one ended it.
  int wait(std::chrono::steady_clock::time_point deadline) const {
    int status = 0;
    while (::waitpid(pid_, &status, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > deadline) ::kill(pid_, SIGKILL);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  std::string log() const {
    std::stringstream text;
    text << std::ifstream(log_).rdbuf();
    return text.str();
  }

private:
  std::filesystem::path log_;
  pid_t pid_ = -1;
};

TEST(SeveralRanks, TrainOneModel) {
  const test::Scratch scratch;
  const RankProcess first(0, scratch.path()), second(1, scratch.path());
  const auto deadline = std::chrono::steady_clock::now() + kLimit;
  for (const RankProcess* process : {&first, &second}) {
    EXPECT_EQ(process->wait(deadline), 0) << process->log();
    EXPECT_NE(process->log().find("[  PASSED  ]"), std::string::npos);
  }
}

TEST(SeveralRanks, AProcessAloneRefusesThem) {
  TrainConfig config = small_config();
  config.ranks = 2;
  try {
    const Trainer trainer(config);
    FAIL() << "a trainer of two ranks came up alone";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.kind(), Failure::Kind::BadInput);
    EXPECT_NE(std::string(failure.what()).find("`ranks` is 2"), std::string::npos);
  }
}

// ---- The ranks --------------------------------------------------------------------------------

class DISABLED_TwoRanks : public testing::Test {
protected:
  static void SetUpTestSuite() {
    const char* rank = std::getenv("ASSAY_TEST_RANK");
    if (rank == nullptr) return; // run by hand
    at::set_num_threads(1);
    const auto store =
        c10::make_intrusive<c10d::FileStore>(std::getenv("ASSAY_TEST_STORE"), kRanks);
    store->setTimeout(std::chrono::seconds(30));
    RankPlace place;
    place.rank = place.local_rank = std::atoi(rank);
    place.size = kRanks;
    group() = std::make_shared<ProcessGroup>(
        store, place, Device::Cpu, [](const std::string& issue) { issued().push_back(issue); });
  }
  static void TearDownTestSuite() {
    if (!group()) return;
    group()->barrier("end");
    group()->close();
    EXPECT_THROW(group()->barrier("after the end"), Failure);
    group().reset();
  }
  void SetUp() override {
    if (!group()) GTEST_SKIP() << "SeveralRanks.TrainOneModel starts the ranks";
    group()->barrier("begin");
  }

  static std::shared_ptr<ProcessGroup>& group() {
    static std::shared_ptr<ProcessGroup> ranks;
    return ranks;
  }
  static std::vector<std::string>& issued() {
    static std::vector<std::string> fingerprints;
    return fingerprints;
  }
  // Issued so far, the reducer's included.
  static std::int64_t all_reduces() {
    return std::count_if(issued().begin(), issued().end(), [](const std::string& issue) {
      return issue.starts_with("all_reduce");
    });
  }
  static int rank() { return group()->rank(); }
};

TrainConfig two_ranks(TrainConfig config = small_config()) {
  config.ranks = kRanks;
  return config;
}

// 4.5 MiB of feed-forward weights: several buckets of 1 MiB.
TrainConfig several_buckets() {
  TrainConfig config = two_ranks();
  config.ffn_dim = 4096;
  return config;
}

// Batch number i of the stream belongs to rank i % kRanks.
Batch stream_batch(const TrainConfig& config, std::size_t index) {
  return ragged_batch(config, 20 + index);
}

std::vector<Batch> share(const TrainConfig& config, int rank, std::size_t step) {
  std::vector<Batch> own;
  for (std::size_t i = 0; i < static_cast<std::size_t>(config.accumulate); ++i)
    own.push_back(stream_batch(config,
                               (step * static_cast<std::size_t>(config.accumulate) + i) * kRanks +
                                   static_cast<std::size_t>(rank)));
  return own;
}

// The same batches as one packed batch of kRanks * accumulate times the rows.
Batch concatenated(const TrainConfig& config, std::size_t step) {
  std::vector<at::Tensor> tokens, targets;
  std::vector<std::int32_t> borders;
  for (std::size_t i = 0; i < static_cast<std::size_t>(kRanks * config.accumulate); ++i) {
    const Batch batch =
        stream_batch(config, step * static_cast<std::size_t>(kRanks * config.accumulate) + i);
    const auto offset =
        static_cast<std::int32_t>(tokens.size()) * static_cast<std::int32_t>(batch.token_count());
    for (const std::int32_t end : batch.documents.cu_host)
      if (end > 0) borders.push_back(end + offset);
    tokens.push_back(batch.tokens);
    targets.push_back(batch.targets);
  }
  Batch all = make_batch(at::cat(tokens), at::cat(targets), borders);
  prepare(all, config);
  return all;
}

TrainConfig alone(TrainConfig config) {
  config.batch_rows *= config.accumulate * config.ranks;
  config.ranks = config.accumulate = 1;
  return config;
}

double largest_relative(const std::vector<at::Tensor>& actual,
                        const std::vector<at::Tensor>& expected) {
  double largest = 0;
  for (std::size_t i = 0; i < expected.size(); ++i)
    largest = std::max(largest, relative_rms(actual[i], expected[i]));
  return largest;
}

at::Tensor flat(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> parts;
  for (const at::Tensor& tensor : tensors) parts.push_back(tensor.reshape(-1));
  return at::cat(parts);
}

// Averaged gradients of three passes, one after another.
at::Tensor
three_passes(const TrainConfig& config, int rank, const std::shared_ptr<ProcessGroup>& g) {
  Trainer trainer(config, g);
  std::vector<at::Tensor> passes;
  for (std::size_t step = 0; step < 3; ++step)
    passes.push_back(flat(trainer.averaged_gradients(share(config, rank, step))));
  return at::cat(passes);
}

TEST_F(DISABLED_TwoRanks, GradientsEqualOneProcessOnTheConcatenatedBatch) {
  for (const std::int64_t accumulate : {1, 2}) {
    TrainConfig config = two_ranks();
    config.accumulate = accumulate;
    Trainer together(config, group()), single(alone(config));
    for (std::size_t step = 0; step < 3; ++step)
      EXPECT_LE(largest_relative(together.averaged_gradients(share(config, rank(), step)),
                                 single.gradients(concatenated(config, step))),
                1e-6);
  }
}

TEST_F(DISABLED_TwoRanks, WeightsAndAverageStayBitEqual) {
  TrainConfig config = two_ranks();
  config.grad_scaler = GradScaler::Dynamic;
  Trainer together(config, group()), single(alone(config));
  for (std::size_t step = 0; step < 5; ++step) {
    (void)together.step(share(config, rank(), step));
    (void)single.step({concatenated(config, step)});
  }
  for (const auto& [name, tensor] : together.state_tensors()) {
    at::Tensor first = tensor.detach().clone();
    group()->broadcast(first, 0, "test/state");
    EXPECT_TRUE(at::equal(first, tensor)) << name;
  }
  EXPECT_LE(relative_rms(flat({together.weights()[0].second}), flat({single.weights()[0].second})),
            1e-5);
}

// The load of an expert is that of all ranks and micro-batches.
TEST_F(DISABLED_TwoRanks, BiasesOfExpertsAreThoseOfOneProcess) {
  TrainConfig config = two_ranks(testing_model::small_moe());
  config.balance_rate = 0.25;
  config.accumulate = 2;
  Trainer together(config, group()), single(alone(config));
  (void)together.step(share(config, rank(), 0));
  (void)single.step({concatenated(config, 0)});
  const NamedTensors expected = single.state_tensors();
  int biases = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (!expected[i].first.ends_with("router_bias")) continue;
    EXPECT_TRUE(at::equal(together.state_tensors()[i].second, expected[i].second));
    EXPECT_GT(expected[i].second.abs().max().item<double>(), 0);
    ++biases;
  }
  EXPECT_EQ(biases, 3);
}

// Rank 1's gradients of the second step overflow (a hook turns them to inf before they enter their
// bucket): inf is in everyone's sum, so both ranks skip that step and halve the same scale.
TEST_F(DISABLED_TwoRanks, AnOverflowOfOneRankIsSkippedByAll) {
  for (const DdpCompress compress : {DdpCompress::None, DdpCompress::Fp16, DdpCompress::Bf16}) {
    TrainConfig config = two_ranks();
    config.grad_scaler = GradScaler::Dynamic;
    config.init_scale = 256;
    config.ddp_compress = compress;
    Trainer trainer(config, group());
    (void)trainer.step(share(config, rank(), 0));
    EXPECT_EQ(trainer.skipped_steps(), 0);
    const at::Tensor before = flat({trainer.weights()[0].second}).clone();

    const at::Tensor& parameter = trainer.parameters().front().tensor;
    const unsigned hook = parameter.register_hook(
        [](const at::Tensor& gradient) { return group()->rank() == 1 ? gradient / 0 : gradient; });
    (void)trainer.step(share(config, rank(), 1));
    parameter.remove_hook(hook);
    EXPECT_EQ(trainer.skipped_steps(), 1);
    EXPECT_EQ(trainer.scaler().current_scale(), 128);
    EXPECT_TRUE(at::equal(flat({trainer.weights()[0].second}), before));

    (void)trainer.step(share(config, rank(), 2)); // training goes on, in step
    EXPECT_EQ(trainer.skipped_steps(), 1);
    EXPECT_FALSE(at::equal(flat({trainer.weights()[0].second}), before));
    for (const auto& [name, tensor] : trainer.state_tensors()) {
      at::Tensor first = tensor.detach().clone();
      group()->broadcast(first, 0, "test/state");
      EXPECT_TRUE(at::equal(first, tensor)) << name;
    }
  }
}

TEST_F(DISABLED_TwoRanks, AccumulatingRemovesAllButOneOfNAllReduces) {
  std::int64_t issues[2] = {};
  for (const DdpAccumulate mode : {DdpAccumulate::EveryMicroStep, DdpAccumulate::Last}) {
    TrainConfig config = several_buckets();
    config.accumulate = 4;
    config.ddp_bucket_mib = 1;
    config.ddp_accumulate = mode;
    Trainer trainer(config, group());
    (void)trainer.step(share(config, rank(), 0)); // buckets are rebuilt after it
    (void)trainer.step(share(config, rank(), 1));
    const std::int64_t before = all_reduces();
    (void)trainer.step(share(config, rank(), 2));
    issues[static_cast<int>(mode)] = all_reduces() - before;
  }
  EXPECT_GE(issues[1], 3); // buckets
  EXPECT_EQ(issues[0], 4 * issues[1]);
}

TEST_F(DISABLED_TwoRanks, EveryOptionGivesTheSameGradients) {
  TrainConfig config = several_buckets();
  config.accumulate = 2;
  const std::int64_t at_start = all_reduces();
  const at::Tensor expected = three_passes(config, rank(), group());
  const std::int64_t at_25 = all_reduces();
  TrainConfig small = config, fixed = config, searched = config;
  small.ddp_bucket_mib = 1;
  fixed.ddp_static_graph = true;
  searched.ddp_find_unused = true;
  EXPECT_TRUE(at::equal(three_passes(small, rank(), group()), expected));
  EXPECT_GT(all_reduces() - at_25, at_25 - at_start);
  EXPECT_TRUE(at::equal(three_passes(fixed, rank(), group()), expected));
  issued().clear();
  EXPECT_TRUE(at::equal(three_passes(searched, rank(), group()), expected));
  // Each pass also all-reduces which parameters had a gradient.
  EXPECT_EQ(std::count_if(issued().begin(),
                          issued().end(),
                          [](const std::string& s) { return s.find("used_map") != s.npos; }),
            3);
}

TEST_F(DISABLED_TwoRanks, ShardedEvaluationEqualsRankZeros) {
  EvalResult results[3];
  for (const ValidationRanks mode : {ValidationRanks::Rank0, ValidationRanks::Sharded}) {
    TrainConfig config = two_ranks();
    config.validation_ranks = mode;
    Trainer trainer(config, group());
    (void)trainer.step(share(config, rank(), 0));
    std::vector<Batch> batches;
    for (std::size_t i = 0; i < 3; ++i) batches.push_back(stream_batch(config, i));
    results[static_cast<int>(mode)] = trainer.evaluate(batches);
  }
  EXPECT_GT(results[0].nats_per_token, 1);
  EXPECT_NEAR(results[1].nats_per_token, results[0].nats_per_token, 1e-12);
  EXPECT_EQ(results[1].tokens, 3 * 2 * 48);
  EXPECT_EQ(results[0].tokens, results[1].tokens);
}

// Idle rank-seconds of `none`: an evaluation for each of the other ranks.
TEST_F(DISABLED_TwoRanks, WithoutABarrierTheOthersAreIdleInTheirNextCollective) {
  TrainConfig config = two_ranks();
  config.validation_ranks = ValidationRanks::None;
  Trainer trainer(config, group());
  (void)trainer.step(share(config, rank(), 0));
  const std::vector<Batch> batches(200, stream_batch(config, 0));
  group()->barrier("test/begin");
  issued().clear();
  const auto begin = std::chrono::steady_clock::now();
  const EvalResult result = trainer.evaluate(batches);
  const double own = seconds_since(begin);
  EXPECT_TRUE(issued().empty());
  group()->barrier("test/next");
  const double idle = seconds_since(begin) - own;

  EXPECT_EQ(result.known(), rank() == 0);
  EXPECT_EQ(result.tokens, rank() == 0 ? 200 * 2 * 48 : 0);
  at::Tensor evaluation = at::full({1}, own, at::kDouble);
  group()->broadcast(evaluation, 0, "test/evaluation");
  if (rank() == 1) {
    const double seconds = evaluation.item<double>();
    EXPECT_NEAR(idle, seconds, 0.05 * seconds);
  }
}

// The other ranks prove that they know nothing, and all that the next step's collectives match.
TEST_F(DISABLED_TwoRanks, WithoutABarrierRankZeroAloneKnowsTheLoss) {
  const Optimization& row = *value_or_throw(optimizations().lookup("validation_ranks"));
  TrainConfig config = two_ranks();
  config.validation_ranks = ValidationRanks::None;
  const std::vector<Batch> batches = {stream_batch(config, static_cast<std::size_t>(rank())),
                                      stream_batch(config, 2 + static_cast<std::size_t>(rank()))};
  const std::vector<GateResult> gates = run_gates(row, config, config, batches, group());
  ASSERT_EQ(gates.size(), 3u);
  EXPECT_EQ(gates[0].name, "agreement/collectives");
  EXPECT_EQ(gates[0].detail, "every rank issues: nothing");
  EXPECT_EQ(gates[1].name, "math/evaluation");
  EXPECT_EQ(gates[1].detail.find("only rank 0") != std::string::npos, rank() == 1);
  EXPECT_EQ(gates[2].name, "agreement/ranks");
  for (const GateResult& gate : gates) EXPECT_TRUE(gate.passed) << gate.name << gate.detail;
}

// ---- Shares -------------------------------------------------------------------------------------

std::vector<TrainConfig> sharded(TrainConfig config) {
  std::vector<TrainConfig> configs;
  for (const Sharding level : {Sharding::Optimizer, Sharding::Parameters}) {
    config.sharding = level;
    configs.push_back(two_ranks(config));
  }
  return configs;
}

std::vector<TrainConfig> sharded_models() {
  TrainConfig scaled = small_config(), recomputed = small_config();
  scaled.grad_scaler = GradScaler::Dynamic;
  recomputed.recompute_every = 2;
  std::vector<TrainConfig> configs;
  for (const TrainConfig& model : {scaled,
                                   recomputed,
                                   testing_model::small_moe(),
                                   testing_model::small_gpt(),
                                   testing_model::small_hydra(),
                                   testing_model::small_rwmba()})
    for (const TrainConfig& config : sharded(model)) configs.push_back(config);
  return configs;
}

TEST_F(DISABLED_TwoRanks, SharesPassTheGatesOfTheirRow) {
  const Optimization& row = *value_or_throw(optimizations().lookup("sharding"));
  for (const TrainConfig& config : sharded_models()) {
    const std::vector<Batch> batches = {stream_batch(config, static_cast<std::size_t>(rank())),
                                        stream_batch(config, 2 + static_cast<std::size_t>(rank()))};
    TrainConfig reference = config;
    reference.sharding = Sharding::None;
    std::set<std::string> names;
    for (const GateResult& gate : run_gates(row, reference, config, batches, group())) {
      EXPECT_TRUE(gate.passed) << config.family << " " << gate.name << " " << gate.value << " > "
                               << gate.bound << ": " << gate.detail;
      names.insert(gate.name);
    }
    EXPECT_TRUE(names.contains("math/gradients") && names.contains("agreement/overflow") &&
                names.contains("bitwise/skipped") && names.contains("share/state"));
  }
}

TEST_F(DISABLED_TwoRanks, SharesTrainAsWholeReplicasDo) {
  for (TrainConfig config : sharded_models()) {
    config.accumulate = 2;
    config.ddp_accumulate = DdpAccumulate::EveryMicroStep;
    TrainConfig whole = config;
    whole.sharding = Sharding::None;
    Trainer shares(config, group()), replicas(whole, group());
    for (std::size_t step = 0; step < 3; ++step) {
      const StepResult a = shares.step(share(config, rank(), step)),
                       b = replicas.step(share(config, rank(), step));
      EXPECT_NEAR(a.loss(), b.loss(), 1e-5) << config.family;
      EXPECT_NEAR(a.grad_norm() / b.grad_norm(), 1, 1e-5) << config.family;
    }
    const std::vector<Batch> batches = {stream_batch(config, 0), stream_batch(config, 1)};
    EXPECT_NEAR(
        shares.evaluate(batches).nats_per_token, replicas.evaluate(batches).nats_per_token, 1e-5);
    (void)shares.step(share(config, rank(), 3)); // the weights are back
    (void)replicas.step(share(config, rank(), 3));
    std::map<std::string, at::Tensor> state;
    for (const auto& [name, tensor] : shares.state_tensors()) state.emplace(name, tensor);
    for (const auto& [name, tensor] : replicas.state_tensors()) {
      if (!name.starts_with("model.")) continue;
      // Adam makes much of the rounding of a gradient that is nearly 0, as of a bias of keys.
      EXPECT_LE(relative_rms(state.at(name), tensor), 1e-3) << config.family << " " << name;
    }
  }
}

// Between steps a rank holds its half of every tensor; with sharding = optimizer all weights too.
TEST_F(DISABLED_TwoRanks, SharesHoldTheirPartAlone) {
  for (const TrainConfig& config : sharded(small_config())) {
    Trainer trainer(config, group());
    (void)trainer.step(share(config, rank(), 0));
    double held = 0, all = 0, state = 0;
    for (const Parameter& parameter : trainer.parameters()) {
      held += static_cast<double>(parameter.tensor.storage().nbytes() > 0);
      all += static_cast<double>(parameter.tensor.nbytes());
      EXPECT_FALSE(parameter.tensor.grad().defined());
    }
    EXPECT_EQ(held, config.sharding == Sharding::Optimizer ? std::ssize(trainer.parameters()) : 0);
    for (const auto& [name, tensor] : trainer.lasting_tensors())
      if (name.starts_with("optimizer.exp_avg.")) state += static_cast<double>(tensor.nbytes());
    EXPECT_NEAR(state / all, 0.5, 0.05); // a unit is cut between its parameters' ends
  }
}

// What one process saved is what the ranks go on with, and the other way round.
TEST_F(DISABLED_TwoRanks, SharesLoadAndGiveWholeStates) {
  for (const TrainConfig& config : sharded(small_config())) {
    Trainer single(alone(config)), other(alone(config)), shares(config, group());
    for (std::size_t step = 0; step < 2; ++step) (void)single.step({concatenated(config, step)});
    shares.load_state_tensors(single.state_tensors());
    const std::vector<Batch> batches = {stream_batch(config, 0)};
    EXPECT_NEAR(
        shares.evaluate(batches).nats_per_token, single.evaluate(batches).nats_per_token, 1e-12);
    other.load_state_tensors(shares.state_tensors());
    const NamedTensors expected = single.state_tensors(), actual = other.state_tensors();
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_TRUE(at::equal(actual[i].second, expected[i].second)) << expected[i].first;
  }
}

TEST_F(DISABLED_TwoRanks, AnotherModelIsRefusedByName) {
  TrainConfig config = two_ranks();
  if (rank() == 1) config.kv_rank = 8;
  try {
    const Trainer trainer(config, group());
    ADD_FAILURE() << "ranks of different models came up";
  } catch (const Failure& failure) {
    const std::string message = failure.what();
    EXPECT_EQ(failure.kind(), Failure::Kind::BadInput);
    EXPECT_NE(message.find("rank 1 has another model than rank 0"), std::string::npos) << message;
    EXPECT_NE(message.find("layers.1."), std::string::npos) << message; // the MLA layer's
  }
  config = two_ranks();
  if (rank() == 1) config.seed = 2;
  EXPECT_THROW(Trainer(config, group()), Failure);
}

TEST_F(DISABLED_TwoRanks, EveryLevelPassesItsGatesAndTheWrongOneDoesNot) {
  for (const Optimization& row : optimizations().all()) {
    if (!row.needs_ranks) continue;
    TrainConfig reference = two_ranks();
    reference.accumulate = 2;
    row.levels.front().apply(reference);
    const std::vector<Batch> batches = {
        stream_batch(reference, static_cast<std::size_t>(rank())),
        stream_batch(reference, 2 + static_cast<std::size_t>(rank()))};
    for (const Level& level : row.levels) {
      TrainConfig config = reference;
      level.apply(config);
      const std::vector<GateResult> gates = run_gates(row, reference, config, batches, group());
      bool passed = true;
      for (const GateResult& gate : gates) {
        passed = passed && gate.passed;
        if (!level.wrong) {
          EXPECT_TRUE(gate.passed)
              << row.name << "/" << level.name << " " << gate.name << ": " << gate.value << " > "
              << gate.bound << " (" << gate.detail << ")";
        }
      }
      EXPECT_EQ(passed, !level.wrong) << row.name << "/" << level.name;
      if (level.wrong) {
        EXPECT_NE(gates.front().detail.find("rank 0 would issue: barrier validation"),
                  std::string::npos)
            << gates.front().detail;
      }
    }
  }
}

TEST_F(DISABLED_TwoRanks, EveryLevelShowsItsOwnSpan) {
  for (const Optimization& row : optimizations().all()) {
    if (!row.needs_ranks) continue;
    for (const Level& level : row.levels) {
      TrainConfig config = two_ranks();
      level.apply(config);
      const std::vector<Batch> batches = {stream_batch(config, static_cast<std::size_t>(rank()))};
      const CodePath seen = record_code_path(row, config, batches, group());
      for (const Level& other : row.levels) {
        const bool shown = seen.spans.count(other.span) > 0 || seen.counters.count(other.span) > 0;
        EXPECT_EQ(shown, &other == &level) << other.span;
      }
    }
  }
}

// fp16 rounds what travels: the gate's bound must be met, and must not be met by fp32's.
TEST_F(DISABLED_TwoRanks, CompressionRoundsWithinItsBound) {
  TrainConfig config = two_ranks();
  const at::Tensor expected = three_passes(config, rank(), group());
  config.ddp_compress = DdpCompress::Fp16;
  const double fp16 = relative_rms(three_passes(config, rank(), group()), expected);
  config.ddp_compress = DdpCompress::Bf16;
  const double bf16 = relative_rms(three_passes(config, rank(), group()), expected);
  EXPECT_GT(fp16, 1e-6);
  EXPECT_LT(fp16, 1e-3);
  EXPECT_GT(bf16, 2 * fp16);
  EXPECT_LT(bf16, 1e-2);
}

} // namespace ddp_test
} // namespace assay
