// A matrix for one optimization, written for people: what `assay init` and `assay ab` make.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace assay::cli {

struct MatrixDraft {
  std::string optimization = "varlen";
  std::vector<std::string> levels; // empty: all
  std::string data;                // "": left to --data
  std::string preset = "tiny", device = "cpu";
  std::vector<std::string> settings; // "key=value": training keys beside those that it needs
  int launches = 5;
};

// TOML with comments. Throws bad input for an unknown optimization or level, or a setting without
// a value.
std::string matrix_text(const MatrixDraft& draft);

// Whether the text is a draft as it was written. Its last line has a hash of the others.
bool is_unedited_draft(const std::string& text);

} // namespace assay::cli
