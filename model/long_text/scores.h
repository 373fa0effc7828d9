// Scores of an answer against a reference text, as the long-context benchmarks define them. Each is
// in [0, 1]. Letters are lowered, and spaces and word borders found, in ASCII; other bytes count as
// letters.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace assay {

// Lower case, without punctuation and the words a, an, the, single spaces between words.
std::string normalized_answer(std::string_view text);

// 2 P R / (P + R) of the common words of both, with repetitions; of no common word 0.
double words_f1(const std::vector<std::string>& answer, const std::vector<std::string>& reference);
double answer_f1(std::string_view answer, std::string_view reference); // of normalized words

// The F score of ROUGE-L over sentences that end with a dot, of sets of words, as the Python
// package `rouge` 1.0.1 computes it (LongBench). An empty text scores 0.
double rouge_l(std::string_view answer, std::string_view reference);

// ROUGE-Lsum over lines, with repetitions, words of a-z and 0-9, as `rouge_score` 0.1.2 computes it
// (InfiniteBench).
double rouge_lsum(std::string_view answer, std::string_view reference);

// Share of both texts' characters in matching blocks, rounded to percent: the ratio of Python's
// difflib with its rule for popular characters, as `fuzzywuzzy` 0.18 rounds it.
double matching_ratio(std::string_view a, std::string_view b);

// At any run of white space.
std::vector<std::string> words_of(std::string_view text);

} // namespace assay
