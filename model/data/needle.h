// Needle in a haystack: facts hidden in filler, one of which a question at the end asks for. Which
// share of the answers a reader gets right, by the length of the text and the depth of the fact in
// it; and texts of the same kind to train on.
//
// A fact is "K=47": a key of one capital letter, which is in the text once, and a value of two
// digits. Filler is words without either. A question is "?K=", its answer the two digits.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "model/data/seeded_random.h"

namespace assay {

inline constexpr std::int64_t kMostNeedleFacts = 26; // of a text: letters

struct NeedleQuestion {
  std::string text;   // haystack, and the question up to its "="
  std::string answer; // "47"
};

// Bytes of the shortest text with so many facts and one question.
std::int64_t least_needle_bytes(std::int64_t facts);

// A text of `bytes` with its answer, whose asked fact stands `depth` (0: first, 1: last) of the way
// through the haystack, the other facts anywhere. bytes >= least_needle_bytes(facts); facts from 1
// to kMostNeedleFacts.
NeedleQuestion
needle_question(SeededRandom& random, std::int64_t facts, std::int64_t bytes, double depth);

// A document of at most `bytes`: a haystack with facts anywhere, then questions for all of them in
// random order with their answers, as many as have room. bytes as above.
std::string needle_document(SeededRandom& random, std::int64_t facts, std::int64_t bytes);

// A document of at most `bytes` for a small model to learn from: 1 to `facts` facts, each asked
// once to three times as far as there is room, and every second time no filler. bytes as above.
std::string needle_lesson(SeededRandom& random, std::int64_t facts, std::int64_t bytes);

// The answers of a reader to some questions, each right or wrong.
using NeedleReader = std::function<std::vector<bool>(const std::vector<NeedleQuestion>&)>;

struct NeedlePlan {
  std::vector<std::int64_t> lengths; // bytes, rising
  std::vector<double> depths;        // in [0, 1]
  std::int64_t facts = 8, examples = 50;
  std::uint64_t seed = 1;
};

struct NeedleMap {
  NeedlePlan plan;
  std::vector<std::vector<double>> right; // share of right answers, by length, then depth

  double mean(std::size_t length) const; // over the depths
  // The longest length up to which every length has at least `share` right; nothing if the first
  // one has less.
  std::optional<std::int64_t> usable(double share) const;
};

// `progress` is told how many of the map's cells are done; may be empty.
NeedleMap measure_needles(const NeedlePlan& plan,
                          const NeedleReader& reader,
                          const std::function<void(std::size_t)>& progress = {});

} // namespace assay
