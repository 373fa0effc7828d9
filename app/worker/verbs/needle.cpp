// `assay needle make` and `assay needle test`: texts with hidden facts, and what a checkpoint finds
// of them, by length and depth.
#include "model/data/needle.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "app/command_line/program.h"
#include "app/command_line/progress_line.h"
#include "app/value_checks.h"
#include "app/worker/verbs/restored.h"
#include "app/worker/worker.h"
#include "core/files/atomic_file.h"
#include "core/text.h"
#include "model/layout/segments.h"

namespace assay::worker {

namespace {

constexpr std::int64_t kLogitsAtOnce = std::int64_t{1} << 25; // tokens times vocabulary
constexpr double kUsableShare = 0.8;

struct MakeOptions {
  std::string out;
  std::int64_t facts = 8, bytes = 256, documents = 20'000;
  std::uint64_t seed = 1;
  bool mixed = false, json = false;
};

struct TestOptions {
  std::string checkpoint, device = "cpu";
  std::vector<std::int64_t> lengths;
  std::int64_t depths = 5;
  NeedlePlan plan;
  bool json = false;
};

int make(const MakeOptions& options) {
  say_when_interrupted("interrupted: no text was written; fewer --documents take less time");
  SeededRandom random(options.seed);
  std::string lines;
  for (std::int64_t i = 0; i < options.documents; ++i) {
    const std::string text = options.mixed ? needle_lesson(random, options.facts, options.bytes)
                                           : needle_document(random, options.facts, options.bytes);
    lines += nlohmann::json{{"text", text}}.dump() + "\n";
  }
  write_file_atomically(options.out, lines);
  if (options.json)
    fmt::print("{}\n",
               nlohmann::json{{"schema_version", 1},
                              {"out", options.out},
                              {"documents", options.documents},
                              {"facts", options.facts},
                              {"bytes", options.bytes},
                              {"mixed", options.mixed},
                              {"seed", options.seed}}
                   .dump(2));
  else
    fmt::print("{}: {} document{} of {}{} bytes, {}{} fact{} each\n",
               options.out,
               options.documents,
               options.documents == 1 ? "" : "s",
               options.mixed ? "up to " : "",
               options.bytes,
               options.mixed && options.facts > 1 ? "1 to " : "",
               options.facts,
               options.facts == 1 ? "" : "s");
  return 0;
}

// A question with its answer as tokens.
struct Asked {
  std::vector<std::int64_t> ids;
  std::size_t answer = 0; // the first token that has a byte of the answer
};

Asked asked_of(const Tokenizer& tokenizer, const NeedleQuestion& question) {
  const Encoding encoding = tokenizer.encode(question.text + question.answer);
  Asked asked{{encoding.ids.begin(), encoding.ids.end()}, 0};
  std::size_t end = 0;
  while (asked.answer < encoding.bytes.size() &&
         (end += encoding.bytes[asked.answer]) <= question.text.size())
    ++asked.answer;
  return asked;
}

// Answers with the likeliest token each. They are right if all of them are: then sampling at
// temperature 0 would write the same.
class CheckpointReader {
public:
  explicit CheckpointReader(const Restored& restored) : restored_(restored) {}

  std::vector<bool> operator()(const std::vector<NeedleQuestion>& questions) const {
    std::vector<bool> right;
    std::vector<Asked> batch;
    std::size_t tokens = 0;
    for (const NeedleQuestion& question : questions) {
      Asked asked = asked_of(*restored_.source.tokenizer, question);
      if (!batch.empty() && !fits(tokens + asked.ids.size())) {
        answer(std::exchange(batch, {}), right);
        tokens = 0;
      }
      tokens += asked.ids.size();
      batch.push_back(std::move(asked));
    }
    answer(batch, right);
    return right;
  }

private:
  // A table of positions has room for one text: a row holds no more.
  bool fits(std::size_t tokens) const {
    const TrainConfig& config = restored_.config;
    return config.positions == 0 &&
           static_cast<std::int64_t>(tokens) * config.vocab_size <= kLogitsAtOnce;
  }

