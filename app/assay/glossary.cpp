#include "app/assay/glossary.h"

#include <algorithm>
#include <sstream>

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
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("| ") || line.starts_with("| term ")) continue;
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

} // namespace

const std::vector<Term>& glossary() {
  static const std::vector<Term> kTerms = read_page();
  return kTerms;
}

} // namespace assay::cli
