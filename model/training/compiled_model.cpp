#include "model/training/compiled_model.h"

#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <unordered_map>
#include <utility>

#include "core/result.h"
#include "core/span.h"
#include "core/text.h"

namespace assay {

namespace {

using Loader = torch::inductor::AOTIModelPackageLoader;
using Metadata = std::unordered_map<std::string, std::string>;

std::unique_ptr<Loader> open(const std::string& path) {
  if (std::error_code ignored; !std::filesystem::is_regular_file(path, ignored))
    bad_input("{}: no such file (the package); make it with experiments/packages/compile.py",
              printable(path));
  try {
    return std::make_unique<Loader>(path);
  } catch (const std::exception& error) {
    const std::string what = error.what();
    bad_input("{}: LibTorch cannot load it as a compiled package: {}",
              printable(path),
              printable(what.substr(0, what.find('\n'))));
  }
}

// A line a parameter, sorted: "embedding 256x128".
std::string shapes_of(const std::vector<Parameter>& parameters) {
  std::vector<std::string> lines;
  for (const Parameter& parameter : parameters)
    lines.push_back(
        fmt::format("{} {}\n", parameter.name, fmt::join(parameter.tensor.sizes(), "x")));
  std::ranges::sort(lines);
  return fmt::format("{}", fmt::join(lines, ""));
}

void check_metadata(const std::string& path,
                    const Metadata& metadata,
                    const TrainConfig& config,
                    const std::vector<Parameter>& parameters) {
  const auto value_of = [&](const char* key) {
    const auto found = metadata.find(key);
    if (found == metadata.end())
      bad_input("{}: its metadata has no `{}`, so experiments/packages/compile.py did not make it",
                printable(path),
                key);
    return found->second;
  };
  for (const auto& [key, wanted] : {std::pair("family", config.family),
                                    std::pair("batch_rows", std::to_string(config.batch_rows)),
                                    std::pair("seq_len", std::to_string(config.seq_len))})
    if (const std::string given = value_of(key); given != wanted)
      bad_input("{}: was compiled for {} = {}, not {}; compile it again",
                printable(path),
                key,
                printable(given),
                wanted);
  const std::string given = value_of("shapes"), wanted = shapes_of(parameters);
  if (given == wanted) return;
  const auto differs = std::ranges::mismatch(given, wanted).in2;
  const auto line = std::find(std::reverse_iterator(differs), wanted.rend(), '\n').base();
  bad_input("{}: was compiled for another model: its weights are not those of this configuration, "
            "beginning with `{}`; compile it again",
            printable(path),
            std::string(line, std::find(line, wanted.end(), '\n')));
}

} // namespace

CompiledModel::CompiledModel(const TrainConfig& config, const std::vector<Parameter>& parameters)
    : path_(config.package), loader_(open(path_)) {
  check_metadata(path_, loader_->get_metadata(), config, parameters);
  read(parameters);
}

CompiledModel::~CompiledModel() = default;

// Tells the package where the weights lie, if that changed: a swap with the average moves them.
void CompiledModel::read(const std::vector<Parameter>& parameters) {
  std::vector<const void*> places;
  for (const Parameter& parameter : parameters) places.push_back(parameter.tensor.const_data_ptr());
  if (places == read_) return;
  std::unordered_map<std::string, at::Tensor> weights;
  for (const Parameter& parameter : parameters)
    weights.emplace(parameter.name, parameter.tensor.detach());
  // By these names; update_constant_buffer() takes others, and passes over those that it lacks.
  loader_->load_constants(
      weights, /*use_inactive=*/false, /*check_full_update=*/true, /*user_managed=*/true);
  read_ = std::move(places);
}

at::Tensor CompiledModel::logits(const Batch& batch, const std::vector<Parameter>& parameters) {
  count("eval_forward/compiled");
  read(parameters);
  return loader_->run({batch.tokens, document_starts(batch)}).front();
}

at::Tensor document_starts(const Batch& batch) {
  at::Tensor starts = at::empty(batch.tokens.sizes(), at::kLong);
  auto* const start = starts.mutable_data_ptr<std::int64_t>();
  const std::int64_t row = batch.tokens.size(1);
  const std::vector<std::int32_t>& ends = batch.documents.cu_host;
  for (std::size_t i = 0; i + 1 < ends.size(); ++i)
    std::fill(start + ends[i], start + ends[i + 1], ends[i] % row);
  return starts.to(batch.tokens.device());
}

} // namespace assay