  void answer(const std::vector<Asked>& asked, std::vector<bool>& right) const {
    std::vector<std::int64_t> ids;
    std::vector<std::int32_t> ends{0};
    for (const Asked& one : asked) {
      ids.insert(ids.end(), one.ids.begin(), one.ids.end());
      ends.push_back(static_cast<std::int32_t>(ids.size()));
    }
    const std::int64_t places = restored_.config.positions;
    if (places > 0 && std::ssize(ids) > places)
      bad_input("a text has {} tokens, more than the checkpoint's {} positions: leave out the "
                "longest of --lengths",
                ids.size(),
                places);
    const at::Tensor tokens = at::tensor(ids, at::kLong).unsqueeze(0);
    Batch batch = make_batch(tokens, tokens, std::move(ends));
    prepare(batch, restored_.config);
    const at::Tensor likeliest = restored_.trainer->logits(batch).argmax(1).to(at::kCPU);
    std::int64_t begin = 0;
    for (const Asked& one : asked) {
      bool all = true;
      for (std::size_t i = one.answer; i < one.ids.size(); ++i)
        all = all && likeliest[begin + static_cast<std::int64_t>(i) - 1].item<std::int64_t>() ==
                         one.ids[i];
      right.push_back(all);
      begin += std::ssize(one.ids);
    }
  }

