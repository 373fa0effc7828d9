#include "model/config/train_config.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <type_traits>

#include "core/text.h"

namespace assay {

namespace {

// Text of every enumerator, in order.
template <class E> struct EnumNames;
#define ASSAY_ENUM_NAMES(Enum, ...)                                                                \
  template <> struct EnumNames<Enum> {                                                             \
    static std::vector<std::string> all() { return {__VA_ARGS__}; }                                \
  }
ASSAY_ENUM_NAMES(Device, "cpu", "cuda");
ASSAY_ENUM_NAMES(Precision, "fp32", "bf16", "fp16", "fp8");
ASSAY_ENUM_NAMES(Attention, "mask_dense", "packed", "varlen");
ASSAY_ENUM_NAMES(EmaSwap, "clone_copy", "pointer_swap", "exchange");
ASSAY_ENUM_NAMES(Bf16Guard, "cast_always", "cast_if_needed");
ASSAY_ENUM_NAMES(GradScaler, "off", "dynamic");
ASSAY_ENUM_NAMES(DeltaForm, "naive", "chunked");
ASSAY_ENUM_NAMES(NsaAttention, "nsa", "dense");
ASSAY_ENUM_NAMES(NsaRanges, "v1", "v2a", "v2b", "direct");
ASSAY_ENUM_NAMES(DdpAccumulate, "every_micro_step", "last");
ASSAY_ENUM_NAMES(DdpCompress, "none", "fp16", "bf16");
ASSAY_ENUM_NAMES(ValidationRanks, "rank0", "sharded", "seed_barrier");
ASSAY_ENUM_NAMES(PlantedWait, "none", "forward", "backward", "optimizer", "ema", "host");
#undef ASSAY_ENUM_NAMES

// The one table of keys: calls visit(name, member reference, summary) for each, in order.
template <class Config, class Visit> void for_each_key(Config& c, Visit visit) {
  visit("family", c.family, "model family");
  visit("preset", c.preset, "named shape: tiny, small or base; fills every shape key left at 0");
  visit("pattern",
        c.pattern,
        "one letter a layer: G gated DeltaNet, M multi-head latent attention; N in family nsa");
  visit("d_model", c.d_model, "residual width");
  visit("heads", c.heads, "query heads of every layer");
  visit("head_dim",
        c.head_dim,
        "DeltaNet and NSA key and value width a head; MLA no-position and value width");
  visit("rope_dim", c.rope_dim, "MLA decoupled rotary width, shared by the heads; NSA: head_dim");
  visit("kv_rank", c.kv_rank, "MLA latent width");
  visit("kv_groups", c.kv_groups, "NSA: groups of heads that share keys, values and selection");
  visit("ffn_dim", c.ffn_dim, "feed-forward hidden width");
  visit("vocab_size",
        c.vocab_size,
        "rows of embedding and head; at least the tokenizer's vocabulary");
  visit("conv_kernel", c.conv_kernel, "taps of the short causal convolution");
  visit("chunk_size", c.chunk_size, "tokens a chunk of the gated delta rule");
  visit("delta_form",
        c.delta_form,
        "gated delta rule: recurrence, or chunks with hand-written backward");
  visit("nsa_block", c.nsa_block, "NSA: tokens that a compressed block averages");
  visit("nsa_stride", c.nsa_stride, "NSA: tokens between two compressed blocks' beginnings");
  visit("nsa_select_block", c.nsa_select_block, "NSA: tokens a selected block");
  visit("nsa_select_count", c.nsa_select_count, "NSA: blocks that a query selects");
  visit("nsa_window", c.nsa_window, "NSA: tokens of the sliding window");
  visit("nsa_gate_dim", c.nsa_gate_dim, "NSA: hidden width of the MLP that mixes the branches");
  visit("nsa_attention",
        c.nsa_attention,
        "NSA: the three sparse branches, or dense attention of the same shape");
  visit("data",
        c.data,
        "directory of text files, text file, or JSONL with a `text` field; .gz allowed");
  visit("tokenizer", c.tokenizer, "`bytes`, or the path of a SentencePiece model");
  visit("seq_len", c.seq_len, "tokens a row");
  visit("batch_rows", c.batch_rows, "rows a micro-batch");
  visit("tokenizer_threads", c.tokenizer_threads, "threads that read and tokenize documents");
  visit("prefetch_batches", c.prefetch_batches, "batches the loader may run ahead");
  visit("device", c.device, "where the model runs");
  visit("precision",
        c.precision,
        "compute type under autocast (fp8: bf16, and linears in FP8); weights and optimizer stay "
        "fp32");
  visit("ranks", c.ranks, "processes that train one model, data parallel");
  visit("threads", c.threads, "intra-op threads; 0: every core");
  visit("seed", c.seed, "initial weights and data order");
  visit("steps", c.steps, "optimizer steps of the schedule and of a stand-alone run");
  visit("accumulate", c.accumulate, "micro-batches an optimizer step");
  visit("lr", c.lr, "peak learning rate; 0: the preset's");
  visit("min_lr_ratio", c.min_lr_ratio, "end of the cosine as a share of lr");
  visit("warmup_steps", c.warmup_steps, "linear warm-up");
  visit("weight_decay", c.weight_decay, "decoupled, on matrices only");
  visit("beta1", c.beta1, "AdamW");
  visit("beta2", c.beta2, "AdamW");
  visit("adam_eps", c.adam_eps, "AdamW");
  visit("grad_clip", c.grad_clip, "global gradient norm; 0: no clipping");
  visit("ema_decay", c.ema_decay, "exponential moving average of the weights; 0: none");
  visit("eval_interval", c.eval_interval, "steps between evaluations");
  visit("eval_batches", c.eval_batches, "batches an evaluation");
  visit("init_scale", c.init_scale, "loss scaler: first scale, a power of two");
  visit("scale_growth_interval",
        c.scale_growth_interval,
        "loss scaler: good steps before the scale doubles");
  visit("attention", c.attention, "how packed documents attend (optimization `varlen`)");
  visit("ema_swap", c.ema_swap, "how evaluation reaches the EMA weights (optimization `ema_swap`)");
  visit("bf16_guard",
        c.bf16_guard,
        "cast of q, k, v before the delta rule (optimization `bf16_guard`)");
  visit("bf16_delta_inputs", c.bf16_delta_inputs, "the delta rule takes bf16 q, k, v");
  visit("grad_scaler", c.grad_scaler, "loss scaling (optimization `grad_scaler`)");
  visit("nsa_ranges",
        c.nsa_ranges,
        "NSA: how selected blocks reach attention (optimization `nsa_ranges`)");
  visit("ddp_bucket_mib",
        c.ddp_bucket_mib,
        "ranks: MiB of gradients that one all-reduce takes (optimization `ddp_buckets`)");
  visit("ddp_static_graph",
        c.ddp_static_graph,
        "ranks: the first step fixes which gradients come (optimization `ddp_static_graph`)");
  visit("ddp_find_unused",
        c.ddp_find_unused,
        "ranks: search the graph for parameters without a gradient every step (optimization "
        "`ddp_find_unused`)");
  visit("ddp_accumulate",
        c.ddp_accumulate,
        "ranks: micro-steps that all-reduce (optimization `ddp_accumulate`)");
  visit("ddp_compress",
        c.ddp_compress,
        "ranks: type of gradients on the way (optimization `ddp_compress`)");
  visit("validation_ranks",
        c.validation_ranks,
        "ranks: who evaluates (optimization `validation_ranks`)");
  visit("planted_spin",
        c.planted_spin,
        "busy-wait this share of the running median step (tests of the engine)");
  visit("planted_wait",
        c.planted_wait,
        "wait 1 ms more in this stage; host: sleep between stages (tests of attribution)");
}

template <class T> std::string type_name() {
  if constexpr (std::is_enum_v<T>)
    return fmt::format("one of {}", fmt::join(EnumNames<T>::all(), "|"));
  if constexpr (std::is_same_v<T, bool>) return "bool";
  if constexpr (std::is_same_v<T, double>) return "float";
  if constexpr (std::is_integral_v<T>) return "int";
  return "string";
}

template <class T> nlohmann::json value_to_json(const T& value) {
  if constexpr (std::is_enum_v<T>)
    return EnumNames<T>::all()[static_cast<std::size_t>(value)];
  else
    return value;
}

template <class T>
Result<bool> assign(T& target, std::string_view key, const nlohmann::json& value) {
  const auto wrong = [&] {
    return fail("key '{}' takes {}, not {}",
                key,
                type_name<T>(),
                printable(value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
  };
  if constexpr (std::is_enum_v<T>) {
    if (!value.is_string()) return wrong();
    const std::vector<std::string> names = EnumNames<T>::all();
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (names[i] == value.get<std::string>()) {
        target = static_cast<T>(i);
        return true;
      }
    }
    return wrong();
  } else if constexpr (std::is_same_v<T, bool>) {
    if (!value.is_boolean()) return wrong();
    target = value.get<bool>();
  } else if constexpr (std::is_same_v<T, double>) {
    if (!value.is_number()) return wrong();
    if (!std::isfinite(value.get<double>()))
      return fail("key '{}' takes a finite number, not {}", key, value.get<double>());
    target = value.get<double>();
  } else if constexpr (std::is_integral_v<T>) {
    if (!value.is_number_integer() &&
        !(value.is_number_float() &&
          value.get<double>() ==
              static_cast<double>(static_cast<std::int64_t>(value.get<double>()))))
      return wrong();
    if (std::is_unsigned_v<T> && value.get<double>() < 0) return wrong();
    target = value.get<T>();
  } else {
    if (!value.is_string()) return wrong();
    target = value.get<std::string>();
  }
  return true;
}

std::vector<std::string> key_names() {
  std::vector<std::string> names;
  for (const ConfigKey& key : config_keys()) names.push_back(key.name);
  return names;
}

} // namespace

const std::vector<ConfigKey>& config_keys() {
  static const std::vector<ConfigKey> keys = [] {
    std::vector<ConfigKey> result;
    TrainConfig config;
    for_each_key(config, [&](const char* name, auto& member, const char* summary) {
      result.push_back({name, type_name<std::decay_t<decltype(member)>>(), summary});
    });
    return result;
  }();
  return keys;
}

nlohmann::json to_json(const TrainConfig& config) {
  nlohmann::json json = nlohmann::json::object();
  for_each_key(config, [&](const char* name, const auto& member, const char*) {
    json[name] = value_to_json(member);
  });
  return json;
}

Result<bool> set_key(TrainConfig& config, std::string_view key, const nlohmann::json& value) {
  Result<bool> result = fail("unknown key '{}'{}; `assay list keys` shows all",
                             printable(key),
                             did_you_mean(key, key_names()));
  for_each_key(config, [&](const char* name, auto& member, const char*) {
    if (key == name) result = assign(member, key, value);
  });
  return result;
}

Result<bool> set_key_text(TrainConfig& config, std::string_view key, std::string_view text) {
  // Text is JSON where that parses to a number or a truth value and the key is no string, else a
  // string.
  for (const ConfigKey& row : config_keys()) {
    if (row.name != key || row.type == "string" || row.type.starts_with("one of")) continue;
    const nlohmann::json value = nlohmann::json::parse(text, nullptr, false);
    return set_key(config, key, value.is_discarded() ? nlohmann::json(std::string(text)) : value);
  }
  return set_key(config, key, nlohmann::json(std::string(text)));
}

Result<TrainConfig> config_from_json(const nlohmann::json& json) {
  if (!json.is_object()) return fail("a training configuration is a JSON object");
  TrainConfig config;
  for (const auto& [key, value] : json.items())
    if (Result<bool> set = set_key(config, key, value); !set) return set.error();
  return config;
}

} // namespace assay
