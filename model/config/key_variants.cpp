#include "model/config/key_variants.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "core/text.h"
#include "model/config/family_config.h"

namespace assay {

namespace {

const std::set<std::string> kProcessKeys{"data",
                                         "device",
                                         "prefetch_batches",
                                         "ranks",
                                         "seed",
                                         "tf32",
                                         "threads",
                                         "tokenizer",
                                         "tokenizer_threads"};
const std::set<std::string> kSameKeys{"data", "device", "seed", "tokenizer"};
const std::set<std::string> kLoaderKeys{"batch_copy",
                                        "data_source",
                                        "loader_reshape",
                                        "planted_document_ms",
                                        "prefetch_batches",
                                        "tokenizer_threads"};
const std::set<std::string> kBatchKeys{
    "accumulate", "batch_rows", "eval_batches", "packing", "phase_batches", "ranks", "seq_len"};
// Shapes of every family, and what else makes a model another one.
const std::set<std::string>& all_model_keys() {
  static const std::set<std::string> keys = [] {
    std::set<std::string> names{"chunk_size",
                                "conv_kernel",
                                "family",
                                "mup_width",
                                "nsa_attention",
                                "nsa_overlap",
                                "pattern",
                                "value_shift"};
    const auto add = [&](const std::vector<ShapeKey>& shapes) {
      for (const ShapeKey& shape : shapes)
        if (!kBatchKeys.contains(shape.name)) names.insert(shape.name);
    };
    add(common_shape_keys());
    for (const FamilyConfig& family : family_configs().all()) add(family.keys);
    return names;
  }();
  return keys;
}

std::set<std::string> common(const std::set<std::string>& a, const std::set<std::string>& b) {
  std::set<std::string> both;
  std::ranges::set_intersection(a, b, std::inserter(both, both.end()));
  return both;
}

// The value of an enum by the name that to_string() gives it.
template <class Enum> Result<Enum> named(const std::string& name, std::initializer_list<Enum> all) {
  std::vector<std::string> names;
  for (const Enum value : all) {
    if (name == to_string(value)) return value;
    names.emplace_back(to_string(value));
  }
  return fail(
      "'{}' is none of {}{}", printable(name), fmt::join(names, ", "), did_you_mean(name, names));
}

} // namespace

Optimization key_row(std::string name, Equivalence expect, Unit unit, std::vector<Level> variants) {
  return {.name = std::move(name),
          .summary = "values of training keys",
          .equivalence = expect,
          .unit = unit,
          .gates = {Gate::Finite},
          .levels = std::move(variants),
          .equality = "finite losses of a short training; nothing else has to be equal",
          .of_table = false};
}

Result<Equivalence> equivalence_named(const std::string& name) {
  return named(name, {Equivalence::Statistical, Equivalence::Objective});
}

Result<Unit> unit_named(const std::string& name) {
  return named(name, {Unit::TrainStep, Unit::Evaluation, Unit::Token, Unit::PipelineStep});
}

std::set<std::string> process_keys(const std::set<std::string>& keys) {
  return common(keys, kProcessKeys);
}

std::set<std::string> same_keys(const std::set<std::string>& keys) {
  return common(keys, kSameKeys);
}

std::set<std::string> loader_keys(const std::set<std::string>& keys) {
  return common(keys, kLoaderKeys);
}

std::set<std::string> batch_keys(const std::set<std::string>& keys) {
  return common(keys, kBatchKeys);
}

std::int64_t step_tokens(const TrainConfig& config) {
  return config.seq_len * config.batch_rows * config.accumulate * config.ranks;
}

std::set<std::string> model_keys(const std::set<std::string>& keys) {
  return common(keys, all_model_keys());
}

} // namespace assay
