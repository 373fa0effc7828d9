#include "app/assay/output/glossary.h"

#include <algorithm>
#include <cctype>
#include <sstream>
#include <string_view>

namespace assay::cli {

namespace {

// Markdown's marks are for the page.
std::string plain_cell(std::string cell) {
  cell.erase(std::remove(cell.begin(), cell.end(), '`'), cell.end());
  const std::size_t first = cell.find_first_not_of(' ');
  if (first == std::string::npos) return "";
  return cell.substr(first, cell.find_last_not_of(' ') + 1 - first);
}

std::vector<Term> read_page() {
  std::vector<Term> terms;
  std::istringstream page(kGlossaryPage);
  bool titled = false; // below the rule under a table's titles
  for (std::string line; std::getline(page, line);) {
    const bool rule = line.starts_with("|-");
    titled = rule || (titled && line.starts_with('|'));
    if (rule || !titled) continue;
    std::istringstream cells(line.substr(1));
    Term term;
    for (std::string* cell : {&term.name, &term.meaning, &term.stored}) {
      std::getline(cells, *cell, '|');
      *cell = plain_cell(*cell);
    }
    terms.push_back(std::move(term));
  }
  return terms;
}

constexpr std::size_t kLeastPart = 2; // letters of a word that find it

// In small letters, "95 %" as "95%" and keys as words.
std::string comparable(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  std::ranges::replace(text, '_', ' ');
  for (std::size_t at; (at = text.find(" %")) != std::string::npos;) text.erase(at, 1);
  return text;
}

// The word itself, and what it is the plural of.
std::vector<std::string> singulars(const std::string& word) {
  std::vector<std::string> forms{word};
  const auto without = [&](std::string_view ending, const char* instead) {
    if (word.ends_with(ending))
      forms.push_back(word.substr(0, word.size() - ending.size()) + instead);
  };
  without("s", "");
  without("es", "");
  without("ies", "y");
  return forms;
}

} // namespace

std::vector<std::string> words_of(const Term& term) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < term.name.size();) {
    const std::size_t end = std::min(term.name.find(", ", at), term.name.size());
    words.push_back(term.name.substr(at, end - at));
    at = end + 2;
  }
  return words;
}

const Term* exact_term(const std::string& word) {
  const std::string wanted = comparable(word);
  for (const Term& term : glossary())
    if (comparable(term.name) == wanted) return &term;
  for (const std::string& form : singulars(wanted))
    for (const Term& term : glossary())
      for (const std::string& name : words_of(term))
        if (comparable(name) == form) return &term;
  return nullptr;
}

std::vector<const Term*> find_terms(const std::string& word) {
  if (const Term* exact = exact_term(word)) return {exact};
  const std::string wanted = comparable(word);
  if (wanted.size() < kLeastPart) return {};
  std::vector<const Term*> found;
  for (const Term& term : glossary()) {
    const std::vector<std::string> words = words_of(term);
    if (std::ranges::any_of(words, [&](const std::string& name) {
          return (" " + comparable(name)).find(" " + wanted) != std::string::npos;
        }))
      found.push_back(&term);
  }
  return found;
}

const std::vector<Term>& glossary() {
  static const std::vector<Term> terms = read_page();
  return terms;
}

} // namespace assay::cli
