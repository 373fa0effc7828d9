#include "app/command_line/complete.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <set>

#include "app/command_line/help.h"
#include "app/command_line/words.h"

namespace assay {

namespace {

// bash cuts "--device=cpu", "seq_len=64" and "a:b" into three words each: the first is an option
// and its value, the others are one value.
std::vector<std::string> joined_words(const std::vector<std::string>& words) {
  std::vector<std::string> result;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& sign = words[i];
    if ((sign != "=" && sign != ":") || result.empty()) {
      result.push_back(sign);
      continue;
    }
    const std::string value = i + 1 < words.size() ? words[++i] : "";
    if (result.back().starts_with("--") && sign == "=")
      result.push_back(value);
    else
      result.back() += sign + value;
  }
  return result;
}

constexpr std::string_view kMore = "[,…]"; // of a value's name: a list with commas

// "varlen," of "varlen,mas"
std::string before_last_comma(const std::string& text) {
  const std::size_t comma = text.rfind(',');
  return comma == std::string::npos ? "" : text.substr(0, comma + 1);
}

// "CELL" stands for a name, "disturbed" is a word to type.
bool stands_for_a_name(const std::string& name) {
  return std::none_of(
      name.begin(), name.end(), [](unsigned char c) { return std::islower(c) != 0; });
}

class Lines {
public:
  explicit Lines(std::string typed) : typed_(std::move(typed)) {}
  void add(const std::string& word, const std::string& description = "") {
    if (!word.starts_with(typed_) || !known_.insert(word).second) return;
    text_ += word + (description.empty() ? "" : "\t" + description) + "\n";
  }
  std::string take() { return std::move(text_); }

private:
  std::string typed_, text_;
  std::set<std::string> known_;
};

std::string candidates(const std::string& name,
                       const std::vector<std::string>& words,
                       const std::string& before, // "--device=" of the word under the cursor
                       const ValueSource& values) {
  for (const char* file : {"FILE", "PATH", "MATRIX", "TRACE"})
    if (name == file) return ":files\n";
  for (const char* directory : {"DIR", "FIRST", "SECOND"})
    if (name == directory) return ":directories\n";
  Lines lines(words.back());
  const bool list = name.ends_with(kMore);
  const std::string one = list ? name.substr(0, name.size() - kMore.size()) : name;
  const std::string earlier = list ? before_last_comma(words.back().substr(before.size())) : "";
  const std::vector<std::string> taken = CLI::detail::split(earlier, ',');
  for (const std::string& part : CLI::detail::split(one, '|')) {
    std::vector<std::string> known = values(part, words);
    if (known.empty() && part != one && !stands_for_a_name(part)) known = {part};
    for (const std::string& value : known)
      if (std::find(taken.begin(), taken.end(), value) == taken.end())
        lines.add(fmt::format("{}{}{}", before, earlier, value));
  }
  return lines.take();
}

} // namespace

std::string
complete_words(const CLI::App& app, std::vector<std::string> words, const ValueSource& values) {
  words = joined_words(words);
  if (words.empty()) words.emplace_back();
  WordWalk walk(app);
  for (std::size_t i = 0; i + 1 < words.size(); ++i) walk.take(words[i]);
  const std::string& typed = words.back();
  if (walk.awaiting() != nullptr)
    return candidates(value_name(*walk.awaiting()), words, "", values);
  if (const std::size_t equals = typed.find('=');
      typed.starts_with("--") && equals != std::string::npos) {
    const CLI::Option* option = walk.command().get_option_no_throw(typed.substr(0, equals));
    if (option == nullptr) return "";
    return candidates(value_name(*option), words, typed.substr(0, equals + 1), values);
  }
  Lines lines(typed);
  if (typed.starts_with("-") && !walk.options_ended()) {
    for (const CLI::Option* option : walk.command().get_options()) {
      if (is_hidden(*option) || option->get_positional()) continue;
      for (const std::string& name : option->get_lnames())
        lines.add("--" + name, option->get_description());
      if (option->get_lnames().empty())
        for (const std::string& name : option->get_snames())
          lines.add("-" + name, option->get_description());
    }
    return lines.take();
  }
  if (const CLI::Option* positional = walk.next_positional(); positional != nullptr)
    return candidates(value_name(*positional), words, "", values);
  for (const CLI::App* command : commands_of(walk.command()))
    lines.add(command->get_name(), command->get_description());
  return lines.take();
}

bool answer_assay(const CLI::App& app,
                  int argc,
                  const char* const* argv,
                  const ValueSource& values) {
  const std::string question = argc > 1 ? argv[1] : "";
  if (question == "--complete") {
    fmt::print("{}", complete_words(app, {argv + 2, argv + argc}, values));
    return true;
  }
  if (question == "--manual") fmt::print("{}", manual_sections(app));
  return question == "--manual";
}

} // namespace assay
