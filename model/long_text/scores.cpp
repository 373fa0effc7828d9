#include "model/long_text/scores.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <set>
#include <utility>

namespace assay {

namespace {

using Words = std::vector<std::string>;

bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r') || (c >= '\x1c' && c <= '\x1f');
}

char lowered(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool is_punctuation(char c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
         (c >= '{' && c <= '~');
}

bool is_article(const std::string& word) {
  return word == "a" || word == "an" || word == "the";
}

double f_of(double precision, double recall) {
  return precision + recall > 0 ? 2 * precision * recall / (precision + recall) : 0;
}

double share(std::size_t part, std::size_t whole) {
  return static_cast<double>(part) / static_cast<double>(whole);
}

// Lengths of the longest common subsequences of all beginnings.
std::vector<std::vector<std::size_t>> common_lengths(const Words& a, const Words& b) {
  std::vector<std::vector<std::size_t>> table(a.size() + 1,
                                              std::vector<std::size_t>(b.size() + 1, 0));
  for (std::size_t i = 1; i <= a.size(); ++i)
    for (std::size_t j = 1; j <= b.size(); ++j)
      table[i][j] = a[i - 1] == b[j - 1] ? table[i - 1][j - 1] + 1
                                         : std::max(table[i - 1][j], table[i][j - 1]);
  return table;
}

// Places in `a` of one longest common subsequence. Where several are as long, packages choose
// differently: the last word of `a` is dropped where that leaves more in common than dropping that
// of `b` does, or without `only_longer` as much.
std::vector<std::size_t> common_places(const Words& a, const Words& b, bool only_longer) {
  const auto table = common_lengths(a, b);
  std::vector<std::size_t> places;
  for (std::size_t i = a.size(), j = b.size(); i > 0 && j > 0;) {
    const std::size_t without_a = table[i - 1][j], without_b = table[i][j - 1];
    if (a[i - 1] == b[j - 1])
      places.push_back(i - 1), --i, --j;
    else if (only_longer ? without_a > without_b : without_a >= without_b)
      --i;
    else
      --j;
  }
  return places;
}

// Sentences of `rouge`: what is between dots, of single-spaced words; an empty one has one empty
// word.
std::vector<Words> sentences_of(std::string_view text) {
  std::vector<Words> sentences;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('.', begin), text.size());
    if (end > begin) {
      Words words = words_of(text.substr(begin, end - begin));
      if (words.empty()) words.emplace_back();
      sentences.push_back(std::move(words));
    }
    begin = end + 1;
  }
  return sentences;
}

std::set<std::string> set_of(const std::vector<Words>& sentences) {
  std::set<std::string> all;
  for (const Words& words : sentences) all.insert(words.begin(), words.end());
  return all;
}

// Lines of `rouge_score`: words of small letters and digits.
std::vector<Words> plain_lines(std::string_view text) {
  std::vector<Words> lines(1);
  std::string word;
  const auto close = [&] {
    if (!word.empty()) lines.back().push_back(std::exchange(word, {}));
  };
  for (const char given : text) {
    const char c = lowered(given);
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) {
      word += c;
      continue;
    }
    close();
    if (c == '\n') lines.emplace_back();
  }
  close();
  std::erase_if(lines, [](const Words& words) { return words.empty(); });
  return lines;
}

std::size_t count_words(const std::vector<Words>& lines) {
  return std::accumulate(lines.begin(),
                         lines.end(),
                         std::size_t{0},
                         [](std::size_t sum, const auto& x) { return sum + x.size(); });
}

std::map<std::string, std::size_t> counts_of(const std::vector<Words>& lines) {
  std::map<std::string, std::size_t> counts;
  for (const Words& words : lines)
    for (const std::string& word : words) ++counts[word];
  return counts;
}

std::vector<std::uint32_t> characters_of(std::string_view text) {
  std::vector<std::uint32_t> all;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte & 0xc0) == 0x80 && !all.empty())
      all.back() = all.back() << 8 | byte; // of a character of several bytes
    else
      all.push_back(byte);
  }
  return all;
}

// difflib.SequenceMatcher: the longest matching block first, then left and right of it.
class Blocks {
public:
  Blocks(const std::vector<std::uint32_t>& a, const std::vector<std::uint32_t>& b) : a_(a) {
    for (std::size_t j = 0; j < b.size(); ++j) places_[b[j]].push_back(j);
    b_ = &b;
    constexpr std::size_t kPopularFrom = 200;
    if (b.size() >= kPopularFrom)
      std::erase_if(places_,
                    [&](const auto& entry) { return entry.second.size() > b.size() / 100 + 1; });
  }

  std::size_t
  matched(std::size_t a_begin, std::size_t a_end, std::size_t b_begin, std::size_t b_end) const {
    std::vector<std::array<std::size_t, 4>> open{{a_begin, a_end, b_begin, b_end}};
    std::size_t sum = 0;
    while (!open.empty()) {
      const auto [a_low, a_high, b_low, b_high] = open.back();
      open.pop_back();
      const auto [i, j, length] = longest(a_low, a_high, b_low, b_high);
      if (length == 0) continue;
      sum += length;
      open.push_back({a_low, i, b_low, j});
      open.push_back({i + length, a_high, j + length, b_high});
    }
    return sum;
  }

private:
  struct Block {
    std::size_t i, j, length;
  };

