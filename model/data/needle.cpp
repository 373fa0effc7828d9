#include "model/data/needle.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>

#include "core/result.h"

namespace assay {

namespace {

constexpr std::int64_t kFactBytes = 6;     // "ab=47 "
constexpr std::int64_t kQuestionBytes = 6; // "?ab=47"
constexpr std::int64_t kMostFacts = 100;
constexpr std::uint64_t kLetters = 26, kValues = 100;
constexpr std::string_view kWords[] = {
    "stone", "river", "cloud",  "green", "house",  "light", "over",  "under", "slow",  "bird",
    "field", "north", "summer", "walk",  "window", "paper", "small", "deep",  "quiet", "road",
    "wood",  "salt",  "hill",   "rain",  "garden", "bread", "open",  "table", "voice", "wind"};

struct Fact {
  std::string key, value; // "ab", "47"
};

std::vector<Fact> draw_facts(SeededRandom& random, std::int64_t count) {
  std::set<std::string> keys;
  std::vector<Fact> facts;
  while (std::ssize(facts) < count) {
    std::string key;
    for (int i = 0; i < 2; ++i) key += static_cast<char>('a' + random.below(kLetters));
    if (!keys.insert(key).second) continue;
    facts.push_back({key, fmt::format("{:02}", random.below(kValues))});
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

void check_size(std::int64_t facts, std::int64_t bytes) {
  if (facts < 1 || facts > kMostFacts)
    bad_input("a text holds 1 to {} facts, not {}", kMostFacts, facts);
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
                     questions = std::min(facts, room / kQuestionBytes);
  std::string text = haystack(random, drawn, bytes - questions * kQuestionBytes, std::nullopt);
  for (std::int64_t i = 0; i < questions; ++i) {
    std::swap(
        drawn[static_cast<std::size_t>(i)],
        drawn[static_cast<std::size_t>(i) + random.below(static_cast<std::uint64_t>(facts - i))]);
    const Fact& fact = drawn[static_cast<std::size_t>(i)];
    text += fmt::format("?{}={}", fact.key, fact.value);
  }
  return text;
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
