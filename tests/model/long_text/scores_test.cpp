// Scores of answers against those of the benchmarks' rules in Python, and what is read of their
// files.
#include "model/long_text/scores.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "model/long_text/tasks.h"
#include "tests/paths.h"

namespace assay {
namespace scores_test {

// answers.jsonl: made-up answers, each with the score that Python gave it by a transcription of
// LongBench's metrics.py and InfiniteBench's compute_scores.py, with the packages that these use:
// rouge 1.0.1, rouge_score 0.1.2, fuzzywuzzy 0.18, Python 3.11. Where they fail (an empty answer to
// a choice, "3.0" for the number 3) the score is 0.
TEST(LongScores, AreThoseOfTheBenchmarksRulesInPython) {
  std::ifstream file(test::source_dir() + "/tests/model/long_text/answers.jsonl");
  std::map<std::string, int> questions;
  for (std::string line; std::getline(file, line);) {
    const nlohmann::json row = nlohmann::json::parse(line);
    const LongQuestion question = value_or_throw(read_long_question(row, ""));
    EXPECT_NEAR(
        score_answer(question, row["pred"].get<std::string>()), row["score"].get<double>(), 1e-12)
        << line;
    ++questions[question.task->name];
  }
  EXPECT_EQ(questions.size(), 20U);
  for (const auto& [task, count] : questions) EXPECT_GE(count, 3) << task;
}

TEST(LongScores, F1ByHand) {
  EXPECT_EQ(normalized_answer(" The  Old-Mill, an a theatre! "), "oldmill theatre");
  // Two common words of three and of four.
  EXPECT_DOUBLE_EQ(answer_f1("red red fox", "red fox runs far"),
                   2.0 * 2 / 3 * 2 / 4 / (2.0 / 3 + 0.5));
  EXPECT_EQ(answer_f1("", "word"), 0);
}

TEST(LongScores, RougeByHand) {
  // Sets of words: "b c" of a b c and b x c.
  EXPECT_NEAR(rouge_l("b x c", "a b c"), 2.0 / 3, 1e-7);
  EXPECT_EQ(rouge_l("...", "a"), 0);
  // Over lines: each word of the reference is found once.
  EXPECT_DOUBLE_EQ(rouge_lsum("a b\nc d", "c d\na b"), 1);
  EXPECT_DOUBLE_EQ(rouge_lsum("a a a a", "a b"), 2 * 0.25 * 0.5 / 0.75);
}

TEST(LongScores, MatchingRatioByHand) {
  EXPECT_EQ(matching_ratio("abcd", "bcde"), 0.75);
  EXPECT_EQ(matching_ratio("", "a"), 0);
  EXPECT_EQ(matching_ratio("für", "fur"), 0.67); // characters, not bytes
}

Result<LongQuestion> read_line(const std::string& line, const char* task) {
  return read_long_question(nlohmann::json::parse(line, nullptr, false), task);
}

TEST(LongTasks, ALineNamesItsTaskOrTheFileDoes) {
  const std::string line = R"({"context":"c","input":"i","answers":["x"]})";
  EXPECT_STREQ(value_or_throw(read_line(line, "hotpotqa")).task->name, "hotpotqa");
  EXPECT_NE(read_line(line, "hotpot").error().message.find("unknown task 'hotpot'"),
            std::string::npos);
  EXPECT_NE(read_line(line, "dureader").error().message.find("Chinese"), std::string::npos);
  EXPECT_FALSE(read_line("[1]", "hotpotqa"));
  EXPECT_FALSE(read_line(R"({"context":"c","answers":[]})", "hotpotqa"));
  EXPECT_FALSE(read_line(R"({"context":"c","answers":["x"]})", "trec"));
  EXPECT_FALSE(read_line(R"({"context":"c","answer":"x","options":["y"]})", "code_debug"));
}

TEST(LongTasks, APromptHasContextQuestionAndOptions) {
  const LongQuestion question = value_or_throw(read_line(
      R"({"task":"longbook_choice_eng","context":"c","input":"i","answer":"y","options":["x","y"]})",
      ""));
  EXPECT_EQ(prompt_of(question), "c\n\ni\nA. x\nB. y\n");
}

} // namespace scores_test
} // namespace assay
