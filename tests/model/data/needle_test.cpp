// Texts with hidden facts: what they hold and where, and the map of readers whose answers are
// known.
#include "model/data/needle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "core/result.h"

namespace assay {
namespace needle_test {

// Facts of a text by their keys, with their places.
struct Found {
  std::string value;
  std::size_t place;
};
std::map<std::string, Found> facts_of(const std::string& text) {
  std::map<std::string, Found> found;
  for (std::size_t at = text.find('='); at != std::string::npos; at = text.find('=', at + 1)) {
    if (at >= 2 && text[at - 2] == '?') continue;
    const bool fresh =
        found.emplace(text.substr(at - 1, 1), Found{text.substr(at + 1, 2), at - 1}).second;
    EXPECT_TRUE(fresh) << text;
  }
  return found;
}

// How often a text asks for each of its facts, with its value.
std::map<std::string, int> questions_of(const std::string& text) {
  const auto facts = facts_of(text);
  std::map<std::string, int> counts;
  for (std::size_t at = text.find('?'); at != std::string::npos; at = text.find('?', at + 1)) {
    const std::string key = text.substr(at + 1, 1);
    EXPECT_EQ(text.substr(at + 3, 2), facts.at(key).value) << text;
    ++counts[key];
  }
  return counts;
}

std::string asked(const NeedleQuestion& question) {
  return question.text.substr(question.text.size() - 2, 1);
}

TEST(Needle, AQuestionHasItsLengthItsFactsAndTheAskedOneAtItsDepth) {
  SeededRandom random(1);
  for (const std::int64_t bytes : {45, 60, 61, 256, 1000})
    for (const double depth : {0.0, 0.5, 1.0}) {
      const NeedleQuestion question = needle_question(random, 8, bytes, depth);
      EXPECT_EQ(std::ssize(question.text) + 2, bytes);
      const auto facts = facts_of(question.text);
      ASSERT_EQ(facts.size(), 8U);
      const Found& fact = facts.at(asked(question));
      EXPECT_EQ(fact.value, question.answer);
      if (depth == 0) {
        EXPECT_EQ(fact.place, 0U);
      }
      if (bytes == 1000) {
        EXPECT_NEAR(static_cast<double>(fact.place), depth * 990, 60) << question.text;
      }
    }
}

TEST(Needle, ADocumentAsksForEachFactOnceWhereThereIsRoom) {
  SeededRandom random(1);
  for (const auto& [bytes, questions] : {std::pair(256, 8), std::pair(60, 4), std::pair(45, 1)}) {
    const std::string text = needle_document(random, 8, bytes);
    EXPECT_LE(std::ssize(text), bytes);
    EXPECT_GT(std::ssize(text), bytes - 5);
    EXPECT_EQ(facts_of(text).size(), 8U);
    const std::map<std::string, int> counts = questions_of(text);
    for (const auto& [key, count] : counts) EXPECT_EQ(count, 1) << text;
    EXPECT_EQ(std::ssize(counts), questions);
  }
}

TEST(Needle, LessonsHaveAnyNumberOfFactsAskedOnceToThreeTimes) {
  SeededRandom random(1);
  std::map<std::size_t, int> facts;
  std::map<int, int> times;
  int without_filler = 0;
  for (int i = 0; i < 800; ++i) {
    const std::string text = needle_lesson(random, 4, 120);
    EXPECT_LE(std::ssize(text), 120);
    const auto found = facts_of(text);
    const std::map<std::string, int> asked = questions_of(text);
    ++facts[found.size()];
    EXPECT_EQ(asked.size(), found.size()) << "there is room for all";
    int questions = 0;
    for (const auto& [key, count] : asked) ++times[count], questions += count;
    without_filler += std::ssize(text) == 5 * (std::ssize(found) + questions);
  }
  for (const std::size_t count : {1U, 2U, 3U, 4U}) EXPECT_NEAR(facts[count], 200, 50) << count;
  EXPECT_NEAR(without_filler, 400, 60);
  EXPECT_EQ(times.begin()->first, 1);
  EXPECT_EQ(times.rbegin()->first, 3);
}

TEST(Needle, SeedsRepeatAndImpossibleSizesAreRefused) {
  SeededRandom a(3), b(3);
  EXPECT_EQ(needle_document(a, 8, 256), needle_document(b, 8, 256));
  EXPECT_THROW((void)needle_document(a, 8, 44), Failure);
  EXPECT_THROW((void)needle_document(a, 0, 256), Failure);
  EXPECT_THROW((void)needle_question(a, 27, 9999, 0), Failure);
}

const NeedlePlan kPlan{{64, 128, 256, 512}, {0, 0.25, 0.5, 0.75, 1}, 4, 100, 1};

// Reads the last `window` bytes of a text; of what it does not see it knows nothing.
NeedleReader window_reader(std::size_t window) {
  return [window](const std::vector<NeedleQuestion>& questions) {
    std::vector<bool> right;
    for (const NeedleQuestion& question : questions) {
      const std::size_t from = question.text.size() - std::min(window, question.text.size());
      const Found fact = facts_of(question.text).at(asked(question));
      right.push_back(fact.place >= from);
    }
    return right;
  };
}

TEST(Needle, TheOracleIsAlwaysRight) {
  const NeedleMap map = measure_needles(kPlan, window_reader(10'000));
  for (std::size_t length = 0; length < 4; ++length)
    EXPECT_THAT(map.right[length], testing::Each(1.0));
  EXPECT_EQ(map.usable(0.8), 512);
}

// A window is right exactly where the fact is in it: at a length of 512 from 512 - 128 on.
TEST(Needle, AWindowIsRightWhereTheFactIsInIt) {
  const NeedleMap map = measure_needles(kPlan, window_reader(128));
  EXPECT_THAT(map.right[0], testing::Each(1.0));
  EXPECT_THAT(map.right[1], testing::Each(1.0));
  EXPECT_THAT(map.right[2], testing::ElementsAre(0, 0, testing::_, 1, 1));
  EXPECT_THAT(map.right[3], testing::ElementsAre(0, 0, 0, testing::_, 1));
  EXPECT_EQ(map.usable(0.8), 128);
  EXPECT_EQ(map.usable(0.15), 512);
}

// Two digits by chance: 1 of 100, of 2000 questions 20 with a standard deviation of 4.4.
TEST(Needle, AGuessIsRightByChance) {
  SeededRandom random(9);
  const NeedleMap map = measure_needles(kPlan, [&](const auto& questions) {
    std::vector<bool> right;
    for (const NeedleQuestion& question : questions)
      right.push_back(std::stoul(question.answer) == random.below(100));
    return right;
  });
  double sum = 0;
  for (std::size_t i = 0; i < 4; ++i) sum += map.mean(i) / 4;
  EXPECT_NEAR(sum, 0.01, 3 * 0.0022);
  EXPECT_EQ(map.usable(0.8), std::nullopt);
}

} // namespace needle_test
} // namespace assay
