// `assay answer`: scores answers to questions over long texts as LongBench and InfiniteBench do,
// and writes the answers of a checkpoint.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "app/command_line/program.h"
#include "app/command_line/progress_line.h"
#include "app/value_checks.h"
#include "app/worker/verbs/restored.h"
#include "app/worker/worker.h"
#include "core/files/atomic_file.h"
#include "core/text.h"
#include "model/long_text/tasks.h"
#include "model/training/generate.h"

namespace assay::worker {

namespace {

using nlohmann::json;

// The gates of the guide that proposes these benchmarks: facts found at 16 K before LongBench, an
// F1 of 0.6 at 100 K before InfiniteBench.
constexpr double kLeastFound = 0.8, kLeastF1 = 0.6;
constexpr std::int64_t kFoundAt = 16'384, kF1At = 100'000; // bytes

struct AnswerOptions {
  std::vector<std::string> files;
  std::string checkpoint, device = "cpu", after, out;
  std::int64_t most = 0;    // questions of a file; 0: all
  std::int64_t context = 0; // tokens that attention sees; 0: seq_len
  bool ungated = false, json = false;
};

struct Asked {
  LongQuestion question;
  std::string answer;
  json line;
};

// What a task has come to.
struct TaskScore {
  std::int64_t questions = 0, cut = 0; // prompts without their middle
  std::size_t longest = 0;             // bytes of a context
  double sum = 0;

