// Cells whose number of launches the results decide: at each of CellRow::looks the engine notes an
// event whether the cell goes on (docs/statistics.md).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/ledger/ledger.h"

namespace assay {

struct LookState {
  std::size_t taken = 0; // looks
  bool decided = false;  // the last of them stopped the cell
};

LookState look_state(const LedgerData& data, const CellRow& cell);
// Of CellRow::looks: the one that stopped the cell, else the next, else the last. Needs looks.
std::size_t current_look(const LedgerData& data, const CellRow& cell);

// As the ledger stores them: "5,8,12", "" without looks. Nothing where the text is no such list.
std::string looks_text(const std::vector<int>& looks);
std::optional<std::vector<int>> parse_looks(std::string_view text);

} // namespace assay
