// The plan as JSON: what people read, what the spec hash is taken of, and what the rows of a ledger
// are held against.
#pragma once

#include <string>

#include "core/ledger/ledger.h"

namespace assay {

// Everything that determines what is measured and how it is judged: not the command line, the time,
// or the budget.
std::string plan_json(const LedgerData& plan);

// Sets the spec's plan_json and hash from the plan's rows.
void seal_plan(LedgerData& plan);

// What was changed in a ledger's plan since it was sealed, as a sentence, or "". Keys that the
// sealed JSON does not have (a column that came with a later schema) are not compared. It finds
// edited rows; who also writes a new hash makes a new plan, which no run of the old one continues.
std::string changed_plan(const LedgerData& data);

} // namespace assay
