// The words of docs/glossary.md, which is compiled into the program.
#pragma once

#include <string>
#include <vector>

namespace assay::cli {

extern const char* const kGlossaryPage;

// What `assay help` takes beside commands and words: all words explained, and what it takes.
inline constexpr const char* kTermsTopic = "terms";
inline constexpr const char* kAllTopics = "all";

struct Term {
  std::string name, meaning;
  std::string stored; // table or key that stores it, or ""
};

// The rows of the page's table, in its order.
const std::vector<Term>& glossary();
// "FASTER" and "SLOWER" of the row "FASTER, SLOWER".
std::vector<std::string> words_of(const Term& term);
// The rows that have the word, in any case and also in the plural; else those of which one word
// begins so: "95" finds "95 % interval", "interval" two rows.
std::vector<const Term*> find_terms(const std::string& word);
// The row that has the word itself, as find_terms finds it; null where it is only a part, or none.
const Term* exact_term(const std::string& word);

} // namespace assay::cli