  double mean() const { return sum / static_cast<double>(questions); }
};

std::optional<std::string> given_answer(const json& line) {
  for (const char* name : {"pred", "prediction"})
    if (line.contains(name) && line[name].is_string()) return line[name].get<std::string>();
  return std::nullopt;
}

std::vector<Asked> read_file(const std::string& path, const AnswerOptions& options) {
  std::ifstream file(path);
  if (!file) bad_input("cannot read {}: no such file, or no right to read it", path);
  const std::string name = std::filesystem::path(path).stem().string();
  std::vector<Asked> all;
  std::string text;
  for (int number = 1; std::getline(file, text); ++number) {
    if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
    if (options.most > 0 && std::ssize(all) == options.most) break;
    json line = json::parse(text, nullptr, false);
    const Result<LongQuestion> question = read_long_question(line, name);
    if (!question) bad_input("{}:{}: {}", path, number, question.error().message);
    Asked asked{*question, "", std::move(line)};
    if (options.checkpoint.empty()) {
      const auto answer = given_answer(asked.line);
      if (!answer)
        bad_input("{}:{}: it has no answer to score (`pred` or `prediction`); give --checkpoint to "
                  "have one answer",
                  path,
                  number);
      asked.answer = *answer;
    }
    all.push_back(std::move(asked));
  }
  if (all.empty()) bad_input("{} has no questions", path);
  return all;
}

json read_result(const std::string& path) {
  std::ifstream file(path);
  json result = json::parse(file, nullptr, false);
  if (!file || !result.is_object())
    bad_input("cannot read {} as JSON: give what `assay needle test --json` or `assay answer "
              "--json` printed",
              path);
  return result;
}

// "" where the gate before the suite is passed, else why it is not.
std::string closed_gate(LongSuite suite, const json& before) {
  if (suite == LongSuite::LongBench) {
    const json usable = before.value("usable_bytes", json());
    if (usable.is_number() && before.value("usable_share", 0.0) >= kLeastFound &&
        usable.get<std::int64_t>() >= kFoundAt)
      return {};
    return fmt::format("{:.0f} % of hidden facts at {} bytes and more: `assay needle test "
                       "CHECKPOINT --lengths …,{} --json`",
                       100 * kLeastFound,
                       kFoundAt,
                       kFoundAt);
  }
  double sum = 0;
  int tasks = 0;
  std::int64_t longest = 0;
  for (const json& task : before.value("tasks", json::array())) {
    if (task.value("score", "") != "f1" ||
        task.value("suite", "") != to_string(LongSuite::LongBench))
      continue;
    sum += task.value("mean", 0.0);
    longest = std::max(longest, task.value("longest_bytes", std::int64_t{0}));
    ++tasks;
  }
  if (tasks > 0 && sum / tasks > kLeastF1 && longest >= kF1At) return {};
  return fmt::format("a mean F1 above {} on LongBench with contexts of {} bytes and more: `assay "
                     "answer --checkpoint CHECKPOINT … --json`",
                     kLeastF1,
                     kF1At);
}

void pass_gates(const AnswerOptions& options, const std::vector<Asked>& asked) {
  if (options.checkpoint.empty() || options.ungated) return;
  for (const LongSuite suite : {LongSuite::LongBench, LongSuite::InfiniteBench}) {
    if (std::ranges::none_of(asked,
                             [&](const Asked& one) { return one.question.task->suite == suite; }))
      continue;
    const std::string closed =
        closed_gate(suite, options.after.empty() ? json::object() : read_result(options.after));
    if (closed.empty()) continue;
    bad_input("before {} a model has to show {}. Give its output by --after FILE, or go on with "
              "--ungated",
              to_string(suite),
              closed);
  }
}

// Tokens of a prompt of which the middle is left out where the model has no room for it, as the
// benchmarks do.
struct Prompt {
  std::vector<std::int64_t> ids;
  bool cut = false;
};

Prompt prompt_tokens(const Restored& restored, const LongQuestion& question, std::int64_t context) {
  const Encoding encoding = restored.source.tokenizer->encode(prompt_of(question));
  Prompt prompt{{encoding.ids.begin(), encoding.ids.end()}};
  const std::int64_t limit =
      std::max(context_limit(restored.config, context), restored.config.seq_len);
  const std::int64_t room = std::max<std::int64_t>(2, limit - question.task->new_tokens);
  if (std::ssize(prompt.ids) <= room) return prompt;
  prompt.ids.erase(prompt.ids.begin() + room / 2, prompt.ids.end() - (room - room / 2));
  prompt.cut = true;
  return prompt;
}

// At temperature 0. Returns which prompts were cut.
std::vector<bool> answer_all(const AnswerOptions& options, std::vector<Asked>& asked) {
  const Restored restored =
      restore_model({.checkpoint = options.checkpoint, .device = options.device});
  const Tokenizer& tokenizer = *restored.source.tokenizer;
  std::vector<bool> cut;
  ProgressLine line;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    if (line.terminal()) line.show(fmt::format("question {}/{}", i + 1, asked.size()), false);
    const Prompt prompt = prompt_tokens(restored, asked[i].question, options.context);
    cut.push_back(prompt.cut);
    const std::vector<std::int64_t> ids =
        generate(*restored.trainer,
                 prompt.ids,
                 {.max_tokens = asked[i].question.task->new_tokens,
                  .temperature = 0,
                  .context = options.context,
                  .stop_token = tokenizer.end_of_document()});
    asked[i].answer = tokenizer.decode({ids.begin(), ids.end()});
  }
  line.clear();
  return cut;
}

void write_answers(const AnswerOptions& options, const std::vector<Asked>& asked) {
  if (options.out.empty()) return;
  std::string lines;
  for (const Asked& one : asked) {
    json line = one.line;
    line["task"] = one.question.task->name;
    line["pred"] = one.answer;
    lines += line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  }
  write_file_atomically(options.out, lines);
}

std::string suite_names(const std::map<std::string, TaskScore>& scores) {
  std::string names;
  for (const LongTask& task : long_tasks())
    if (scores.contains(task.name) && names.find(to_string(task.suite)) == std::string::npos)
      names += (names.empty() ? "" : " and ") + std::string(to_string(task.suite));
  return names;
}

void print_scores(const AnswerOptions& options, const std::map<std::string, TaskScore>& scores) {
  fmt::print("{:<22}{:<16}{:>10}{:>10}{:>10}{:>16}\n",
             "task",
             "score",
             "mean",
             "questions",
             "cut",
             "longest bytes");
  double sum = 0;
  for (const LongTask& task : long_tasks()) {
    const auto found = scores.find(task.name);
    if (found == scores.end()) continue;
    const TaskScore& score = found->second;
    sum += score.mean();
    fmt::print("{:<22}{:<16}{:>8.2f} %{:>10}{:>10}{:>16}\n",
               task.name,
               task.score,
               100 * score.mean(),
               score.questions,
               score.cut,
               score.longest);
  }
  fmt::print("\n{}: mean of {} task{} {:.2f} %\n",
             suite_names(scores),
             scores.size(),
             scores.size() == 1 ? "" : "s",
             100 * sum / static_cast<double>(scores.size()));
  if (options.ungated && !options.checkpoint.empty())
    fmt::print("the gates before these benchmarks were left out (--ungated)\n");
}

json scores_json(const AnswerOptions& options, const std::map<std::string, TaskScore>& scores) {
  json tasks = json::array();
  for (const LongTask& task : long_tasks()) {
    const auto found = scores.find(task.name);
    if (found == scores.end()) continue;
    tasks.push_back({{"name", task.name},
                     {"suite", to_string(task.suite)},
                     {"score", task.score},
                     {"mean", found->second.mean()},
                     {"questions", found->second.questions},
                     {"cut", found->second.cut},
                     {"longest_bytes", found->second.longest}});
  }
  return {{"schema_version", 1},
          {"checkpoint", options.checkpoint.empty() ? json() : json(options.checkpoint)},
          {"ungated", options.ungated},
          {"tasks", tasks}};
}

int answer(const AnswerOptions& options) {
  say_when_interrupted("interrupted: no scores to print; --questions N takes less time");
  std::vector<Asked> asked;
  for (const std::string& path : options.files)
    for (Asked& one : read_file(path, options)) asked.push_back(std::move(one));
  pass_gates(options, asked);
  std::vector<bool> cut(asked.size(), false);
  if (!options.checkpoint.empty()) cut = answer_all(options, asked);
  std::map<std::string, TaskScore> scores;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    TaskScore& score = scores[asked[i].question.task->name];
    ++score.questions;
    score.cut += cut[i] ? 1 : 0;
    score.longest = std::max(score.longest, asked[i].question.context.size());
    score.sum += score_answer(asked[i].question, asked[i].answer);
  }
  write_answers(options, asked);
  if (options.json)
    fmt::print("{}\n", scores_json(options, scores).dump(2));
  else
    print_scores(options, scores);
  return 0;
}

} // namespace

