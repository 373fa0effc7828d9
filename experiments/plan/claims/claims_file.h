// Claims as data: the gain that a document claims for an optimization, quoted, with its conditions.
// Format of experiments/claims/*.toml: docs/matrix.md.
#pragma once

#include <string>
#include <vector>

#include "core/ledger/ledger.h"
#include "core/result.h"

namespace assay {

// Every claim of a directory's *.toml files, by file name, each with what the files' [[check]]
// tables state about its document (document_checks.h). All problems are reported at once.
Result<std::vector<ClaimRow>> load_claims(const std::string& directory);

// Where a claims file of a matrix is: beside the matrix (or at its absolute path), else
// among the shipped ones of `directory`.
Result<std::string>
claims_path(const std::string& file, const std::string& matrix_file, const std::string& directory);

// The same for chosen files; and with the claims of each file apart.
Result<std::vector<ClaimRow>> load_claim_files(const std::vector<std::string>& files);
Result<std::vector<std::vector<ClaimRow>>>
load_claims_by_file(const std::vector<std::string>& files);

} // namespace assay
