// The claims that a plan judges.
#include <algorithm>

#include "experiments/analysis/claims.h"
#include "experiments/plan/claims_file.h"
#include "experiments/plan/planner.h"

namespace assay {

// Claims of the plan's optimizations, in their present version.
void Planner::add_claims() {
  std::vector<std::string> files;
  for (const std::string& file : matrix_.claim_files) {
    Result<std::string> path = claims_path(file, matrix_.file, options_.claims_directory);
    if (!path)
      return problems_.add(fmt::format("{}: {}", matrix_.claims_where, path.error().message));
    files.push_back(*path);
  }
  Result<std::vector<ClaimRow>> claims = load_claim_files(files);
  if (!claims) return problems_.add(claims.error().message);
  for (ClaimRow& claim : *claims) {
    if (names_keys(claim)) {
      add_key_claim(std::move(claim));
      continue;
    }
    const bool planned =
        std::any_of(plan_.ledger.optimizations.begin(),
                    plan_.ledger.optimizations.end(),
                    [&](const OptimizationRow& o) { return o.name == claim.optimization; });
    if (planned) plan_.ledger.claims.push_back(std::move(claim));
  }
}

// Where a cell compares one of its keys at all, so that a near miss is seen.
void Planner::add_key_claim(ClaimRow claim) {
  const KeyClaimFit fit = key_claim_fit(plan_.ledger, claim);
  if (fit.concerned == nullptr) return;
  if (!fit.tested && claim.unmet.empty())
    plan_.notes.push_back(fmt::format("no cell tests claim '{}': {}", claim.id, fit.miss));
  claim.optimization = fit.concerned->optimization;
  plan_.ledger.claims.push_back(std::move(claim));
}

} // namespace assay
