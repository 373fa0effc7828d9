// A matrix for one comparison, written for people: what `assay init` and `assay ab` make.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace assay::cli {

struct MatrixDraft {
  std::string optimization = "varlen"; // or values of a training key: "precision=fp32,bf16"
  std::vector<std::string> levels;     // empty: all
  std::string expect;                  // of a key's values; "": objective
  std::string data;                    // "": left to --data
  std::string preset = "tiny", device = "cpu";
  std::vector<std::string> settings; // "key=value": training keys beside those that it needs
  int launches = 5;
};

// In every draft; a file without it is somebody's own.
inline constexpr std::string_view kDraftLine =
    "# `assay plan FILE` shows what this file measures, `assay run FILE --out DIR` measures it.\n";

// What the comparison is called: the optimization's name, or the key's.
std::string comparison_name(const MatrixDraft& draft);

// TOML with comments. Throws bad input for an unknown optimization, level or key, or a setting
// without a value.
std::string matrix_text(const MatrixDraft& draft);

} // namespace assay::cli
