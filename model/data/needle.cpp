#include "model/data/needle.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>
#include <utility>

#include "core/result.h"

namespace assay {

namespace {

constexpr std::int64_t kFactBytes = 5;     // "K=47 "
constexpr std::int64_t kQuestionBytes = 5; // "?K=47"
constexpr std::uint64_t kValues = 100;
constexpr std::string_view kWords[] = {
    "stone", "river", "cloud",  "green", "house",  "light", "over",  "under", "slow",  "bird",
    "field", "north", "summer", "walk",  "window", "paper", "small", "deep",  "quiet", "road",
    "wood",  "salt",  "hill",   "rain",  "garden", "bread", "open",  "table", "voice", "wind"};

struct Fact {
  char key = 0;      // 'K'
  std::string value; // "47"
};

std::vector<Fact> draw_facts(SeededRandom& random, std::int64_t count) {
  std::string keys(kMostNeedleFacts, 'A');
  std::iota(keys.begin(), keys.end(), 'A');
  std::vector<Fact> facts;
  for (std::size_t i = 0; std::ssize(facts) < count; ++i) {
    std::swap(keys[i], keys[i + random.below(keys.size() - i)]);
    facts.push_back({keys[i], fmt::format("{:02}", random.below(kValues))});
  }
  return facts;
}

// Words with a space behind each, of so many bytes together.
std::vector<std::string> filler(SeededRandom& random, std::int64_t bytes) {
  std::vector<std::string> words;
  while (bytes > 0) {
    std::string word(kWords[random.below(std::size(kWords))]);
    if (std::ssize(word) >= bytes) word.resize(static_cast<std::size_t>(bytes - 1));
    bytes -= std::ssize(word) + 1;
    words.push_back(word + " ");
  }
  return words;
}

// So many bytes: the facts among words. The first fact stands `depth` of the way through, if given.
std::string haystack(SeededRandom& random,
                     const std::vector<Fact>& facts,
                     std::int64_t bytes,
                     std::optional<double> depth) {
  std::vector<std::string> items = filler(random, bytes - kFactBytes * std::ssize(facts));
  for (std::size_t i = facts.size(); i-- > 0;) {
    const bool asked = i == 0 && depth.has_value();
    const std::size_t place =
        asked ? static_cast<std::size_t>(std::llround(*depth * static_cast<double>(items.size())))
              : random.below(items.size() + 1);
    items.insert(items.begin() + static_cast<std::ptrdiff_t>(place),
                 fmt::format("{}={} ", facts[i].key, facts[i].value));
  }
  return std::accumulate(items.begin(), items.end(), std::string());
}

// So many of them, with their answers: all facts in random order, again and again.
std::string questions(SeededRandom& random, std::vector<Fact>& facts, std::int64_t count) {
  std::string text;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::size_t next = static_cast<std::size_t>(i) % facts.size();
    std::swap(facts[next], facts[next + random.below(facts.size() - next)]);
    text += fmt::format("?{}={}", facts[next].key, facts[next].value);
  }
  return text;
}

void check_size(std::int64_t facts, std::int64_t bytes) {
  if (facts < 1 || facts > kMostNeedleFacts)
    bad_input("a text holds 1 to {} facts, not {}", kMostNeedleFacts, facts);
  if (const std::int64_t least = least_needle_bytes(facts); bytes < least)
    bad_input("a text with {} fact{} and a question has {} bytes or more, not {}",
              facts,
              facts == 1 ? "" : "s",
              least,
              bytes);
}

} // namespace

std::int64_t least_needle_bytes(std::int64_t facts) {
  return kFactBytes * facts + kQuestionBytes;
}

NeedleQuestion
needle_question(SeededRandom& random, std::int64_t facts, std::int64_t bytes, double depth) {
  check_size(facts, bytes);
  const std::vector<Fact> drawn = draw_facts(random, facts);
  return {haystack(random, drawn, bytes - kQuestionBytes, depth) + "?" + drawn[0].key + "=",
          drawn[0].value};
}

std::string needle_document(SeededRandom& random, std::int64_t facts, std::int64_t bytes) {
  check_size(facts, bytes);
  std::vector<Fact> drawn = draw_facts(random, facts);
  const std::int64_t room = bytes - least_needle_bytes(facts) + kQuestionBytes,
                     asked = std::min(facts, room / kQuestionBytes);
  const std::string text = haystack(random, drawn, bytes - asked * kQuestionBytes, std::nullopt);
  return text + questions(random, drawn, asked);
}

std::string needle_lesson(SeededRandom& random, std::int64_t facts, std::int64_t bytes) {
  check_size(facts, bytes);
  const auto below = [&](std::int64_t limit) {
    return static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(limit)));
  };
  const std::int64_t some = 1 + below(facts);
  std::vector<Fact> drawn = draw_facts(random, some);
  const std::int64_t room = bytes - kFactBytes * some,
                     asked = std::min(some + below(2 * some + 1), room / kQuestionBytes);
  const bool filled = below(2) == 1;
  const std::int64_t words = filled ? below(room - asked * kQuestionBytes + 1) : 0;
  const std::string text = haystack(random, drawn, kFactBytes * some + words, std::nullopt);
  return text + questions(random, drawn, asked);
}

double NeedleMap::mean(std::size_t length) const {
  const std::vector<double>& depths = right[length];
  return std::accumulate(depths.begin(), depths.end(), 0.0) / static_cast<double>(depths.size());
}

std::optional<std::int64_t> NeedleMap::usable(double share) const {
  std::optional<std::int64_t> longest;
  for (std::size_t i = 0; i < right.size() && mean(i) >= share; ++i) longest = plan.lengths[i];
  return longest;
}

NeedleMap measure_needles(const NeedlePlan& plan,
                          const NeedleReader& reader,
                          const std::function<void(std::size_t)>& progress) {
  NeedleMap map{plan, {}};
  SeededRandom random(plan.seed);
  std::size_t done = 0;
  for (const std::int64_t length : plan.lengths) {
    std::vector<double>& row = map.right.emplace_back();
    for (const double depth : plan.depths) {
      std::vector<NeedleQuestion> questions;
      for (std::int64_t i = 0; i < plan.examples; ++i)
        questions.push_back(needle_question(random, plan.facts, length, depth));
      const std::vector<bool> right = reader(questions);
      row.push_back(static_cast<double>(std::ranges::count(right, true)) /
                    static_cast<double>(plan.examples));
      if (progress) progress(++done);
    }
  }
  return map;
}

} // namespace assay
