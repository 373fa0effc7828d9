// `assay evaluate`: loss of a checkpoint on held-out text.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <numbers>
#include <optional>
#include <vector>

#include "app/command_line/program.h"
#include "app/command_line/progress_line.h"
#include "app/value_checks.h"
#include "app/worker/verbs/restored.h"
#include "app/worker/worker.h"
#include "core/statistics/statistics.h"
#include "core/stopwatch.h"
#include "core/text.h"
#include "model/data/loader.h"
#include "model/data/spread.h"
#include "model/layout/segments.h"

namespace assay::worker {

namespace {

constexpr int kLinesInPipe = 10;

struct EvaluateOptions {
  std::string checkpoint, data, weights, linears, package;
  std::string device = "cpu";
  std::int64_t batches = 16;
  bool train_split = false, json = false;
};

struct Evaluation {
  EvalResult total;
  std::vector<double> batch_losses; // nats per token
  std::optional<Interval> interval; // 95 %, of the split's mean
  bool whole = false;               // the batches are all text of the split
  double seconds = 0;               // of the model alone, without reading
  std::string linears;              // value of eval_linears
  double unigram_nats = 0;          // entropy of the targets, as draws of single tokens

  double tokens_per_second() const { return static_cast<double>(total.tokens) / seconds; }
  double bits_per_byte() const {
    return total.nats_per_token * static_cast<double>(total.tokens) / std::numbers::ln2 /
           static_cast<double>(total.bytes);
  }
};

// In a pipe a plain line for each tenth of the work.
class EvaluationProgress {
public:
  // `split_bytes`: text of the split, where it is read to its end; how many batches that takes is
  // not known before. Else 0.
  EvaluationProgress(std::int64_t batches, double split_bytes)
      : batches_(batches), split_bytes_(split_bytes) {}

  // `read_bytes`: text of the batches so far.
  void show(std::int64_t done, double read_bytes) {
    const double share = split_bytes_ > 0
                             ? std::min(1.0, read_bytes / split_bytes_)
                             : static_cast<double>(done) / static_cast<double>(batches_);
    const int parts = static_cast<int>(share * kLinesInPipe);
    if (!line_.terminal() && parts == parts_) return;
    parts_ = parts;
    const double left = share > 0 ? seconds_since(start_) / share * (1 - share) : 0;
    const std::string of = split_bytes_ == 0 ? fmt::format("/{}", batches_)
                                             : fmt::format(", {:.0f} % of the split", 100 * share);
    const std::string text =
        fmt::format("batch {}{}{}", done, of, left < 1 ? "" : "  ETA " + human_seconds(left));
    line_.show(text.substr(0, line_.columns()), false);
  }

private:
  std::int64_t batches_;
  double split_bytes_;
  ProgressLine line_;
  int parts_ = 0;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// How often each token was a target.
class TokenCounts {
public:
  explicit TokenCounts(std::int64_t vocabulary) : counts_(at::zeros({vocabulary}, at::kLong)) {}

  void add(const at::Tensor& targets) {
    const at::Tensor flat = targets.to(at::kCPU).flatten();
    counts_ += at::bincount(flat.index({flat >= 0}), {}, counts_.numel()); // padding is -100
  }

