#include "experiments/evidence/verdict.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tests/paths.h"

namespace assay {
namespace verdict_test {

constexpr int kValidities = 6, kSpeeds = 4, kQualities = 4, kClaims = 8;

template <class F> void for_all(F body) {
  for (int v = 0; v < kValidities; ++v)
    for (int s = 0; s < kSpeeds; ++s)
      for (int q = 0; q < kQualities; ++q)
        for (int c = 0; c < kClaims; ++c) {
          Verdict verdict;
          verdict.validity = static_cast<Validity>(v);
          verdict.speed = static_cast<Speed>(s);
          verdict.quality = static_cast<Quality>(q);
          verdict.claim = static_cast<ClaimState>(c);
          body(verdict);
        }
}

std::string describe(const Verdict& verdict) {
  std::ostringstream out;
  out << to_string(verdict.validity) << ',' << to_string(verdict.speed) << ','
      << to_string(verdict.quality) << ',' << to_string(verdict.claim);
  return out.str();
}

// The committed table says what every combination of the four fields reads. A change of the rule
// shows as a change of this file.
TEST(Headline, NamesWhatAClaimThatIsNotOfTimeSpeaksOf) {
  Verdict verdict;
  verdict.validity = Validity::Ok;
  verdict.quality = Quality::Bitwise;
  const auto text = [&](Speed speed, ClaimState claim) {
    verdict.speed = speed;
    verdict.claim = claim;
    return headline(verdict).text;
  };
  EXPECT_EQ(text(Speed::Inconclusive, ClaimState::Refuted), "time inconclusive, claim refuted");
  verdict.claim_about = "memory";
  EXPECT_EQ(text(Speed::Inconclusive, ClaimState::Refuted),
            "time inconclusive, memory claim refuted");
  EXPECT_EQ(text(Speed::Faster, ClaimState::Shortfall), "faster, less than the memory claim");
  EXPECT_EQ(text(Speed::Faster, ClaimState::Opposite), "faster, the opposite of the memory claim");
  EXPECT_EQ(text(Speed::Slower, ClaimState::NotTested), "slower");
  verdict.quality = Quality::Unknown;
  EXPECT_EQ(text(Speed::Faster, ClaimState::Confirmed),
            "faster, memory claim confirmed, quality unproven");
}

// The words of a report are words of the glossary.
TEST(Glossary, ExplainsEveryWordOfAVerdict) {
  std::ifstream file(test::source_dir() + "/docs/glossary.md");
  std::stringstream page;
  page << file.rdbuf();
  const auto explains = [&](std::string_view word) {
    const std::string name(word);
    EXPECT_TRUE(page.str().find("\n| " + name + " |") != std::string::npos ||
                page.str().find("\n| " + name + ", ") != std::string::npos ||
                page.str().find(", " + name + " |") != std::string::npos)
        << name;
  };
  for_all([&](const Verdict& verdict) {
    if (verdict.validity != Validity::Ok) explains(to_string(verdict.validity));
    explains(to_string(verdict.speed));
    if (verdict.quality != Quality::Bitwise) explains(to_string(verdict.quality));
    explains(to_string(verdict.claim));
  });
  for (const Tag tag : {Tag::NoOp, Tag::Tail, Tag::Provisional, Tag::NotSteady, Tag::Exceeds})
    explains(to_string(tag));
}

TEST(Headline, EveryCombinationReadsAsCommitted) {
  std::ifstream file(test::source_dir() + "/tests/analysis/headlines.csv");
  ASSERT_TRUE(file) << "tests/analysis/headlines.csv is missing";
  std::string line;
  std::getline(file, line);
  EXPECT_EQ(line, "validity,speed,quality,claim,tone,headline");
  int rows = 0;
  for_all([&](const Verdict& verdict) {
    std::getline(file, line);
    const Headline head = headline(verdict);
    EXPECT_EQ(line,
              describe(verdict) + "," + std::string(to_string(head.tone)) + ",\"" + head.text +
                  "\"");
    ++rows;
  });
  EXPECT_EQ(rows, kValidities * kSpeeds * kQualities * kClaims);
  EXPECT_FALSE(std::getline(file, line)) << "more rows than combinations";
}

TEST(Headline, GreenNeedsAnUnharmedTrainingAndAGain) {
  for_all([](const Verdict& verdict) {
    const Headline head = headline(verdict);
    if (head.tone != Tone::Good) return;
    EXPECT_EQ(verdict.validity, Validity::Ok) << describe(verdict);
    EXPECT_TRUE(verdict.quality == Quality::Bitwise || verdict.quality == Quality::Equivalent)
        << describe(verdict);
    EXPECT_TRUE(verdict.speed == Speed::Faster || verdict.claim == ClaimState::Confirmed)
        << describe(verdict);
    EXPECT_NE(verdict.speed, Speed::Slower) << describe(verdict);
  });
}

TEST(Headline, RedNeedsEvidence) {
  for_all([](const Verdict& verdict) {
    if (headline(verdict).tone != Tone::Bad) return;
    EXPECT_TRUE(verdict.validity == Validity::ParityFailed || verdict.quality == Quality::Harmed ||
                verdict.speed == Speed::Slower || verdict.claim == ClaimState::Refuted ||
                verdict.claim == ClaimState::Opposite)
        << describe(verdict);
  });
}

TEST(Headline, FasterWithoutQualityEvidenceSaysSo) {
  for_all([](const Verdict& verdict) {
    if (verdict.validity != Validity::Ok || verdict.speed != Speed::Faster ||
        verdict.quality != Quality::Unknown)
      return;
    EXPECT_NE(headline(verdict).text.find("quality unproven"), std::string::npos)
        << describe(verdict);
  });
}

TEST(Headline, TagsAreAppendedToValidVerdictsOnly) {
  Verdict verdict;
  verdict.validity = Validity::Ok;
  verdict.speed = Speed::NoEffect;
  verdict.quality = Quality::Bitwise;
  verdict.tags = {Tag::NoOp, Tag::Provisional};
  EXPECT_EQ(headline(verdict).text, "no effect, both sides do the same work (provisional)");
  verdict.validity = Validity::Contended;
  EXPECT_EQ(headline(verdict).text, "no verdict: the machine was disturbed");
}

} // namespace verdict_test
} // namespace assay
