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

} // namespace assay::cli
