// A matrix for one comparison, written for people: what `assay init` and `assay ab` make.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/result.h"
#include "experiments/evidence/effect.h"

namespace assay::cli {

struct MatrixDraft {
  std::string optimization = "varlen"; // or values of a training key: "precision=fp32,bf16"
  std::vector<std::string> levels;     // empty: all
  std::string expect;                  // of a key's values; "": objective
  std::string data;                    // "": left to --data
  std::string preset = "tiny";
  std::string device;                // "": what the optimization needs, else cpu
  std::vector<std::string> settings; // "key=value": training keys beside those that it needs
  std::string launches = std::to_string(kFullLaunches); // or auto
};

// What the comparison is called: the optimization's name, or the key's.
std::string comparison_name(const MatrixDraft& draft);

// TOML with comments. The error has every unknown optimization, level and key, and every setting
// without a value, one a line.
Result<std::string> matrix_text(const MatrixDraft& draft);

// Whether the text is a draft as it was written. Its last line has a hash of the others.
bool is_unedited_draft(const std::string& text);

} // namespace assay::cli