  Block
  longest(std::size_t a_low, std::size_t a_high, std::size_t b_low, std::size_t b_high) const {
    Block best{a_low, b_low, 0};
    std::map<std::size_t, std::size_t> lengths; // of a match that ends before a character of b
    for (std::size_t i = a_low; i < a_high; ++i) {
      std::map<std::size_t, std::size_t> next;
      const auto found = places_.find(a_[i]);
      if (found != places_.end()) {
        for (const std::size_t j : found->second) {
          if (j < b_low) continue;
          if (j >= b_high) break;
          const auto before = lengths.find(j);
          const std::size_t length = (before == lengths.end() ? 0 : before->second) + 1;
          next[j + 1] = length;
          if (length > best.length) best = {i + 1 - length, j + 1 - length, length};
        }
      }
      lengths = std::move(next);
    }
    const std::vector<std::uint32_t>& b = *b_;
    while (best.i > a_low && best.j > b_low && a_[best.i - 1] == b[best.j - 1])
      --best.i, --best.j, ++best.length;
    while (best.i + best.length < a_high && best.j + best.length < b_high &&
           a_[best.i + best.length] == b[best.j + best.length])
      ++best.length;
    return best;
  }

  const std::vector<std::uint32_t>& a_;
  const std::vector<std::uint32_t>* b_;
  std::map<std::uint32_t, std::vector<std::size_t>> places_; // in b
};

} // namespace

std::vector<std::string> words_of(std::string_view text) {
  Words words;
  bool inside = false;
  for (const char c : text) {
    if (is_space(c)) {
      inside = false;
      continue;
    }
    if (!std::exchange(inside, true)) words.emplace_back();
    words.back() += c;
  }
  return words;
}

std::string normalized_answer(std::string_view text) {
  std::string plain;
  for (const char c : text)
    if (!is_punctuation(c)) plain += lowered(c);
  std::string joined;
  for (const std::string& word : words_of(plain)) {
    if (is_article(word)) continue;
    if (!joined.empty()) joined += ' ';
    joined += word;
  }
  return joined;
}

double words_f1(const std::vector<std::string>& answer, const std::vector<std::string>& reference) {
  std::map<std::string, std::size_t> left;
  for (const std::string& word : reference) ++left[word];
  std::size_t common = 0;
  for (const std::string& word : answer) {
    const auto found = left.find(word);
    if (found == left.end() || found->second == 0) continue;
    --found->second;
    ++common;
  }
  if (common == 0) return 0;
  return f_of(share(common, answer.size()), share(common, reference.size()));
}

double answer_f1(std::string_view answer, std::string_view reference) {
  return words_f1(words_of(normalized_answer(answer)), words_of(normalized_answer(reference)));
}

double rouge_l(std::string_view answer, std::string_view reference) {
  const std::vector<Words> written = sentences_of(answer), wanted = sentences_of(reference);
  if (written.empty() || wanted.empty()) return 0;
  std::set<std::string> common;
  for (const Words& sentence : wanted)
    for (const Words& other : written)
      for (const std::size_t place : common_places(sentence, other, true))
        common.insert(sentence[place]);
  const double recall = share(common.size(), set_of(wanted).size()),
               precision = share(common.size(), set_of(written).size());
  constexpr double kNoDivisionByZero = 1e-8; // the package's
  return 2 * precision * recall / (precision + recall + kNoDivisionByZero);
}

double rouge_lsum(std::string_view answer, std::string_view reference) {
  const std::vector<Words> written = plain_lines(answer), wanted = plain_lines(reference);
  if (written.empty() || wanted.empty()) return 0;
  std::map<std::string, std::size_t> of_written = counts_of(written), of_wanted = counts_of(wanted);
  std::size_t hits = 0;
  for (const Words& line : wanted) {
    std::set<std::size_t> common;
    for (const Words& other : written) {
      const std::vector<std::size_t> places = common_places(line, other, false);
      common.insert(places.begin(), places.end());
    }
    for (const std::size_t place : common) {
      const std::string& word = line[place];
      if (of_written[word] == 0 || of_wanted[word] == 0) continue;
      --of_written[word], --of_wanted[word];
      ++hits;
    }
  }
  return f_of(share(hits, count_words(written)), share(hits, count_words(wanted)));
}

double matching_ratio(std::string_view a, std::string_view b) {
  if (a == b) return 1;
  if (a.empty() || b.empty()) return 0;
  const std::vector<std::uint32_t> x = characters_of(a), y = characters_of(b);
  const std::size_t matched = Blocks(x, y).matched(0, x.size(), 0, y.size());
  const double percent =
      100 * (2 * static_cast<double>(matched)) / static_cast<double>(x.size() + y.size());
  return std::nearbyint(percent) / 100; // half to even, as Python's round()
}

} // namespace assay
