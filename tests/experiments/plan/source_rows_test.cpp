// Every row that the documents propose has an answer that exists, and every claim its row.
#include "experiments/plan/claims/source_rows.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "experiments/plan/claims/claims_file.h"
#include "model/config/optimization.h"
#include "tests/paths.h"

namespace assay {
namespace source_rows_test {

using Answer = SourceRow::Answer;

TEST(SourceRows, AreAllOfTheDocuments) {
  std::set<std::string> expected;
  const std::map<std::string, int> counts{
      {"B", 23}, {"X", 14}, {"N", 14}, {"H", 13}, {"V", 9}, {"M", 4}, {"L", 3}, {"E", 16}};
  for (const auto& [letter, count] : counts)
    for (int i = 1; i <= count; ++i) expected.insert(letter + std::to_string(i));
  std::set<std::string> ids;
  for (const SourceRow& row : source_rows()) {
    EXPECT_TRUE(ids.insert(row.id).second) << row.id << " is there twice";
    EXPECT_FALSE(row.what.empty() || row.by.empty()) << row.id;
  }
  EXPECT_EQ(ids, expected);
}

TEST(SourceRows, NameOptimizationsAndCellsThatExist) {
  for (const SourceRow& row : source_rows()) {
    if (row.answer == Answer::Optimization) {
      const Optimization* found = optimizations().find(row.by);
      EXPECT_TRUE(found != nullptr && !found->hidden) << row.id << ": " << row.by;
    }
    if (row.answer != Answer::Variants) continue;
    const std::string matrix = row.by.substr(0, row.by.find(':'));
    std::ifstream file(test::source_dir() + "/experiments/matrices/" + matrix);
    ASSERT_TRUE(file) << row.id << ": " << matrix;
    std::stringstream text;
    text << file.rdbuf();
    EXPECT_NE(text.str().find("name = \"" + row.by.substr(matrix.size() + 1) + "\""),
              std::string::npos)
        << row.id << ": " << row.by;
  }
}

TEST(SourceRows, ClaimsExistAndStandOnce) {
  std::set<std::string> known, named;
  for (const ClaimRow& claim :
       value_or_throw(load_claims(test::source_dir() + "/experiments/claims")))
    known.insert(claim.id);
  for (const SourceRow& row : source_rows())
    for (const std::string& claim : row.claims) {
      EXPECT_TRUE(known.contains(claim)) << row.id << ": " << claim;
      EXPECT_TRUE(named.insert(claim).second) << claim;
    }
  // Claims of our own documents, and of whole ladders, have no row.
  for (const std::string& claim : known)
    EXPECT_TRUE(named.contains(claim) || claim.starts_with("speed-") ||
                claim.starts_with("ladder-") || claim.starts_with("v45-") ||
                claim.ends_with("-total") || claim == "critical-fixes")
        << claim;
}

} // namespace source_rows_test
} // namespace assay
