// Lints: what arithmetic alone says about a plan before anything runs: shapes that the fast kernels
// refuse or that cannot win, and figures of the claims' documents that contradict each other.
// Warnings: they change no verdict.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/ledger/ledger.h"

namespace assay {

// `config`: a resolved TrainConfig as JSON. Rules that need a key which it lacks are silent, so
// ledgers of other builds can be linted too.
//   attention head width   a multiple of 8 and at most 256: what flash and cuDNN attention take
//   vocabulary             a multiple of 64, or at least of 8, for the matrix product of the head
//   nsa, document length   at least the crossover, where it reads fewer keys than dense attention
std::vector<std::string> shape_lints(const nlohmann::json& config);

// Of every variant's shape ("cell varlen, ema: …"; the same sentence once).
std::vector<std::string> lint_shapes(const LedgerData& plan);

// Of the claims' documents, each sentence once.
std::vector<std::string> lint_documents(const LedgerData& plan);

} // namespace assay
