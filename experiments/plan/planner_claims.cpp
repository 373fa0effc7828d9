// The claims that a plan judges.
#include <algorithm>

#include "experiments/analysis/claims.h"
#include "experiments/plan/claims/claims_file.h"
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
  Result<std::vector<std::vector<ClaimRow>>> claims = load_claims_by_file(files);
  if (!claims) return problems_.add(claims.error().message);
  std::vector<std::string> unused;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::size_t before = plan_.ledger.claims.size();
    const bool any = !(*claims)[i].empty(); // else it has checks alone
    for (ClaimRow& claim : (*claims)[i]) add_claim(std::move(claim));
    if (any && plan_.ledger.claims.size() == before) unused.push_back(matrix_.claim_files[i]);
  }
  if (!unused.empty())
    note("",
         fmt::format("no cell compares what a claim of {} compares: none of {} is judged",
                     fmt::join(unused, " or "),
                     unused.size() == 1 ? "its claims" : "their claims"));
}

void Planner::add_claim(ClaimRow claim) {
  if (names_keys(claim)) return add_key_claim(std::move(claim));
  if (std::ranges::any_of(plan_.ledger.optimizations, [&](const OptimizationRow& row) {
        return row.name == claim.optimization;
      }))
    plan_.ledger.claims.push_back(std::move(claim));
}

// Where a cell compares one of its keys at all, so that a near miss is seen.
void Planner::add_key_claim(ClaimRow claim) {
  const KeyClaimFit fit = key_claim_fit(plan_.ledger, claim);
  if (fit.concerned == nullptr) return;
  if (!fit.tested && claim.unmet.empty())
    note("", fmt::format("no cell tests claim '{}': {}", claim.id, fit.miss));
  claim.optimization = fit.concerned->optimization;
  plan_.ledger.claims.push_back(std::move(claim));
}

} // namespace assay