  // Nats per token: what the best model that sees no context needs for these tokens.
  double entropy() const {
    const at::Tensor count = counts_.to(at::kDouble), share = count / count.sum();
    return -at::xlogy(share, share).sum().item<double>();
  }

private:
  at::Tensor counts_;
};

// Batches spread over the split are a sample of it, so their scatter tells how far its mean may be.
// Where they would overlap, the split is read from its start to its end.
Evaluation measure(Restored& restored, Split split, std::int64_t batches) {
  const std::vector<DataPosition> places =
      spread_positions(restored.source, restored.config, split, batches);
  TrainConfig config = restored.config;
  config.packing = Packing::Packed; // of either split
  DataStream stream(restored.source, config, split);
  Evaluation evaluation;
  evaluation.linears = to_json(restored.config).at("eval_linears").get<std::string>();
  double nats = 0;
  double split_bytes = 0;
  TokenCounts tokens(config.vocab_size);
  if (places.empty()) {
    const std::vector<double> ends = document_ends(restored.source, restored.config, split);
    if (!ends.empty()) split_bytes = ends.back();
  }
  EvaluationProgress progress(batches, split_bytes);
  for (std::int64_t i = 0; i < batches && !evaluation.whole; ++i) {
    if (!places.empty()) stream.seek(places[static_cast<std::size_t>(i)]);
    Batch batch = stream.next();
    tokens.add(batch.targets);
    prepare(batch, restored.config);
    const auto start = std::chrono::steady_clock::now();
    const EvalResult result = restored.trainer->evaluate({batch}); // waits for the device
    evaluation.seconds += seconds_since(start);
    evaluation.batch_losses.push_back(result.nats_per_token);
    nats += result.nats_per_token * static_cast<double>(result.tokens);
    evaluation.total.tokens += result.tokens;
    evaluation.total.bytes += result.bytes;
    evaluation.whole = places.empty() && stream.position().epoch > 0;
    progress.show(i + 1,
                  evaluation.whole ? split_bytes : static_cast<double>(evaluation.total.bytes));
  }
  evaluation.total.nats_per_token = nats / static_cast<double>(evaluation.total.tokens);
  evaluation.unigram_nats = tokens.entropy();
  if (!evaluation.whole) evaluation.interval = t_interval(evaluation.batch_losses, kShownAlpha);
  return evaluation;
}

std::string interval_text(const Evaluation& evaluation) {
  if (evaluation.interval)
    return fmt::format(
        ", 95 % interval [{:.4f}, {:.4f}]", evaluation.interval->lower, evaluation.interval->upper);
  return "";
}

// Why there is no interval.
std::string interval_note(const Evaluation& evaluation) {
  if (evaluation.whole) return "no interval: these batches are all text of the split";
  return evaluation.interval ? "" : "no interval: it needs two batches or more";
}

nlohmann::json interval_json(const std::optional<Interval>& interval) {
  if (!interval) return nullptr;
  return {interval->lower, interval->upper};
}

// e to the mean loss: among how many equally likely tokens the model would be as unsure.
std::optional<Interval> perplexity_interval(const std::optional<Interval>& nats) {
  if (!nats) return std::nullopt;
  return Interval{std::exp(nats->lower), std::exp(nats->upper)};
}

std::string perplexity_text(const Evaluation& evaluation) {
  const std::optional<Interval> interval = perplexity_interval(evaluation.interval);
  return fmt::format("perplexity {:.4g}{}",
                     std::exp(evaluation.total.nats_per_token),
                     interval ? fmt::format(" [{:.4g}, {:.4g}]", interval->lower, interval->upper)
                              : "");
}

Restored restore(const EvaluateOptions& options, const std::string& linears) {
  return restore_model({.checkpoint = options.checkpoint,
                        .device = options.device,
                        .open_data = true,
                        .data = options.data,
                        .weights = options.weights == "raw"   ? Weights::Raw
                                   : options.weights == "ema" ? Weights::Ema
                                                              : Weights::Default,
                        .linears = linears,
                        .package = options.package});
}

nlohmann::json figures(const Evaluation& evaluation) {
  const double nats = evaluation.total.nats_per_token;
  return {{"linears", evaluation.linears},
          {"nats_per_token", nats},
          {"interval_95", interval_json(evaluation.interval)},
          {"perplexity", std::exp(nats)},
          {"perplexity_95", interval_json(perplexity_interval(evaluation.interval))},
          {"bits_per_byte", evaluation.bits_per_byte()},
          {"tokens_per_second", evaluation.tokens_per_second()}};
}

// The figures of the first evaluation; of several also those of each.
nlohmann::json evaluation_json(const EvaluateOptions& options,
                               const Restored& restored,
                               Split split,
                               const std::vector<Evaluation>& evaluations) {
  const EvalResult& total = evaluations.front().total;
  nlohmann::json out{{"schema_version", 1},
                     {"checkpoint", options.checkpoint},
                     {"data", restored.config.data},
                     {"split", to_string(split)},
                     {"step", restored.step},
                     {"weights", restored.config.ema_decay > 0 ? "ema" : "raw"},
                     {"batches", evaluations.front().batch_losses.size()},
                     {"tokens", total.tokens},
                     {"bytes", total.bytes},
                     {"unigram_nats_per_token", evaluations.front().unigram_nats}};
  out.update(figures(evaluations.front()));
  if (evaluations.size() > 1)
    for (const Evaluation& evaluation : evaluations)
      out["evaluations"].push_back(figures(evaluation));
  return out;
}

void print_evaluations(const std::vector<Evaluation>& evaluations) {
  const bool several = evaluations.size() > 1;
  for (const Evaluation& evaluation : evaluations)
    fmt::print("{}{:.4f} nats/token{}; {}; {:.4f} bits/byte; {:.0f} tokens/s\n",
               several ? fmt::format("{:<6}", evaluation.linears) : "",
               evaluation.total.nats_per_token,
               interval_text(evaluation),
               perplexity_text(evaluation),
               evaluation.bits_per_byte(),
               evaluation.tokens_per_second());
}

int evaluate(const EvaluateOptions& options) {
  say_when_interrupted("interrupted: no loss to print; fewer --batches take less time");
  const Split split = options.train_split ? Split::Train : Split::HeldOut;
  const bool both = options.linears == "both";
  Restored restored = restore(options, both ? "full" : options.linears);
  std::vector<Evaluation> evaluations{measure(restored, split, options.batches)};
  if (both) {
    Restored int8 = restore(options, "int8");
    evaluations.push_back(measure(int8, split, options.batches));
  }
  const Evaluation& first = evaluations.front();
  if (options.json) {
    fmt::print("{}\n", evaluation_json(options, restored, split, evaluations).dump(2));
  } else {
    print_evaluations(evaluations);
    fmt::print("{} weights of step {}; {} batch{} of the {} documents of {}: {} tokens, {} bytes\n",
               restored.config.ema_decay > 0 ? "EMA" : "raw",
               restored.step,
               first.batch_losses.size(),
               first.batch_losses.size() == 1 ? "" : "es",
               options.train_split ? "training" : "held-out",
               restored.config.data,
               first.total.tokens,
               first.total.bytes);
    fmt::print("without context: {:.4f} nats/token, the entropy of these tokens one by one\n",
               first.unigram_nats);
    if (const std::string note = interval_note(first); !note.empty()) fmt::print("{}\n", note);
  }
  return std::ranges::all_of(evaluations,
                             [](const Evaluation& evaluation) {
                               return std::isfinite(evaluation.total.nats_per_token);
                             })
             ? 0
             : 1;
}

} // namespace

void add_evaluate(CLI::App& parent, int& exit_code) {
  CLI::App* command = parent.add_subcommand(
      "evaluate", "nats/token, perplexity and bits/byte of a checkpoint on held-out documents");
  auto options = std::make_shared<EvaluateOptions>();
  add_checkpoint(*command, options->checkpoint);
  add_other_data(*command, options->data);
  one_of(command->add_option("--weights",
                             options->weights,
                             "which weights (default: ema where the checkpoint has an average)"),
         {"raw", "ema"});
  add_device(*command, options->device);
  one_of(add_linears(*command, options->linears), {"full", "int8", "both"});
  command
      ->add_option("--package",
                   options->package,
                   "the model compiled ahead of time, a file of experiments/packages/compile.py")
      ->type_name("FILE");
  command
      ->add_option("--batches",
                   options->batches,
                   "batches to read, spread evenly over the split; at most all of it")
      ->capture_default_str()
      ->check(whole_number(1));
  command->add_flag(
      "--train-split", options->train_split, "read training documents instead of held-out ones");
  command->add_flag("--json", options->json, "print JSON");
  command->footer("examples\n  assay evaluate runs/tiny --data corpus\n  assay evaluate runs/tiny "
                  "--linears both");
  command->callback([options, &exit_code] { exit_code = evaluate(*options); });
}

} // namespace assay::worker
