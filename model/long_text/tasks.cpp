#include "model/long_text/tasks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <map>

#include "core/text.h"
#include "model/long_text/scores.h"

namespace assay {

namespace {

using nlohmann::json;

constexpr std::string_view kLetters = "ABCD";

std::string text_of(const json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// The first of a list, or what stands there alone.
json first_of(const json& answer) {
  return answer.is_array() ? (answer.empty() ? json() : answer.front()) : answer;
}

std::vector<std::string> texts_of(const json& answer) {
  if (!answer.is_array()) return {text_of(answer)};
  std::vector<std::string> texts;
  for (const json& one : answer) texts.push_back(text_of(one));
  return texts;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::vector<std::string> numbers_in(std::string_view text) {
  std::vector<std::string> numbers;
  bool inside = false;
  for (const char c : text) {
    if (!is_digit(c)) {
      inside = false;
      continue;
    }
    if (!std::exchange(inside, true)) numbers.emplace_back();
    numbers.back() += c;
  }
  return numbers;
}

std::string replaced(std::string_view text, std::initializer_list<std::string_view> parts) {
  std::string result(text);
  for (const std::string_view part : parts)
    for (std::size_t at = 0; (at = result.find(part, at)) != std::string::npos; ++at)
      result.replace(at, part.size(), " ");
  return result;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\v\f\r";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

std::string single_spaced(std::string text) {
  for (std::size_t at = 0; (at = text.find("  ", at)) != std::string::npos;) text.erase(at, 1);
  return text;
}

// The number behind `before` in the reference, "Paragraph 7".
std::string number_behind(std::string_view before, const std::string& reference) {
  for (std::size_t at = 0; (at = reference.find(before, at)) != std::string::npos; ++at) {
    const std::size_t begin = at + before.size();
    std::size_t end = begin;
    while (end < reference.size() && is_digit(reference[end])) ++end;
    if (end > begin) return reference.substr(begin, end - begin);
  }
  return {};
}

// The share of an answer's numbers that are the right one.
double right_numbers(std::string_view answer, const std::string& right) {
  const std::vector<std::string> numbers = numbers_in(answer);
  if (numbers.empty()) return 0;
  return static_cast<double>(std::ranges::count(numbers, right)) /
         static_cast<double>(numbers.size());
}

// Classes that the answer names, less those that are a part of the right one. Like the original,
// which removes from the list it walks over, this passes over the class behind a removed one.
double named_classes(std::string_view answer,
                     const std::string& right,
                     const std::vector<std::string>& classes) {
  std::vector<std::string> named;
  for (const std::string& one : classes)
    if (answer.find(one) != std::string_view::npos) named.push_back(one);
  for (std::size_t i = 0; i < named.size(); ++i)
    if (named[i] != right && right.find(named[i]) != std::string::npos)
      named.erase(std::ranges::find(named, named[i]));
  if (std::ranges::find(named, right) == named.end()) return 0;
  return 1 / static_cast<double>(named.size());
}

std::string without_leading_newlines(std::string_view text) {
  const std::size_t begin = text.find_first_not_of('\n');
  return begin == std::string_view::npos ? std::string() : std::string(text.substr(begin));
}

std::string first_line(std::string_view text) {
  const std::string rest = without_leading_newlines(text);
  return rest.substr(0, rest.find('\n'));
}

// The first line that is neither a comment nor of a code fence.
std::string line_of_code(std::string_view text) {
  std::string rest = without_leading_newlines(text);
  while (true) {
    const std::size_t end = rest.find('\n');
    std::string line = rest.substr(0, end);
    if (line.find_first_of("`#") == std::string::npos && line.find("//") == std::string::npos)
      return line;
    if (end == std::string::npos) return {};
    rest.erase(0, end + 1);
  }
}

double
score_against(const LongQuestion& question, std::string_view answer, const std::string& right) {
  const std::string_view score = question.task->score;
  if (score == "f1") return answer_f1(answer, right);
  if (score == "rouge_l") return rouge_l(answer, right);
  if (score == "classification") return named_classes(answer, right, question.classes);
  if (score == "retrieval") return right_numbers(answer, number_behind("Paragraph ", right));
  if (score == "retrieval_zh") return right_numbers(answer, number_behind("段落", right));
  if (score == "count") return right_numbers(answer, right);
  if (score == "code") return matching_ratio(line_of_code(answer), right);
  internal_error("no score '{}'", score);
}

double of_longbench(const LongQuestion& question, std::string_view given) {
  const std::string answer = question.task->first_line ? first_line(given) : std::string(given);
  double best = 0;
  for (const std::string& right : texts_of(question.answer))
    best = std::max(best, score_against(question, answer, right));
  return best;
}

// A letter and its option's text, of an answer that is one of them.
struct RightOption {
  std::string text, letter;
};

RightOption right_option(const LongQuestion& question) {
  const std::vector<std::string> given = texts_of(question.answer);
  if (given.size() > 1) return {given[0], given[1]};
  const auto found = std::ranges::find(question.options, given.at(0));
  const auto place = static_cast<std::size_t>(found - question.options.begin());
  const bool has_letter = found != question.options.end() && place < kLetters.size();
  return {given[0], has_letter ? std::string(1, kLetters[place]) : std::string()};
}

// What stands behind the first of the phrases that the answer has, if it has one.
std::optional<std::string> behind(const std::string& text,
                                  std::initializer_list<std::string_view> phrases) {
  for (const std::string_view phrase : phrases) {
    const std::size_t at = text.find(phrase);
    if (at == std::string::npos) continue;
    const std::size_t begin = at + phrase.size() + 1;
    return begin <= text.size() ? text.substr(begin) : std::string();
  }
  return std::nullopt;
}

bool chooses(std::string_view answer, const RightOption& right) {
  if (answer.empty()) return false;
  const auto is_right = [&](std::string_view word) {
    return word == right.letter || word == right.text;
  };
  if (kLetters.find(answer.front()) != std::string_view::npos) return is_right(answer.substr(0, 1));
  const std::string plain =
      single_spaced(replaced(answer, {"\n", "\"", "'", ".", ",", "?", "!", "{", "}"}));
  if (const auto rest = behind(plain, {"answer is:", "answer:", "answer is", "option is"}))
    return rest->starts_with(right.text) || rest->starts_with(right.letter);
  for (const std::string& word : words_of(plain))
    if (kLetters.find(word) != std::string_view::npos) return is_right(word);
  return false;
}

bool finds_bug(std::string_view answer, const RightOption& right) {
  if (answer.starts_with(right.letter + ".") || answer.starts_with(right.letter + ":")) return true;
  const std::string plain = single_spaced(
      replaced(trimmed(answer), {"\n", "`", "'", "\"", "-", "*", "Option", "option"}));
  const auto rest = behind(plain, {"answer is:", "is:", "answer:"});
  return rest && (rest->starts_with(right.letter) || rest->starts_with(right.text));
}

bool says_word(std::string_view answer, const std::string& right, bool upper) {
  std::string plain = replaced(answer, {"\n", ":", "\"", "'", ".", ",", "?", "!", "{", "}"});
  if (upper)
    std::ranges::transform(
        plain, plain.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  const std::vector<std::string> words = words_of(plain);
  return std::ranges::find(words, right) != words.end();
}

// The last word as a whole number.
bool ends_with_number(std::string_view answer, const std::string& right) {
  const std::vector<std::string> words =
      words_of(replaced(answer, {"\n", ".", "`", "'", "\"", ":"}));
  if (words.empty()) return false;
  const std::string& last = words.back();
  const std::size_t sign = last.front() == '-' || last.front() == '+' ? 1 : 0;
  if (last.size() == sign ||
      !std::all_of(last.begin() + static_cast<std::ptrdiff_t>(sign), last.end(), is_digit))
    return false;
  return std::stold(last) == std::stold(right);
}

// The first number, with its fraction.
bool begins_with_value(std::string_view answer, const json& right) {
  const std::size_t begin = answer.find_first_of("0123456789");
  if (begin == std::string_view::npos) return false;
  std::size_t end = begin;
  while (end < answer.size() && is_digit(answer[end])) ++end;
  bool fraction = false;
  if (end + 1 < answer.size() && answer[end] == '.' && is_digit(answer[end + 1])) {
    fraction = true;
    for (++end; end < answer.size() && is_digit(answer[end]);) ++end;
  }
  if (right.is_number_integer() && fraction) return false;
  return right.is_number() &&
         std::stod(std::string(answer.substr(begin, end - begin))) == right.get<double>();
}

// The share of the results that are right from the first on.
double right_results(std::string_view answer, const json& right) {
  const std::vector<std::string> numbers = numbers_in(answer);
  std::size_t count = 0;
  while (count < right.size() && count < numbers.size() &&
         std::stold(numbers[count]) == std::stold(text_of(right[count])))
    ++count;
  return static_cast<double>(count) / static_cast<double>(right.size());
}

// A character is a word; punctuation of either script and spaces are left out.
std::vector<std::string> chinese_characters(std::string_view text) {
  static constexpr std::string_view kPunctuation =
      "！？｡。＂＃＄％＆＇（）＊＋，－／：；＜＝＞＠［＼］＾＿｀｛｜｝～｟｠｢｣､、〃》「」『』【】〔"
      "〕〖〗〘〙〚〛〜〝〞〟〰"
      "〾〿–—‘’‛“”„‟…‧﹏";
  std::vector<std::string> all;
  for (const char c : text) {
    if ((static_cast<unsigned char>(c) & 0xc0) == 0x80 && !all.empty())
      all.back() += c;
    else
      all.emplace_back(1, c);
  }
  std::erase_if(all, [](const std::string& c) {
    if (c.size() == 1) return std::ispunct(static_cast<unsigned char>(c[0])) != 0 || c[0] <= ' ';
    return kPunctuation.find(c) != std::string_view::npos || c == "\u3000";
  });
  for (std::string& c : all)
    if (c.size() == 1) c[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(c[0])));
  return all;
}

double of_infinitebench(const LongQuestion& question, std::string_view answer) {
  const std::string_view name = question.task->name;
  const json first = first_of(question.answer);
  if (name == "passkey" || name == "number_string") {
    const std::vector<std::string> numbers = numbers_in(answer);
    return !numbers.empty() && numbers.front() == text_of(first) ? 1 : 0;
  }
  if (name == "kv_retrieval") return says_word(answer, text_of(first), false) ? 1 : 0;
  if (name == "longdialogue_qa_eng") return says_word(answer, text_of(first), true) ? 1 : 0;
  if (name == "longbook_choice_eng") return chooses(answer, right_option(question)) ? 1 : 0;
  if (name == "code_debug") return finds_bug(answer, right_option(question)) ? 1 : 0;
  if (name == "code_run") return ends_with_number(answer, text_of(first)) ? 1 : 0;
  if (name == "math_find") return begins_with_value(answer, first) ? 1 : 0;
  if (name == "math_calc") return right_results(answer, question.answer);
  double best = 0;
  for (const std::string& right : texts_of(question.answer)) {
    const double one = name == "longbook_sum_eng" ? rouge_lsum(answer, right)
                       : name == "longbook_qa_chn"
                           ? words_f1(chinese_characters(answer), chinese_characters(right))
                           : answer_f1(answer, right);
    best = std::max(best, one);
  }
  return best;
}

Result<bool> check_answer(const LongQuestion& question) {
  const json& answer = question.answer;
  const std::string_view name = question.task->name;
  const bool empty = answer.is_null() || (answer.is_array() && answer.empty());
  if (empty) return fail("it has no answer");
  if (name == "math_calc" && !answer.is_array()) return fail("math_calc takes a list of numbers");
  const bool choice = name == "longbook_choice_eng" || name == "code_debug";
  if (choice && right_option(question).letter.empty())
    return fail("its answer is none of its options");
  if (std::string_view(question.task->score) == "classification" && question.classes.empty())
    return fail("it lacks all_classes");
  return true;
}

} // namespace

const char* to_string(LongSuite suite) {
  return suite == LongSuite::LongBench ? "LongBench" : "InfiniteBench";
}

// Lengths of answers as the benchmarks set them. Three tasks of LongBench cut Chinese into words
// with a dictionary (multifieldqa_zh, dureader, vcsum) and are left out.
const std::vector<LongTask>& long_tasks() {
  using enum LongSuite;
  static const std::vector<LongTask> tasks{{"narrativeqa", LongBench, "f1", 128},
                                           {"qasper", LongBench, "f1", 128},
                                           {"multifieldqa_en", LongBench, "f1", 64},
                                           {"hotpotqa", LongBench, "f1", 32},
                                           {"2wikimqa", LongBench, "f1", 32},
                                           {"musique", LongBench, "f1", 32},
                                           {"gov_report", LongBench, "rouge_l", 512},
                                           {"qmsum", LongBench, "rouge_l", 512},
                                           {"multi_news", LongBench, "rouge_l", 512},
                                           {"trec", LongBench, "classification", 64, true},
                                           {"triviaqa", LongBench, "f1", 32, true},
                                           {"samsum", LongBench, "rouge_l", 128, true},
                                           {"lsht", LongBench, "classification", 64, true},
                                           {"passage_count", LongBench, "count", 32},
                                           {"passage_retrieval_en", LongBench, "retrieval", 32},
                                           {"passage_retrieval_zh", LongBench, "retrieval_zh", 32},
                                           {"lcc", LongBench, "code", 64},
                                           {"repobench-p", LongBench, "code", 64},
                                           {"passkey", InfiniteBench, "accuracy", 6},
                                           {"number_string", InfiniteBench, "accuracy", 12},
                                           {"kv_retrieval", InfiniteBench, "accuracy", 50},
                                           {"longbook_sum_eng", InfiniteBench, "rouge_lsum", 1200},
                                           {"longbook_choice_eng", InfiniteBench, "accuracy", 40},
                                           {"longbook_qa_eng", InfiniteBench, "f1", 40},
                                           {"longbook_qa_chn", InfiniteBench, "f1", 40},
                                           {"longdialogue_qa_eng", InfiniteBench, "accuracy", 40},
                                           {"math_find", InfiniteBench, "accuracy", 3},
                                           {"math_calc", InfiniteBench, "accuracy", 30000},
                                           {"code_run", InfiniteBench, "accuracy", 5},
                                           {"code_debug", InfiniteBench, "accuracy", 5}};
  return tasks;
}

Result<const LongTask*> find_long_task(std::string_view name) {
  std::vector<std::string> names;
  for (const LongTask& task : long_tasks()) {
    if (name == task.name) return &task;
    names.emplace_back(task.name);
  }
  if (name == "multifieldqa_zh" || name == "dureader" || name == "vcsum")
    return fail("task '{}' needs a dictionary of Chinese words, which Assay has not", name);
  return fail("unknown task '{}'{}; tasks are {}",
              printable(name),
              did_you_mean(name, names),
              fmt::join(names, ", "));
}

Result<LongQuestion> read_long_question(const json& row, std::string_view task) {
  if (!row.is_object()) return fail("it is no JSON object");
  const auto text = [&](const char* name) {
    const auto found = row.find(name);
    return found != row.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  LongQuestion question;
  const std::string named = !text("dataset").empty() ? text("dataset") : text("task");
  const Result<const LongTask*> found = find_long_task(named.empty() ? task : named);
  if (!found) return found.error();
  question.task = *found;
  question.context = text("context");
  question.question = text("input");
  if (question.context.empty() && question.question.empty())
    return fail("it has neither `context` nor `input`");
  question.answer = row.contains("answers") ? row["answers"] : row.value("answer", json());
  const auto list = [&](const char* name) {
    return row.contains(name) && row[name].is_array() ? texts_of(row[name])
                                                      : std::vector<std::string>();
  };
  question.classes = list("all_classes");
  question.options = list("options");
  if (Result<bool> ok = check_answer(question); !ok) return ok.error();
  return question;
}

std::string prompt_of(const LongQuestion& question) {
  std::string prompt = question.context;
  if (!prompt.empty() && !question.question.empty()) prompt += "\n\n";
  prompt += question.question;
  for (std::size_t i = 0; i < question.options.size() && i < kLetters.size(); ++i)
    prompt += fmt::format("\n{}. {}", kLetters[i], question.options[i]);
  return prompt + "\n";
}

double score_answer(const LongQuestion& question, std::string_view answer) {
  return question.task->suite == LongSuite::LongBench ? of_longbench(question, answer)
                                                      : of_infinitebench(question, answer);
}

} // namespace assay
