// Every row of the optimization table passes its gates, and planted wrong functions are rejected by
// them.
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "model/config/key_variants.h"
#include "model/gates/gate_parts.h"
#include "model/gates/gates.h"
#include "model/layers/delta_rule/gated_delta_rule.h"
#include "tests/model/event_counts.h"
#include "tests/model/model_fixture.h"

namespace assay {
namespace model_gates_test {

using testing_model::ragged_batch;
using testing_model::ragged_batches;
using testing_model::small_config;
using testing_model::small_config_for;

struct RowLevel {
  const Optimization* row;
  const Level* level;
};

std::vector<RowLevel> all_levels() {
  std::vector<RowLevel> all;
  for (const Optimization& row : optimizations().all()) {
    if (row.needs_ranks) continue;                // ddp_test.cpp
    if (row.unit == Unit::PipelineStep) continue; // data/loader_rows_test.cpp
    // A GPU alone: gpu/step_graph_gpu_test.cpp, gpu/model_gpu_test.cpp.
    if (row.name == "step_graph" || row.name == "product_choice") continue;
    if (row.name == "compile") continue; // needs a package: tests/interop/check_files.py
    for (const Level& level : row.levels) all.push_back({&row, &level});
  }
  return all;
}

std::string level_name(const testing::TestParamInfo<RowLevel>& info) {
  return info.param.row->name + "_" + info.param.level->name;
}

TrainConfig with_level(TrainConfig config, const Level& level) {
  config.bf16_delta_inputs = true;
  level.apply(config);
  return config;
}

class EveryLevel : public testing::TestWithParam<RowLevel> {};

// Levels that only a GPU has are refused before anything runs.
bool refused(const TrainConfig& config, const Level& level) {
  TrainConfig changed = config;
  level.apply(changed);
  return !resolve(changed);
}

// A level that is marked as wrong fails one.
TEST_P(EveryLevel, PassesItsGates) {
  const auto& [row, level] = GetParam();
  if (refused(small_config_for(*row), *level)) GTEST_SKIP() << "the level needs a GPU";
  TrainConfig base = small_config_for(*row);
  if (row->name != "bf16_guard") base.bf16_delta_inputs = false;
  TrainConfig reference = base, other = base;
  reference.bf16_delta_inputs = other.bf16_delta_inputs = row->name == "bf16_guard";
  row->levels.front().apply(reference);
  level->apply(other);
  const std::vector<GateResult> gates =
      run_gates(*row, reference, other, ragged_batches(reference, 4));
  EXPECT_GE(gates.size(), 2U);
  bool passed = true;
  for (const GateResult& gate : gates) {
    passed = passed && gate.passed;
    EXPECT_TRUE(gate.passed || level->wrong)
        << gate.name << ": " << gate.value << " > " << gate.bound << " (" << gate.detail << ")";
    EXPECT_FALSE(gate.detail.empty());
  }
  EXPECT_EQ(passed, !level->wrong);
}

// One span shows that a level ran, and no other level of its row shows that span.
TEST_P(EveryLevel, ShowsItsOwnSpan) {
  const auto& [row, level] = GetParam();
  if (refused(small_config_for(*row), *level)) GTEST_SKIP() << "the level needs a GPU";
  const TrainConfig config = with_level(small_config_for(*row), *level);
  const CodePath seen = record_code_path(*row, config, ragged_batches(config, 2));
  for (const Level& other : row->levels) {
    if (other.span.empty()) continue;
    const bool shown = seen.spans.count(other.span) > 0 || seen.counters.count(other.span) > 0;
    EXPECT_EQ(shown, other.span == level->span) << other.span; // spins of two lengths share one
  }
  EXPECT_FALSE(seen.operators.empty());
}

TEST(Levels, OnlyTwoNeedAGpu) {
  std::vector<std::string> names;
  for (const RowLevel& one : all_levels())
    if (refused(small_config_for(*one.row), *one.level))
      names.push_back(one.row->name + "/" + one.level->name);
  EXPECT_EQ(names, (std::vector<std::string>{"mla_attention/cudnn", "mla_attention/efficient"}));
}

// Every cell of 16-bit precision is measured against fp32, whatever fast levels its base has.
TEST(Levels, EachHasATruthInFp32) {
  std::size_t checked = 0;
  for (const RowLevel& one : all_levels()) {
    TrainConfig config = small_config_for(*one.row);
    config.device = Device::Cuda;
    config.precision = Precision::Bf16;
    one.level->apply(config);
    if (!resolve(config)) continue; // not a level of bf16
    const Result<TrainConfig> truth = resolve(in_fp32(config));
    ASSERT_TRUE(truth) << one.row->name << "/" << one.level->name << ": " << truth.error().message;
    EXPECT_EQ(truth->precision, Precision::Fp32);
    ++checked;
  }
  EXPECT_GT(checked, 50U);
}

// A cell may have the graph and timed products in its base, whatever its row.
TEST(Levels, TheTruthInFp32HasNeitherGraphNorTimedProducts) {
  for (const char* family : {"deltanet_mla", "nsa", "gpt"}) {
    TrainConfig config;
    config.family = family;
    config.preset = std::string_view(family) == "gpt" ? "gpt2" : "base";
    config.device = Device::Cuda;
    config.precision = Precision::Bf16;
    config.weights16 = Weights16::Kept;
    config.step_graph = StepGraph::On;
    config.product_choice = ProductChoice::Timed;
    const TrainConfig truth = in_fp32(config);
    EXPECT_TRUE(resolve(truth)) << family;
    EXPECT_EQ(truth.step_graph, StepGraph::Off) << family;
    EXPECT_EQ(truth.product_choice, ProductChoice::Heuristic) << family;
  }
}

// Layouts decide how the overlap of blocks is summed. Batches come as the level needs them.
TEST(Gates, TheReferenceComputesItsOwnFunction) {
  const Optimization& row = *optimizations().find("nsa_overlap");
  const TrainConfig reference = with_level(small_config_for(row), *row.level("scatter")),
                    level = with_level(small_config_for(row), *row.level("product"));
  EventCounts events;
  {
    const SpanSinkGuard counting(events);
    for (const GateResult& gate : run_gates(row, reference, level, ragged_batches(level, 4)))
      EXPECT_TRUE(gate.passed) << gate.name;
  }
  EXPECT_GT(events.seen["nsa_overlap/scatter"], 0);
  EXPECT_GT(events.seen["nsa_overlap/product"], 0);
}

INSTANTIATE_TEST_SUITE_P(All, EveryLevel, testing::ValuesIn(all_levels()), level_name);

TEST(Bf16Guard, CountsTheCopiesThatWereMade) {
  const Optimization& row = *optimizations().find("bf16_guard");
  for (const Precision precision : {Precision::Fp32, Precision::Bf16}) {
    for (const Level& level : row.levels) {
      TrainConfig config = with_level(small_config(), level);
      config.precision = precision;
      const CodePath seen = record_code_path(row, config, {ragged_batch(config)});
      EXPECT_EQ(seen.counters.at("copies/bf16_cast"),
                precision == Precision::Fp32 ? 6 : 0); // q, k, v of two layers
    }
  }
}

// The future reaches the past, and nothing else is wrong.
TEST(Varlen, OnlyCausalityRejectsALevelWithoutTheMask) {
  TrainConfig reference = small_config(), level = reference;
  reference.attention = Attention::MaskDense;
  level.attention = Attention::NoCausalMask;
  for (const GateResult& gate :
       run_gates(*optimizations().find("varlen"), reference, level, ragged_batches(reference, 2)))
    EXPECT_EQ(gate.passed, gate.name != "causality") << gate.name << ": " << gate.detail;
}

// A document's first token is in the document before it, a row's in the row before: there it sees
// later places than its own.
TEST(Varlen, GatesRejectShiftedBorders) {
  TrainConfig reference = small_config(), level = reference;
  reference.attention = Attention::Varlen;
  level.attention = Attention::ShiftedBorders;
  std::set<std::string> failed;
  for (const GateResult& gate :
       run_gates(*optimizations().find("varlen"), reference, level, ragged_batches(reference, 2)))
    if (!gate.passed) failed.insert(gate.name);
  EXPECT_EQ(failed,
            (std::set<std::string>{"causality", "isolation/documents", "math/per_document"}));
}

TEST(GdnKernel, RejectsAnEraseBeforeTheDecay) {
  TrainConfig reference = small_config(), level = reference;
  reference.delta_form = DeltaForm::Chunked;
  level.delta_form = DeltaForm::UndecayedErase;
  std::map<std::string, bool> passed;
  for (const GateResult& gate : run_gates(
           *optimizations().find("gdn_kernel"), reference, level, ragged_batches(reference, 2)))
    passed[gate.name] = gate.passed;
  EXPECT_FALSE(passed.at("math/delta_rule"));
  EXPECT_FALSE(passed.at("math/logits"));
}

// A broken level must fail its gates: the learning rate differs, the scaler's scale is no power of
// two.
TEST(TrainingGates, RejectADifferentUpdate) {
  const Optimization& row = *optimizations().find("bf16_guard");
  const TrainConfig reference = small_config();
  TrainConfig broken = reference;
  broken.lr *= 1.0001;
  const auto gates = run_gates(row, reference, broken, ragged_batches(reference, 2));
  EXPECT_FALSE(gates[0].passed);
  EXPECT_FALSE(gates[1].passed);
  TrainConfig scaled = reference;
  scaled.grad_scaler = GradScaler::Dynamic;
  scaled.init_scale = 1000.0;
  const auto scaler_gates = run_gates(
      *optimizations().find("grad_scaler"), reference, scaled, ragged_batches(reference, 2));
  EXPECT_FALSE(scaler_gates[0].passed);
}

// A model of other weights, nearly as good: its losses are near, and are not the same.
TEST(LossGates, RejectAnotherLoss) {
  const TrainConfig reference = small_config();
  TrainConfig other = reference;
  other.seed += 1;
  const auto gates = loss_gates(reference, other, ragged_batches(reference, 2));
  ASSERT_EQ(gates.size(), 2U);
  for (const GateResult& gate : gates) EXPECT_FALSE(gate.passed) << gate.name << gate.detail;
}

TEST(TrainingGates, BlameTheReferenceThatDiverges) {
  TrainConfig config = small_config();
  config.lr = 1e30;
  const auto gates =
      run_gates(*optimizations().find("bf16_guard"), config, config, ragged_batches(config, 2));
  EXPECT_FALSE(gates[0].passed);
  EXPECT_NE(gates[0].detail.find("the reference's own are not finite"), std::string::npos)
      << gates[0].name << ": " << gates[0].detail;
}

// Variants of which nothing is promised: any finite training passes, one that is lost does not.
TEST(FiniteGate, RejectsATrainingWhoseLossIsLost) {
  const Optimization row = key_row("lr", Equivalence::Objective, Unit::TrainStep);
  const TrainConfig reference = small_config();
  TrainConfig other = reference;
  other.lr *= 2;
  const auto passes = run_gates(row, reference, other, ragged_batches(reference, 2));
  ASSERT_EQ(passes.size(), 1U);
  EXPECT_TRUE(passes[0].passed) << passes[0].value;
  other.lr = 1e30;
  const auto fails = run_gates(row, reference, other, ragged_batches(reference, 2));
  ASSERT_EQ(fails.size(), 1U);
  EXPECT_FALSE(fails[0].passed);
  EXPECT_GT(fails[0].value, 0);
}

// Whichever level is the baseline.
TEST(VarlenGates, EveryLevelPassesAgainstEveryOther) {
  const Optimization& row = *value_or_throw(optimizations().lookup("varlen"));
  const TrainConfig config = small_config();
  for (const Level& from : row.levels)
    for (const Level& to : row.levels) {
      TrainConfig reference = config, level = config;
      from.apply(reference), to.apply(level);
      if (&from == &to || from.wrong || to.wrong || !resolve(reference) || !resolve(level))
        continue;
      for (const GateResult& gate : run_gates(row, reference, level, ragged_batches(reference, 2)))
        EXPECT_TRUE(gate.passed) << from.name << " to " << to.name << ": " << gate.name;
    }
}

TEST(VarlenGates, RejectALevelThatDoesNotIsolate) {
  const TrainConfig config = small_config();
  Trainer trainer(config);
  const Batch batch = ragged_batch(config);
  const auto packed = [&](const Batch& b) { return trainer.logits(b, Attention::Packed); };
  const GateResult gate = isolation_gate(packed, batch, batch.documents, config.vocab_size);
  EXPECT_FALSE(gate.passed);
  EXPECT_GT(gate.value, 0);
  EXPECT_FALSE(per_document_gate(packed, batch, config).passed);
}

// Documents alone are 2 % off; rounding explains that if it alone takes the logits as far from
// fp32.
TEST(VarlenGates, DocumentsAloneMayDifferAsMuchAsRoundingDoes) {
  TrainConfig config = small_config();
  config.precision = Precision::Bf16;
  const Batch batch = ragged_batch(config);
  const at::Tensor packed = at::randn({batch.tokens.numel(), 8});
  const auto passes = [&](const LogitsFunction& exact) {
    std::int64_t begin = 0;
    const auto logits = [&](const Batch& b) {
      const std::int64_t tokens = b.tokens.numel();
      return tokens == packed.size(0)
                 ? packed
                 : packed.narrow(0, std::exchange(begin, begin + tokens), tokens) * 1.02;
    };
    return per_document_gate(logits, batch, config, exact).passed;
  };
  EXPECT_FALSE(passes({}));
  EXPECT_FALSE(passes([&](const Batch&) { return packed * 1.015; }));
  EXPECT_TRUE(passes([&](const Batch&) { return packed * 1.03; }));
}

// Borders one token late, as when cu_seqlens are taken from the row before the shift.
TEST(VarlenGates, RejectMisalignedBorders) {
  const TrainConfig config = small_config();
  Trainer trainer(config);
  const Batch batch = ragged_batch(config);
  const auto misaligned = [&](const Batch& b) {
    Batch shifted = b;
    for (std::size_t i = 1; i + 1 < shifted.documents.cu_host.size(); ++i)
      ++shifted.documents.cu_host[i];
    prepare(shifted, config);
    return trainer.logits(shifted);
  };
  EXPECT_FALSE(isolation_gate(misaligned, batch, batch.documents, config.vocab_size).passed);
  EXPECT_FALSE(per_document_gate(misaligned, batch, config).passed);
}

TEST(VarlenGates, RejectAConvolutionWithoutReset) {
  const TrainConfig config = small_config();
  Trainer trainer(config);
  const Batch batch = ragged_batch(config);
  const auto leaking = [&](const Batch& b) {
    Batch mutant = b;
    ChunkLayout layout = *b.documents.chunks;
    layout.taps = at::ones_like(layout.taps);
    mutant.documents.chunks = std::make_shared<const ChunkLayout>(layout);
    return trainer.logits(mutant);
  };
  EXPECT_FALSE(isolation_gate(leaking, batch, batch.documents, config.vocab_size).passed);
  EXPECT_FALSE(per_document_gate(leaking, batch, config).passed);
}

TEST(VarlenGates, RejectAStateThatIsNotReset) {
  const TrainConfig config = small_config();
  Trainer trainer(config);
  const Batch batch = ragged_batch(config);
  const auto leaking = [&](const Batch& b) {
    Batch mutant = b;
    ChunkLayout layout =
        *b.rows.chunks; // the rows' chunks, the documents' borders for everything else
    layout.taps = b.documents.chunks->taps;
    mutant.documents.chunks = std::make_shared<const ChunkLayout>(layout);
    return trainer.logits(mutant);
  };
  EXPECT_FALSE(isolation_gate(leaking, batch, batch.documents, config.vocab_size).passed);
}

TEST(VarlenGates, RejectAFunctionThatSeesTheFuture) {
  const TrainConfig config = small_config();
  Trainer trainer(config);
  const Batch batch = ragged_batch(config);
  const auto leaking = [&](const Batch& b) {
    const at::Tensor logits = trainer.logits(b);
    return logits + 1e-6 * logits.roll({-1}, {0});
  };
  EXPECT_FALSE(causality_gate(leaking, batch, config.vocab_size).passed);
  const auto blind = [&](const Batch& b) {
    return at::zeros({b.token_count(), config.vocab_size});
  };
  EXPECT_FALSE(causality_gate(blind, batch, config.vocab_size).passed);
}

TEST(DeltaRuleGate, AcceptsTheChunkFormAndRejectsTheUndecayedEraseTerm) {
  const TrainConfig config = small_config();
  const Batch batch = ragged_batch(config);
  EXPECT_TRUE(delta_rule_gate(gated_delta_rule_chunked, batch, config).passed);
  const GateResult gate = delta_rule_gate(delta_rule_of(DeltaForm::UndecayedErase), batch, config);
  EXPECT_FALSE(gate.passed);
  EXPECT_GT(gate.value, 1e-3);
}

TEST(RelativeRms, NotANumberIsInfinitelyFar) {
  EXPECT_EQ(relative_rms(at::full({2}, NAN), at::ones({2})),
            std::numeric_limits<double>::infinity());
  EXPECT_NEAR(relative_rms(at::full({2}, 1.5), at::ones({2})), 0.5, 1e-12);
}

Trained trained(float last_weight) {
  return {at::tensor({5.0, 4.0}, at::kDouble), at::tensor({1.0F, 2.0F, last_weight})};
}

TEST(CompareTrainings, ADifferenceThatTheReferenceShowsSeldomIsNotBlamedOnTheLevel) {
  std::size_t asked = 0;
  const auto sixth_differs = [&] { return trained(++asked == 6 ? 3.0001F : 3.0F); };
  const auto gates = compare_trainings(trained(3.0F), trained(3.0001F), 2, sixth_differs);
  EXPECT_EQ(asked, kRepetitions);
  EXPECT_EQ(gates[0].name, "math/weights");
  EXPECT_TRUE(gates[0].passed);
  EXPECT_EQ(gates[1].name, "bitwise/loss");
  EXPECT_TRUE(gates[1].passed);
}

TEST(CompareTrainings, ALevelThatAloneDiffersFails) {
  std::size_t asked = 0;
  const auto repeats = [&] { return ++asked, trained(3.0F); };
  const auto gates = compare_trainings(trained(3.0F), trained(3.0001F), 2, repeats);
  EXPECT_EQ(asked, kRepetitions);
  EXPECT_EQ(gates[0].name, "bitwise/weights");
  EXPECT_FALSE(gates[0].passed);
}

TEST(CompareTrainings, EqualTrainingsNeedOneRepetition) {
  std::size_t asked = 0;
  const auto repeats = [&] { return ++asked, trained(3.0F); };
  EXPECT_TRUE(compare_trainings(trained(3.0F), trained(3.0F), 2, repeats)[0].passed);
  EXPECT_EQ(asked, 1U);
}

} // namespace model_gates_test
} // namespace assay