  const Restored& restored_;
};

std::vector<double> even_depths(std::int64_t count) {
  if (count == 1) return {0.5};
  std::vector<double> depths;
  for (std::int64_t i = 0; i < count; ++i)
    depths.push_back(static_cast<double>(i) / static_cast<double>(count - 1));
  return depths;
}

// A quarter of the training's rows to four times of them, as far as a text fits.
std::vector<std::int64_t> usual_lengths(const TrainConfig& config, std::int64_t facts) {
  std::vector<std::int64_t> lengths;
  for (const double factor : {0.25, 0.5, 1.0, 2.0, 4.0}) {
    const auto length = static_cast<std::int64_t>(factor * static_cast<double>(config.seq_len));
    if (length >= least_needle_bytes(facts) &&
        (config.positions == 0 || length <= config.positions))
      lengths.push_back(length);
  }
  if (lengths.empty())
    bad_input("no length from a quarter to four times of the checkpoint's rows of {} tokens has "
              "room for {} facts: give fewer --facts, or --lengths",
              config.seq_len,
              facts);
  return lengths;
}

nlohmann::json
map_json(const TestOptions& options, const Restored& restored, const NeedleMap& map) {
  std::vector<double> means;
  for (std::size_t i = 0; i < map.right.size(); ++i) means.push_back(map.mean(i));
  const auto usable = map.usable(kUsableShare);
  return {{"schema_version", 1},
          {"checkpoint", options.checkpoint},
          {"step", restored.step},
          {"facts", map.plan.facts},
          {"examples", map.plan.examples},
          {"seed", map.plan.seed},
          {"lengths", map.plan.lengths},
          {"depths", map.plan.depths},
          {"right", map.right},
          {"mean", means},
          {"usable_share", kUsableShare},
          {"usable_bytes", usable ? nlohmann::json(*usable) : nlohmann::json(nullptr)}};
}

void print_map(const Restored& restored, const NeedleMap& map) {
  const NeedlePlan& plan = map.plan;
  fmt::print("right answers of step {}: {} fact{} in a text, {} texts a place; a guess has 1 %\n\n",
             restored.step,
             plan.facts,
             plan.facts == 1 ? "" : "s",
             plan.examples);
  const auto row = [&](const std::string& name, const auto& cell) {
    fmt::print("{:<12}", name);
    for (std::size_t i = 0; i < plan.lengths.size(); ++i) fmt::print("{:>8}", cell(i));
    fmt::print("\n");
  };
  const auto percent = [](double share) { return fmt::format("{:.0f} %", 100 * share); };
  row("bytes", [&](std::size_t i) { return std::to_string(plan.lengths[i]); });
  for (std::size_t d = 0; d < plan.depths.size(); ++d)
    row(fmt::format("depth {}", percent(plan.depths[d])),
        [&](std::size_t i) { return percent(map.right[i][d]); });
  row("mean", [&](std::size_t i) { return percent(map.mean(i)); });
  if (const auto usable = map.usable(kUsableShare))
    fmt::print("\nusable up to {} bytes: {} and more are right at every length to there\n",
               *usable,
               percent(kUsableShare));
  else
    fmt::print("\nusable at no length: less than {} are right at {} bytes\n",
               percent(kUsableShare),
               plan.lengths.front());
}

int test(TestOptions options) {
  say_when_interrupted("interrupted: no map to print; fewer --examples take less time");
  const Restored restored =
      restore_model({.checkpoint = options.checkpoint, .device = options.device});
  NeedlePlan& plan = options.plan;
  plan.lengths =
      options.lengths.empty() ? usual_lengths(restored.config, plan.facts) : options.lengths;
  std::ranges::sort(plan.lengths);
  plan.lengths.erase(std::ranges::unique(plan.lengths).begin(), plan.lengths.end());
  plan.depths = even_depths(options.depths);
  const at::NoGradGuard no_grad;
  const auto averaged = restored.trainer->use_ema();
  ProgressLine line;
  const std::size_t places = plan.lengths.size() * plan.depths.size();
  const NeedleMap map = measure_needles(plan, CheckpointReader(restored), [&](std::size_t done) {
    if (line.terminal()) line.show(fmt::format("place {}/{}", done, places), false);
  });
  line.clear();
  if (options.json)
    fmt::print("{}\n", map_json(options, restored, map).dump(2));
  else
    print_map(restored, map);
  return 0;
}

void add_make(CLI::App& group, int& exit_code) {
  CLI::App* command =
      group.add_subcommand("make", "write documents with hidden facts to train on, as JSONL");
  auto options = std::make_shared<MakeOptions>();
  command->add_option("--out", options->out, "JSONL file to write")->type_name("FILE")->required();
  command->add_option("--facts", options->facts, "facts in a document")
      ->capture_default_str()
      ->check(whole_number(1, kMostNeedleFacts));
  command->add_option("--bytes", options->bytes, "bytes of a document at most")
      ->capture_default_str()
      ->check(whole_number(1, 1'000'000));
  command->add_flag(
      "--mixed",
      options->mixed,
      "easy ones too, for a model to learn from: 1 to --facts facts, asked up to three "
      "times, and every second time no filler");
  command->add_option("--documents", options->documents, "how many")
      ->capture_default_str()
      ->check(whole_number(1, 10'000'000));
  command->add_option("--seed", options->seed, "seed of facts and filler")->capture_default_str();
  command->add_flag("--json", options->json, "print JSON");
  command->footer(
      "examples\n"
      "  assay needle make --mixed --bytes 240 --documents 80000 --out facts.jsonl\n"
      "  assay train --data facts.jsonl --steps 4000 --set pattern=G --set d_model=64 \\\n"
      "    --set heads=2 --set head_dim=32 --set ffn_dim=128 --set seq_len=256 \\\n"
      "    --set batch_rows=8 --set packing=best_fit --out runs/facts\n"
      "  assay needle test runs/facts");
  command->callback([options, &exit_code] { exit_code = make(*options); });
}

void add_test(CLI::App& group, int& exit_code) {
  CLI::App* command = group.add_subcommand(
      "test", "which share of hidden facts a checkpoint finds, by length of the text and depth");
  auto options = std::make_shared<TestOptions>();
  add_checkpoint(*command, options->checkpoint);
  command
      ->add_option("--lengths",
                   options->lengths,
                   "bytes of the texts, several by commas (default: a quarter of the training's "
                   "rows to four times of them)")
      ->delimiter(',')
      ->type_name("BYTES")
      ->check(whole_number(1, 10'000'000));
  command->add_option("--depths", options->depths, "how many places of the asked fact, evenly")
      ->capture_default_str()
      ->check(whole_number(1, 1000));
  command->add_option("--facts", options->plan.facts, "facts in a text, one of which is asked for")
      ->capture_default_str()
      ->check(whole_number(1, kMostNeedleFacts));
  command->add_option("--examples", options->plan.examples, "texts for each length and depth")
      ->capture_default_str()
      ->check(whole_number(1, 1'000'000));
  command->add_option("--seed", options->plan.seed, "seed of the texts; not that of the training's")
      ->capture_default_str();
  add_device(*command, options->device);
  command->add_flag("--json", options->json, "print JSON");
  command->footer("examples\n  assay needle test runs/facts --lengths 64,128,256,512");
  command->callback([options, &exit_code] { exit_code = test(*options); });
}

} // namespace

void add_needle(CLI::App& parent, int& exit_code) {
  CLI::App* group =
      parent.add_subcommand("needle", "facts hidden in long texts")->require_subcommand(1);
  add_make(*group, exit_code);
  add_test(*group, exit_code);
}

} // namespace assay::worker
