// TrainConfig: plain data that fully determines a training process. No LibTorch here: the engine
// plans with it. One table (train_config.cpp) describes every key; JSON, matrix validation,
// `--set`, documentation and the checkpoint all derive from that table.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace assay {

enum class Device { Cpu, Cuda };
enum class Precision {
  Fp32,
  Bf16,
  Fp16,
  Fp8
}; // compute type under autocast, Fp8: bf16 with FP8 linears; weights stay fp32
enum class Attention { MaskDense, Packed, Varlen };         // see the `varlen` optimization
enum class EmaSwap { CloneCopy, PointerSwap, Exchange };    // see `ema_swap`
enum class Bf16Guard { Always, IfNeeded };                  // see `bf16_guard`
enum class GradScaler { Off, Dynamic };                     // see `grad_scaler`
enum class NsaRanges { V1, V2a, V2b, Direct };              // see `nsa_ranges`
enum class DdpAccumulate { EveryMicroStep, Last };          // see `ddp_accumulate`
enum class DdpCompress { None, Fp16, Bf16 };                // see `ddp_compress`
enum class ValidationRanks { Rank0, Sharded, SeedBarrier }; // see `validation_ranks`
enum class DeltaForm {
  Naive,
  Chunked
}; // gated delta rule: recurrence, or chunks with own backward

// Family `nsa`: the three sparse branches, or dense causal attention of the same heads and groups.
enum class NsaAttention { Nsa, Dense };

enum class PlantedWait { None, Forward, Backward, Optimizer, Ema, Host };

struct TrainConfig {
  // Model. `preset` fills the shape keys that are 0; naming one of them overrides the preset.
  std::string family = "deltanet_mla";
  std::string preset = "tiny";
  std::string pattern; // one letter a layer: G gated DeltaNet, M multi-head latent attention, N NSA
  std::int64_t d_model = 0;
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;   // DeltaNet and NSA key and value width, MLA no-position and value
                               // width
  std::int64_t rope_dim = 0;   // MLA decoupled rotary width; NSA: head_dim
  std::int64_t kv_rank = 0;    // MLA latent width
  std::int64_t kv_groups = 0;  // NSA: groups of heads that share keys, values and selection
  std::int64_t ffn_dim = 0;    // feed-forward hidden width
  std::int64_t vocab_size = 0; // 0: the tokenizer's
  std::int64_t conv_kernel = 4;
  std::int64_t chunk_size = 64;
  DeltaForm delta_form = DeltaForm::Chunked;
  std::int64_t nsa_block = 0;        // tokens that a compressed block averages
  std::int64_t nsa_stride = 0;       // tokens between the beginnings of two compressed blocks
  std::int64_t nsa_select_block = 0; // tokens a selected block
  std::int64_t nsa_select_count = 0; // blocks that a query selects
  std::int64_t nsa_window = 0;       // tokens of the sliding window
  std::int64_t nsa_gate_dim = 0;     // hidden width of the MLP that mixes the branches
  NsaAttention nsa_attention = NsaAttention::Nsa;

  // Data
  std::string data;                // directory, text file or JSONL (plain or .gz)
  std::string tokenizer = "bytes"; // "bytes", or the path of a SentencePiece model
  std::int64_t seq_len = 0;        // tokens a row
  std::int64_t batch_rows = 0;     // rows a micro-batch
  std::int64_t tokenizer_threads = 1;
  std::int64_t prefetch_batches = 4;

  // Training
  Device device = Device::Cpu;
  Precision precision = Precision::Fp32;
  std::int64_t ranks = 1;   // processes that train one model, data parallel (docs/ddp.md)
  std::int64_t threads = 0; // intra-op threads; 0: every core
  std::uint64_t seed = 1;
  std::int64_t steps = 300;    // length of the schedule and of a stand-alone run
  std::int64_t accumulate = 1; // micro-batches an optimizer step
  double lr = 0;               // 0: the preset's
  double min_lr_ratio = 0.1;
  std::int64_t warmup_steps = 20;
  double weight_decay = 0.1;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double adam_eps = 1e-8;
  double grad_clip = 1.0;
  double ema_decay = 0.99;          // 0: no EMA
  std::int64_t eval_interval = 100; // steps between evaluations
  std::int64_t eval_batches = 2;
  double init_scale = 65536.0; // loss scaler: start, a power of two
  std::int64_t scale_growth_interval = 2000;

  // Optimizations: one key a registry row; the first enumerator is the slow reference.
  Attention attention = Attention::Varlen;
  EmaSwap ema_swap = EmaSwap::Exchange;
  Bf16Guard bf16_guard = Bf16Guard::IfNeeded;
  bool bf16_delta_inputs = false; // the delta rule takes bf16 q, k, v (what `bf16_guard` guards)
  GradScaler grad_scaler = GradScaler::Off;
  NsaRanges nsa_ranges = NsaRanges::Direct;
  std::int64_t ddp_bucket_mib = 25;
  bool ddp_static_graph = false;
  bool ddp_find_unused = false;
  DdpAccumulate ddp_accumulate = DdpAccumulate::Last;
  DdpCompress ddp_compress = DdpCompress::None;
  ValidationRanks validation_ranks = ValidationRanks::Sharded;

  double planted_spin =
      0.0; // hidden: busy-wait this share of the running median step (engine tests)
  PlantedWait planted_wait = PlantedWait::None; // hidden: 1 ms more there (attribution's tests)
};

// One documented key.
struct ConfigKey {
  std::string name;
  std::string type; // "string", "int", "float", "bool", "one of a|b|c"
  std::string summary;
};

const std::vector<ConfigKey>& config_keys();

nlohmann::json to_json(const TrainConfig& config);
// Strict: an unknown key or a wrong type is an error that names the key and its nearest neighbour.
Result<TrainConfig> config_from_json(const nlohmann::json& json);
// Sets one key from a JSON value (matrix file) …
Result<bool> set_key(TrainConfig& config, std::string_view key, const nlohmann::json& value);
// … or from text (`--set key=value`).
Result<bool> set_key_text(TrainConfig& config, std::string_view key, std::string_view text);

// Fills every shape key that is 0 from the preset and checks that the whole is consistent (sizes
// divide, ranges hold). Unknown family or preset, or an impossible shape, is an error that names
// the key.
Result<TrainConfig> resolve(TrainConfig config);

std::vector<std::string> family_names();
std::vector<std::string> preset_names(std::string_view family);

// Trainable parameters and the bytes that weights, gradients, AdamW moments and EMA take (fp32).
// Needs a resolved config.
struct ModelSize {
  std::int64_t parameters = 0;
  std::int64_t state_bytes = 0;
  std::int64_t activation_bytes = 0; // rough, for planning: per micro-batch
};
ModelSize model_size(const TrainConfig& config);

} // namespace assay
