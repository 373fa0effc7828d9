// Parts of a matrix that measures a cell of results again, in fresh launches: other weights and
// documents, another order of visits.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>

#include "core/ledger/ledger.h"

namespace assay {

// A value of a training key as TOML.
std::string toml_text(const nlohmann::json& value);

// The version and [experiment]; `launches` as TOML.
std::string fresh_head(const SpecRow& spec, const std::string& name, const std::string& launches);

// [base] of a stored configuration without the keys `left_out`. Relative paths count from where the
// results were measured.
std::string
fresh_base(nlohmann::json config, const std::set<std::string>& left_out, const SpecRow& spec);

// The begin of a [[cell]] that measures as often and as long as `cell`.
std::string fresh_cell(const CellRow& cell, const std::string& name);

// What is the same in every such matrix: how the variants take turns, the last key of [measure],
// then the limits of other work, and no traces.
std::string fresh_end(const SpecRow& spec, const CellRow& cell);

} // namespace assay
