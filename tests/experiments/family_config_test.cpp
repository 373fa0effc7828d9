// Families and optimizations stand in one place each: their rows are whole, and nothing beside them
// asks for a name.
#include "model/config/family_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "model/config/key_bounds.h"
#include "model/config/key_choices.h"
#include "model/config/key_variants.h"
#include "model/config/optimization.h"
#include "model/config/step_graph.h"
#include "tests/paths.h"

namespace assay {
namespace family_config_test {

TrainConfig preset(const FamilyConfig& family, const Preset& row) {
  TrainConfig config;
  config.family = family.name;
  config.preset = row.name;
  return value_or_throw(resolve(config));
}

TEST(FamilyConfig, EveryPresetGivesEveryKeyAndEveryLayerIsWhole) {
  std::set<char> letters;
  for (const FamilyConfig& family : family_configs().all()) {
    for (const LayerKind& kind : family.layers)
      EXPECT_TRUE(letters.insert(kind.letter).second) << kind.letter << " is used twice";
    for (const Preset& row : family.presets) {
      EXPECT_EQ(row.values.size(), common_shape_keys().size() + family.keys.size()) << row.name;
      const TrainConfig config = preset(family, row);
      for (const char letter : config.pattern) {
        const LayerKind& kind = layer_kind(config, letter);
        EXPECT_GT(kind.size(config).matrix, 0);
        if (kind.head_width != nullptr) {
          EXPECT_GT(kind.head_width(config).width, 0);
        }
      }
    }
  }
}

TEST(FamilyConfig, LayoutsAreThoseOfThePatternsLayers) {
  TrainConfig config = value_or_throw(resolve({}));
  EXPECT_TRUE(layouts_of(config).chunks && layouts_of(config).rotary);
  config.pattern = "GG";
  EXPECT_FALSE(layouts_of(config).rotary || layouts_of(config).causal_mask);
  config.pattern = "MM";
  EXPECT_FALSE(layouts_of(config).chunks);
  TrainConfig sparse;
  sparse.family = "nsa";
  sparse = value_or_throw(resolve(sparse));
  EXPECT_EQ(layouts_of(sparse).blocks->window, 32);
  sparse.nsa_attention = NsaAttention::Dense;
  EXPECT_FALSE(layouts_of(sparse).blocks);
}

// Variants that differ in such a key get batches of their own: a shape of the model, or a choice
// that decides which layouts its layers read.
TEST(FamilyConfig, KeysOfShapesAndLayoutsAreTheModels) {
  const auto is_model_key = [](const std::string& key) { return model_keys({key}).contains(key); };
  for (const FamilyConfig& family : family_configs().all()) {
    for (const auto* keys : {&common_shape_keys(), &family.keys})
      for (const ShapeKey& key : *keys)
        EXPECT_TRUE(is_model_key(key.name) || !key.in_tensors) << key.name;
    const TrainConfig config = preset(family, family.presets.front());
    const Layouts before = layouts_of(config);
    for (const ConfigKey& key : config_keys())
      for (const std::string& choice : key_choices(key.name)) {
        TrainConfig other = config;
        ASSERT_TRUE(set_key(other, key.name, nlohmann::json(choice)));
        const Layouts after = layouts_of(other);
        const bool pairs = before.blocks && after.blocks &&
                           before.blocks->overlap_pairs != after.blocks->overlap_pairs;
        if (pairs || before.blocks.has_value() != after.blocks.has_value() ||
            before.chunks != after.chunks || before.rotary != after.rotary ||
            before.positions != after.positions || before.causal_mask != after.causal_mask) {
          EXPECT_TRUE(is_model_key(key.name)) << key.name;
        }
      }
  }
}

// The levels of a row share their batches, so what a batch is prepared with may not hang on a
// level.
TEST(FamilyConfig, NoOptimizationSwitchesLayouts) {
  for (const FamilyConfig& family : family_configs().all())
    for (const Optimization& row : optimizations().all()) {
      if (!row.family.empty() && row.family != family.name) continue;
      TrainConfig reference = preset(family, family.presets.front());
      row.levels.front().apply(reference);
      for (const Level& level : row.levels) {
        TrainConfig config = reference;
        level.apply(config);
        const Layouts a = layouts_of(reference), b = layouts_of(config);
        EXPECT_TRUE(a.chunks == b.chunks && a.rotary == b.rotary &&
                    a.causal_mask == b.causal_mask && a.blocks.has_value() == b.blocks.has_value())
            << row.name << " " << level.name;
      }
    }
}

TEST(StepGraph, RefusesByNameWhatACaptureCannotContain) {
  TrainConfig fits;
  fits.device = Device::Cuda;
  fits.precision = Precision::Bf16;
  fits.delta_form = DeltaForm::Fused;
  fits.delta_inputs = DeltaInputs::Fused;
  fits.step_graph = StepGraph::On;
  EXPECT_TRUE(resolve(fits)) << resolve(fits).error().message;
  const auto refusal = [&](auto change) {
    TrainConfig config = fits;
    change(config);
    TrainConfig off = config;
    off.step_graph = StepGraph::Off;
    EXPECT_TRUE(resolve(off)) << "refused for another reason: " << resolve(off).error().message;
    const Result<TrainConfig> resolved = resolve(config);
    return resolved ? std::string() : resolved.error().message;
  };
  const auto expect = [](const std::string& message, const std::string& word) {
    EXPECT_NE(message.find("key 'step_graph' = on needs"), std::string::npos) << message;
    EXPECT_NE(message.find(word), std::string::npos) << message;
  };
  expect(refusal([](TrainConfig& c) { c.device = Device::Cpu; }), "device = cuda");
  const auto sparse = [](TrainConfig& c) { c.family = "nsa"; };
  EXPECT_EQ(refusal(sparse), "");
  expect(refusal([&](TrainConfig& c) { sparse(c), c.nsa_ranges = NsaRanges::V2a; }), "nsa_ranges");
  expect(refusal([&](TrainConfig& c) { sparse(c), c.nsa_form = NsaForm::PerToken; }), "nsa_form");
  expect(refusal([&](TrainConfig& c) { sparse(c), c.nsa_overlap = NsaOverlap::Scatter; }),
         "nsa_overlap");
  expect(refusal([&](TrainConfig& c) { sparse(c), c.nsa_stats = NsaStats::Every50; }), "nsa_stats");
  expect(refusal([&](TrainConfig& c) { sparse(c), c.head_dim = 32; }), "head_dim 64 or 128");
  expect(refusal([&](TrainConfig& c) { sparse(c), c.heads = 34; }), "16 heads in a group");
  expect(refusal([&](TrainConfig& c) { sparse(c), c.seq_len = 1 << 17; }), "kernel that selects");
  expect(refusal([](TrainConfig& c) { c.ranks = 2; }), "ranks = 1");
  expect(refusal([](TrainConfig& c) { c.delta_form = DeltaForm::Chunked; }), "delta_form = fused");
  expect(refusal([](TrainConfig& c) { c.delta_inputs = DeltaInputs::Ops; }),
         "delta_inputs = fused");
  expect(refusal([](TrainConfig& c) { c.precision = Precision::Fp16; }), "precision = bf16 or fp8");
  expect(refusal([](TrainConfig& c) { c.chunk_size = 32; }), "chunk_size = 64");
  expect(refusal([](TrainConfig& c) { c.head_dim = 48; }), "head_dim");
  expect(refusal([](TrainConfig& c) { c.attention = Attention::MaskDense; }), "attention = packed");
  expect(refusal([](TrainConfig& c) { c.mla_attention = MlaAttention::Math; }), "mla_attention");
  expect(refusal([](TrainConfig& c) { c.planted_spin = 0.05; }), "planted");
  expect(refusal([](TrainConfig& c) { c.planted_wait = PlantedWait::Host; }), "planted");
  fits.attention = Attention::Packed;
  EXPECT_TRUE(resolve(fits));
  fits.precision = Precision::Fp8;
  EXPECT_TRUE(resolve(fits));
}

TEST(StepGraph, RoomForDocuments) {
  EXPECT_EQ(document_room(1), 64);
  EXPECT_EQ(document_room(64), 64);
  EXPECT_EQ(document_room(65), 96);
  EXPECT_EQ(document_room(129), 192);
  EXPECT_EQ(document_room(256), 256);
  EXPECT_FALSE(document_room(257));
}

TEST(StepGraph, ANewGraphHasRoomForTwiceTheDocuments) {
  EXPECT_EQ(graph_room(0), 64);
  EXPECT_EQ(graph_room(32), 64);
  EXPECT_EQ(graph_room(33), 96);
  EXPECT_EQ(graph_room(64), 128);
  EXPECT_EQ(graph_room(96), 192);
  EXPECT_EQ(graph_room(97), 256);
  EXPECT_EQ(graph_room(128), 256);
  EXPECT_EQ(graph_room(256), 256); // no graph has room for 512
  EXPECT_EQ(graph_room(257), std::nullopt);
}

TEST(Residual16, NeedsFusedNormsAndBf16) {
  TrainConfig fits;
  fits.precision = Precision::Bf16;
  fits.norms = Norms::Fused;
  fits.residual = Residual::Bf16;
  EXPECT_TRUE(resolve(fits)) << resolve(fits).error().message;
  const auto expect_refused = [&](auto change) {
    TrainConfig config = fits;
    change(config);
    const Result<TrainConfig> resolved = resolve(config);
    ASSERT_FALSE(resolved);
    const std::string& message = resolved.error().message;
    EXPECT_NE(message.find("key 'residual' = bf16 needs norms = fused and precision = bf16 or fp8"),
              std::string::npos)
        << message;
  };
  expect_refused([](TrainConfig& c) { c.norms = Norms::Ops; });
  expect_refused([](TrainConfig& c) { c.precision = Precision::Fp32; });
  expect_refused([](TrainConfig& c) { c.precision = Precision::Fp16; });
  fits.precision = Precision::Fp8;
  EXPECT_TRUE(resolve(fits)) << resolve(fits).error().message;
}

TEST(Optimizations, EveryRowNamesItsGates) {
  for (const Optimization& row : optimizations().all()) EXPECT_FALSE(row.gates.empty()) << row.name;
}

TEST(Optimizations, RowsOfSeveralRanksFollowTheOthersAndTestRowsComeLast) {
  const auto group = [](const Optimization& row) {
    return row.hidden ? 2 : row.needs_ranks ? 1 : 0;
  };
  EXPECT_TRUE(std::ranges::is_sorted(optimizations().all(), {}, group));
  EXPECT_EQ(optimizations().all().front().name, "varlen");
}

TEST(ConfigKeys, PlantedKeysAreHiddenAndStillSet) {
  TrainConfig config;
  for (const ConfigKey& key : config_keys())
    EXPECT_EQ(key.hidden, key.name.starts_with("planted_")) << key.name;
  EXPECT_TRUE(set_key_text(config, "planted_wait", "ema"));
  EXPECT_EQ(config.planted_wait, PlantedWait::Ema);
  EXPECT_EQ(set_key_text(config, "planted_wai", "ema").error().message.find("did you mean"),
            std::string::npos);
}

TEST(ConfigKeys, EveryIntegerHasBoundsAndNoProductOfThemLeaves64Bits) {
  for (const ConfigKey& key : config_keys()) {
    if (key.type != "int" || key.name == "seed") continue;
    const auto bounds = std::find_if(integer_bounds().begin(),
                                     integer_bounds().end(),
                                     [&](const KeyBounds& row) { return row.name == key.name; });
    ASSERT_NE(bounds, integer_bounds().end()) << key.name;
    EXPECT_LE(bounds->least, bounds->most) << key.name;
  }
  const auto most = [](const char* name) {
    for (const KeyBounds& row : integer_bounds())
      if (row.name == name) return row.most;
    return std::int64_t{0};
  };
  TrainConfig config;
  config.preset = "moe-tiny"; // has the most keys
  const auto of_another_family = [&](std::string_view name) {
    for (const FamilyConfig& family : family_configs().all())
      for (const ShapeKey& key : family.keys)
        if (key.name == name && family.name != config.family) return true;
    return false;
  };
  for (const KeyBounds& row : integer_bounds())
    if (!of_another_family(row.name)) {
      ASSERT_TRUE(set_key(config, row.name, row.most)) << row.name;
    }
  config.pattern = std::string(1024, 'M');
  config.attention = Attention::MaskDense;
  config.recompute_every = 0; // not with ranks
  EXPECT_THAT(resolve(config).error().message, testing::HasSubstr("times 'expert_dim'"));
  config.expert_dim = (std::int64_t{1} << 28) / config.experts;
  const Result<TrainConfig> resolved = resolve(config);
  ASSERT_TRUE(resolved) << resolved.error().message;
  const ModelSize size = model_size(*resolved);
  EXPECT_GT(size.parameters, std::int64_t{1} << 40);
  EXPECT_GT(size.state_bytes, size.parameters);
  EXPECT_EQ(size.activation_bytes, std::int64_t{1} << 58);
  for (const std::int64_t factor :
       {most("accumulate") * most("ranks"), most("prefetch_batches"), most("eval_batches")})
    EXPECT_LT(std::log2(static_cast<double>(most("seq_len") * most("batch_rows"))) +
                  std::log2(static_cast<double>(factor)),
              63);
  config.pattern += 'M';
  EXPECT_THAT(resolve(config).error().message, testing::HasSubstr("at most 1024 letters"));
}

// One message blames one key.
TEST(ConfigKeys, AFractionOutsideItsRangeIsNamedAlone) {
  const auto mistake = [](const char* key, double value) {
    TrainConfig config;
    EXPECT_TRUE(set_key(config, key, value));
    const Result<TrainConfig> resolved = resolve(config);
    return resolved ? "" : resolved.error().message;
  };
  EXPECT_EQ(mistake("beta1", 1), "key 'beta1' must be at least 0 and below 1, not 1");
  EXPECT_EQ(mistake("beta2", -0.5), "key 'beta2' must be at least 0 and below 1, not -0.5");
  EXPECT_EQ(mistake("min_lr_ratio", 2),
            "key 'min_lr_ratio' must be at least 0 and at most 1, not 2");
  EXPECT_EQ(mistake("grad_clip", -1), "key 'grad_clip' must be at least 0, not -1");
  EXPECT_EQ(mistake("adam_eps", 0), "key 'adam_eps' must be above 0, not 0");
  EXPECT_EQ(mistake("lr", -1), "key 'lr' must be above 0, not -1");
}

TEST(ConfigKeys, ChoicesAreThoseOfTheEnumeration) {
  EXPECT_EQ(key_choices("precision"), (std::vector<std::string>{"fp32", "bf16", "fp16", "fp8"}));
  for (const char* key : {"steps", "data", "no_such_key", "lr"})
    EXPECT_TRUE(key_choices(key).empty()) << key;
  const TrainConfig config;
  for (const ConfigKey& key : config_keys())
    for (const std::string& choice : key_choices(key.name)) {
      TrainConfig copy = config;
      EXPECT_TRUE(set_key_text(copy, key.name, choice)) << key.name << " = " << choice;
    }
}

TEST(ConfigKeys, TextFormsFollowTheEnumerators) {
  TrainConfig config;
  for (const auto& [key, text] :
       std::vector<std::pair<std::string, std::string>>{{"attention", "mask_dense"},
                                                        {"bf16_guard", "cast_if_needed"},
                                                        {"nsa_ranges", "v2a"},
                                                        {"ddp_accumulate", "every_micro_step"},
                                                        {"validation_ranks", "rank0"},
                                                        {"precision", "fp8"}})
    EXPECT_TRUE(set_key_text(config, key, text)) << key;
  EXPECT_EQ(config.attention, Attention::MaskDense);
  EXPECT_EQ(config.bf16_guard, Bf16Guard::CastIfNeeded);
  EXPECT_EQ(config.nsa_ranges, NsaRanges::V2a);
  EXPECT_EQ(config.validation_ranks, ValidationRanks::Rank0);
}

TEST(ConfigKeys, TextThatIsNoUtf8IsNamedEscaped) {
  TrainConfig config;
  const Result<bool> set = set_key_text(config, "data", "caf\xe9/\xff");
  ASSERT_FALSE(set);
  EXPECT_NE(set.error().message.find("'caf\\xe9/\\xff'"), std::string::npos) << set.error().message;
  EXPECT_TRUE(set_key_text(config, "data", "café/\xef\xbf\xbd"));
}

// A family's name or a layer's letter is compared nowhere outside the files of families, and an
// optimization's name nowhere among the gates.
TEST(OnePlace, NothingElseAsksForANameOfAFamilyLayerOrOptimization) {
  namespace fs = std::filesystem;
  const std::regex asks(
      R"((family|kind|letter|optimization\.name|row\.name|word\(\w+, "family"\)) *[!=]= *["'])");
  int files = 0;
  for (const char* room : {"model/config",
                           "model/config/optimizations",
                           "model/layout",
                           "model/gates",
                           "experiments/plan",
                           "experiments/plan/claims",
                           "experiments/plan/matrix"})
    for (const auto& entry : fs::directory_iterator(fs::path(test::source_dir()) / room)) {
      if (entry.path().extension() != ".cpp") continue;
      ++files;
      std::ostringstream text;
      text << std::ifstream(entry.path()).rdbuf();
      std::smatch found;
      const std::string code = text.str();
      if (std::regex_search(code, found, asks))
        ADD_FAILURE() << entry.path() << ": " << found.str();
    }
  EXPECT_GT(files, 15);
}

// 16-bit activations take half, and chunks bound what logits take.
TEST(ActivationBytes, FollowThePrecisionAndTheLossHead) {
  const auto bytes = [](Precision precision, std::int64_t chunk_mib) {
    TrainConfig config;
    config.preset = "base";
    config.precision = precision;
    config.loss_chunk_mib = chunk_mib;
    return model_size(value_or_throw(resolve(config))).activation_bytes;
  };
  TrainConfig base;
  base.preset = "base";
  base = value_or_throw(resolve(base));
  const std::int64_t logits = 12 * base.vocab_size * base.seq_len * base.batch_rows;
  EXPECT_EQ(bytes(Precision::Fp32, 0) - logits, 2 * (bytes(Precision::Bf16, 0) - logits));
  EXPECT_EQ(bytes(Precision::Bf16, 0) - bytes(Precision::Bf16, 1), logits - 3 * (1 << 20));
  EXPECT_EQ(bytes(Precision::Bf16, 1 << 20), bytes(Precision::Bf16, 0)) << "more than all logits";
}

// Measured on an H200 (docs/results/h200/moe): 13.74 GiB between steps, and 9.60 more at the peak.
TEST(StateBytes, OfMuonAreWhatAGpuMeasured) {
  TrainConfig config;
  config.preset = "moe-1b";
  config.precision = Precision::Bf16;
  config.batch_rows = 4;
  config.weights16 = Weights16::Kept;
  config.optimizer = OptimizerKind::Muon;
  config.muon_form = MuonForm::Batched;
  const ModelSize size = model_size(value_or_throw(resolve(config)));
  constexpr double kGiB = 1 << 30;
  EXPECT_NEAR(static_cast<double>(size.state_bytes) / kGiB, 13.74, 0.02 * 13.74);
  EXPECT_NEAR(
      static_cast<double>(size.gradient_bytes + size.update_bytes) / kGiB, 9.60, 0.03 * 9.60);
}

} // namespace family_config_test
} // namespace assay
