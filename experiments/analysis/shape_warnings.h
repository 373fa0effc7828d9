// What arithmetic shows about a plan before anything runs: shapes that the fast kernels refuse
// or that cannot win, and arithmetic errors in the sources of its claims. They change no verdict.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/ledger/ledger.h"

namespace assay {

// `config`: a resolved TrainConfig as JSON. Rules that need a key which it lacks are silent, so
// ledgers of other builds can be read too.
//   attention head width   a multiple of 8 and at most 256: what flash and cuDNN attention take
//   vocabulary             a multiple of 64, or at least of 8, for the matrix product of the head
//   nsa, document length   at least the crossover, where it reads fewer keys than dense attention
std::vector<std::string> shape_warnings(const nlohmann::json& config);

// Of every variant's shape ("cell varlen, ema: …"; the same sentence once).
std::vector<std::string> shape_warnings(const LedgerData& plan);

// Arithmetic errors in the claims' sources, each sentence once.
std::vector<std::string> source_errors(const LedgerData& plan);

} // namespace assay
