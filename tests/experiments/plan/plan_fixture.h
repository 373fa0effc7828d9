// Plans of matrices whose training data is one small text.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "experiments/plan/plan.h"
#include "tests/experiments/support.h"
#include "tests/paths.h"

namespace assay::test {

inline const std::string kHead = "version = 1\n[experiment]\nname = \"t\"\n";

class PlanTest : public testing::Test {
protected:
  std::string
  problem(const std::string& matrix, PlanOptions options = {}, std::string data = "") const {
    if (data.empty()) data = scratch_.write("corpus.txt", "text");
    const Result<Plan> plan = make_plan(
        value_or_throw(parse_matrix(matrix, "m.toml", {"base.data=\"" + data + "\""})), options);
    return plan ? "" : plan.error().message;
  }
  std::string hash(const std::vector<std::string>& overrides,
                   const PlanOptions& options = {}) const {
    std::vector<std::string> all = overrides;
    all.push_back("base.data=\"" + scratch_.write("corpus.txt", "text") + "\"");
    return value_or_throw(
               make_plan(value_or_throw(parse_matrix(test::kSmallMatrix, "m.toml", all)), options))
        .ledger.spec.hash;
  }
  static PlanOptions shipped_claims() {
    PlanOptions options;
    options.claims_directory = test::source_dir() + "/experiments/claims";
    return options;
  }
  // Of the small matrix, which lies in the scratch directory, with `section` at its end.
  std::vector<std::string> claim_ids(const std::string& section) const {
    const std::string data = "base.data=\"" + scratch_.write("corpus.txt", "text") + "\"",
                      file = scratch_.write("m.toml", test::kSmallMatrix + section);
    const Plan plan =
        value_or_throw(make_plan(value_or_throw(load_matrix(file, {data})), shipped_claims()));
    std::vector<std::string> ids;
    for (const ClaimRow& claim : plan.ledger.claims) ids.push_back(claim.id);
    return ids;
  }
  test::Scratch scratch_;
};

} // namespace assay::test
