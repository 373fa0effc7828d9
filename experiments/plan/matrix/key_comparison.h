// Cells that compare sets of training keys: [cell.variants], or a design with [cell.steps]; and
// claims about such sets.
#pragma once

#include <string>
#include <vector>

#include "core/result.h"
#include "experiments/plan/matrix/drafts.h"
#include "experiments/plan/matrix/matrix.h"
#include "experiments/plan/matrix/toml_reader.h"
#include "model/config/optimization.h"

namespace assay {

class TomlTable;

// Reads the variants or the design and steps of a [[cell]], with `expect` and `unit`.
void read_key_comparison(TomlTable& table, MatrixCell& cell);

// The cell's variants, or those of its design, as the levels of a row of its own, the baseline
// first. Errors name the line.
Result<Optimization> row_of_variants(const MatrixCell& cell);

// The variant of the cell that a draft was made from; nullptr for a level of an optimization.
const MatrixVariant* variant_of(const MatrixCell& cell, const Draft& draft);

// Why the variants need processes of their own, "'b' has another threads", or "". `all` begins with
// the baseline.
std::string why_own_processes(const MatrixCell& cell, const std::vector<Draft>& all);

// What cannot be compared, one problem a difference. `twin`: all variants run in one process.
std::vector<std::string>
wrong_variants(const MatrixCell& cell, const std::vector<Draft>& all, bool twin);

// `from` and `to` of a claim, both { set = { … } }, as JSON objects of the values that a plan
// stores. Refused, unless the claim says in `unmet` why nothing tests it: keys that no cell
// compares, or that are not in both sets with different values.
void read_key_sets(TomlTable& table, ClaimRow& claim);

} // namespace assay
