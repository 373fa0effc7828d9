#include "core/files/shell_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace assay {

namespace {

// Letters and digits of any script are plain; of ASCII these signs are too.
bool is_plain(unsigned char c) {
  return c >= 0x80 || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
         std::string_view("_-./:=,+@%").find(static_cast<char>(c)) != std::string_view::npos;
}

} // namespace

std::string shell_word(std::string_view text) {
  if (!text.empty() && std::all_of(text.begin(), text.end(), is_plain)) return std::string(text);
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? "'\\''" : std::string(1, c);
  return word + "'";
}

std::string shell_line(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + shell_word(word);
  return line;
}

std::string path_argument(std::string_view path) {
  return path.starts_with('-') ? fmt::format("./{}", path) : std::string(path);
}

std::string shell_path(std::string_view path) {
  return shell_word(path_argument(path));
}

std::vector<std::string> shell_words(std::string_view line) {
  std::vector<std::string> words;
  bool inside = false, quoted = false; // a word, quotes
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == ' ' && !quoted) {
      inside = false;
      continue;
    }
    if (!inside) words.emplace_back();
    inside = true;
    if (c == '\'')
      quoted = !quoted;
    else if (c == '\\' && !quoted && i + 1 < line.size())
      words.back() += line[++i];
    else
      words.back() += c;
  }
  return words;
}

std::vector<std::string> shell_commands(std::string_view line) {
  std::vector<std::string> commands(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '\'') quoted = !quoted;
    if (!quoted && line.substr(i).starts_with("; ")) {
      commands.emplace_back();
      ++i;
      continue;
    }
    commands.back() += c;
    if (c == '\\' && !quoted && i + 1 < line.size()) commands.back() += line[++i];
  }
  return commands;
}

std::string without_quotes(std::string_view word) {
  std::string text;
  char quote = 0; // the open one
  for (std::size_t i = 0; i < word.size(); ++i) {
    const char c = word[i];
    const bool escapes = // within double quotes a backslash escapes four characters only
        c == '\\' && i + 1 < word.size() &&
        (quote == 0 ||
         (quote == '"' && std::string_view("\\\"$`").find(word[i + 1]) != std::string_view::npos));
    if (escapes)
      text += word[++i];
    else if (quote == 0 && (c == '\'' || c == '"'))
      quote = c;
    else if (c == quote)
      quote = 0;
    else
      text += c;
  }
  return text;
}

} // namespace assay
