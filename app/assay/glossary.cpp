#include "app/assay/glossary.h"

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

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
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

const Term* find_term(const std::string& word) {
  if (const auto whole =
          std::find_if(glossary().begin(),
                       glossary().end(),
                       [&](const Term& term) { return lower(term.name) == lower(word); });
      whole != glossary().end())
    return &*whole;
  for (const std::string& form : singulars(lower(word)))
    for (const Term& term : glossary())
      for (const std::string& name : words_of(term))
        if (lower(name) == form) return &term;
  return nullptr;
}

const std::vector<Term>& glossary() {
  static const std::vector<Term> terms = read_page();
  return terms;
}

} // namespace assay::cli
