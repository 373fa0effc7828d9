// The words of docs/glossary.md, which is compiled into the program.
#pragma once

#include <string>
#include <vector>

namespace assay::cli {

extern const char* const kGlossaryPage;

struct Term {
  std::string name, meaning;
  std::string stored; // table or key that stores it, or ""
};

// The rows of the page's table, in its order.
const std::vector<Term>& glossary();
// "FASTER" and "SLOWER" of the row "FASTER, SLOWER".
std::vector<std::string> words_of(const Term& term);
// The row that has the word, in any case and also in the plural; nullptr: none.
const Term* find_term(const std::string& word);

} // namespace assay::cli
