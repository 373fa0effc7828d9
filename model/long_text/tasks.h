// Questions over long texts in the form of two public benchmarks, LongBench (arXiv 2308.14508) and
// InfiniteBench (arXiv 2402.13718): their JSONL, and the score of an answer by their own rules
// (their metrics.py and compute_scores.py). Nothing of their data is here.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace assay {

enum class LongSuite { LongBench, InfiniteBench };

const char* to_string(LongSuite suite); // "LongBench"

// A kind of question; its name is that of the benchmark's file.
struct LongTask {
  const char* name;
  LongSuite suite;
  const char* score;       // what is computed: "f1", "rouge_l", "accuracy" …
  std::int64_t new_tokens; // that an answer has at most
  bool first_line = false; // of the answer alone is scored
};

const std::vector<LongTask>& long_tasks();
Result<const LongTask*> find_long_task(std::string_view name);

struct LongQuestion {
  const LongTask* task = nullptr;
  std::string context, question;
  nlohmann::json answer;            // as the benchmark gives it: texts, numbers, or one
  std::vector<std::string> classes; // LongBench: of classification
  std::vector<std::string> options; // InfiniteBench: of multiple choice
};

// A line of either benchmark. The task is `dataset` or `task` of the line, else `task`, that of the
// file's name. The error names what is missing.
Result<LongQuestion> read_long_question(const nlohmann::json& line, std::string_view task);

// What a model reads: context, question, and the options with their letters.
std::string prompt_of(const LongQuestion& question);

// In [0, 1], the best over the answers that count as right.
double score_answer(const LongQuestion& question, std::string_view answer);

} // namespace assay