void add_answer(CLI::App& parent, int& exit_code) {
  CLI::App* command = parent.add_subcommand(
      "answer", "answers to questions over long texts, scored as LongBench and InfiniteBench do");
  auto options = std::make_shared<AnswerOptions>();
  command
      ->add_option("files",
                   options->files,
                   "JSONL of either benchmark, named after its task or with a field `task`")
      ->type_name("FILE")
      ->required();
  command
      ->add_option("--checkpoint",
                   options->checkpoint,
                   "model that answers, at temperature 0 (default: each line has its answer in "
                   "`pred`)")
      ->type_name("PATH");
  add_device(*command, options->device);
  add_context(*command, options->context);
  command
      ->add_option("--after",
                   options->after,
                   "JSON of the stage before: of `needle test` before LongBench, of `answer` over "
                   "LongBench before InfiniteBench")
      ->type_name("FILE");
  command->add_flag("--ungated", options->ungated, "answer without the stage before");
  command->add_option("--questions", options->most, "of each file at most; 0: all")
      ->capture_default_str()
      ->check(whole_number(0, 1'000'000'000));
  command->add_option("--out", options->out, "JSONL to write the answers to")->type_name("FILE");
  command->add_flag("--json", options->json, "print JSON");
  command->footer("examples\n"
                  "  assay answer predictions/hotpotqa.jsonl\n"
                  "  assay answer hotpotqa.jsonl --checkpoint runs/tiny --after needle.json");
  command->callback([options, &exit_code] { exit_code = answer(*options); });
}

} // namespace assay::worker
