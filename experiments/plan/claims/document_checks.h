// Arithmetic on the figures of a document that makes claims: what must hold between them if they
// were measured on one machine. Needs no run. The figures are data (experiments/claims/*.toml,
// [[check]]; docs/matrix.md); the rules are here.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/ledger/ledger.h"

namespace assay {

struct DocumentCheck {
  std::string document, section;
  std::string text; // quotation
  std::string kind; // of document_check_kinds()
  // The claims of the document that it bears on: of these rows, or of these ids. Both empty: all.
  std::vector<std::string> optimizations, claims;
  std::map<std::string, std::vector<double>> figures; // by name; a scalar is a list of one
};

struct DocumentCheckKind {
  std::string name;
  std::vector<std::string> figures; // that it needs; names in kListFigures are lists
  // What is wrong, in words with figures; nothing when they agree.
  std::optional<std::string> (*finding)(const DocumentCheck&);
};

// mfu             6 parameters tokens_per_second / (devices peak_flops) below 10 % or above 100 %
//                 (6 FLOPs a parameter and token: Kaplan et al. 2020, arXiv 2001.08361,
//                 section 2.1)
// duration        steps tokens_per_step / tokens_per_second differs from hours by > 10 %
// ratio           value / of differs from stated by > 10 %
// product         the product of factors differs from stated by > 10 %
// scaling         efficiency rises with the number of devices: [lowest, highest] by device count
// untrained_loss  loss >= .98 ln(vocabulary): that of a model that predicts every token alike
// copies          parameters bytes copies is more than stated_bytes
// sum             the sum of terms differs from stated by > 10 %
// perplexity      e^loss differs from perplexity by > 10 %
// superlinear     stated is more than devices times single
// same_figure     the ranges of first and second, two statements of one figure, do not meet
// change          after / before, end by end, gives a range that does not meet that of ratios
// compound        stated is outside [product of lowest, product of highest]
const std::vector<DocumentCheckKind>& document_check_kinds();
const DocumentCheckKind* find_document_check_kind(std::string_view name);
// Lists of one check have one length; every other figure is one number above 0.
bool is_list_figure(std::string_view name);

// An arithmetic error in the source: "DOCUMENT, SECTION: "TEXT": what is wrong", or nothing. Needs
// a known kind with its figures.
std::optional<std::string> arithmetic_error(const DocumentCheck& check);

// A claim as its file gives it.
struct QuotedClaim {
  ClaimRow row;
  std::string document; // that makes the claim
  std::string where;    // FILE:LINE of its id
};

// Writes into every claim the errors of its document that bear on it, one a line.
void attach_source_errors(const std::vector<DocumentCheck>& checks,
                          std::vector<QuotedClaim>& claims);

} // namespace assay
