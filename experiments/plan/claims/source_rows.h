// What the five documents whose claims Assay judges propose, row by row: how each is answered here,
// or why it is not. `assay list --all` prints it.
#pragma once

#include <string>
#include <vector>

namespace assay {

// Of the documents: DeltaNet-MLA analysis and report (B, X, E), the brief on native sparse
// attention (N), the HYDRA notes (H), the V4.5 guide (V).
struct SourceRow {
  enum class Answer {
    Optimization, // a row of optimizations(), whose levels a run judges
    Variants,     // a cell of a shipped matrix whose variants are keys: "pattern.toml:rows_2048"
    Command,      // a command prints it
    Arithmetic,   // no experiment: what follows from the code, in a sentence
    Missing       // nothing yet, or a part: why
  };
  std::string id; // "B9"
  std::string what;
  Answer answer;
  std::string by;                  // the optimization, the cell, the command, or the sentence
  std::vector<std::string> claims; // ids of experiments/claims
};

const std::vector<SourceRow>& source_rows();

const char* to_string(SourceRow::Answer answer); // "optimization"

} // namespace assay
