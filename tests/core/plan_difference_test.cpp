#include "core/ledger/plan_difference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace assay {
namespace plan_difference_test {

using nlohmann::json;
using testing::HasSubstr;

json cell(const char* name, int seq_len, int rounds = 6) {
  return {{"name", name},
          {"rounds", rounds},
          {"variants",
           {{{"name", "off"}, {"config", {{"seq_len", seq_len}, {"data", "corpus"}}}},
            {{"name", "on"}, {"config", {{"seq_len", seq_len}, {"data", "corpus"}}}}}}};
}

json plan(std::vector<json> cells, int seed = 1) {
  return {{"seed", seed},
          {"launches", 5},
          {"cells", std::move(cells)},
          {"optimizations", {{{"name", "varlen"}, {"summary", "s"}}}},
          {"claims", {{{"id", "c"}, {"gain", {0.1, 0.2}}}}}};
}

std::string difference(const json& a, const json& b, std::size_t most = 3) {
  return plan_difference(a.dump(), b.dump(), most);
}

TEST(PlanDifference, NamesAKeyOnceWithBothValues) {
  const json a = plan({cell("x", 64), cell("y", 64)});
  EXPECT_EQ(difference(a, a), "");
  EXPECT_EQ(difference(a, plan({cell("x", 64), cell("y", 64)}, 2)),
            "seed: 1 in the results, 2 now");
  EXPECT_EQ(difference(a, plan({cell("x", 128), cell("y", 128)})),
            "cell 'x', seq_len: 64 in the results, 128 now (also in 1 more cell)");
  EXPECT_EQ(difference(a, plan({cell("x", 64), cell("y", 64, 7)})),
            "cell 'y', rounds: 6 in the results, 7 now");
}

// A preset changes many keys; what a person typed is never among those that are only counted.
TEST(PlanDifference, KeysThatWereAskedForComeFirst) {
  const auto at = [](int width) {
    json one = cell("x", width);
    for (json& variant : one["variants"])
      variant["config"].update({{"a", width}, {"b", width}, {"c", width}, {"preset", width}});
    return plan({one});
  };
  const json a = at(64), b = at(128);
  EXPECT_EQ(difference(a, b, 1), "cell 'x', a: 64 in the results, 128 now; 4 more");
  EXPECT_EQ(plan_difference(a.dump(), b.dump(), 1, {"preset", "seq_len"}),
            "cell 'x', preset: 64 in the results, 128 now; cell 'x', seq_len: 64 in the results, "
            "128 now; 3 more");
}

// A plan stores its launches as a whole, and for each cell.
TEST(PlanDifference, CountsTheCellsOfADifferenceOfTheWholePlan) {
  json a = plan({cell("x", 64), cell("y", 64)}), b = a;
  for (json* one : {&a, &b})
    for (json& of_cell : (*one)["cells"]) of_cell["launches"] = one == &a ? 5 : 3;
  b["launches"] = 3;
  EXPECT_EQ(difference(a, b), "launches: 5 in the results, 3 now (also in 2 cells)");
  for (json* one : {&a, &b}) (*one)["cells"].erase(1);
  EXPECT_EQ(difference(a, b), "launches: 5 in the results, 3 now");
}

TEST(PlanDifference, NamesWhatOneSideLacks) {
  const json a = plan({cell("x", 64)}), b = plan({cell("x", 64), cell("y", 64)});
  EXPECT_EQ(difference(a, b), "cell 'y' is in the plan now, but not in the results");
  EXPECT_EQ(difference(b, a), "cell 'y' is in the results, but not in the plan now");
  json c = a;
  c["cells"][0]["variants"].erase(1);
  EXPECT_EQ(difference(a, c), "cell 'x', variant 'on' is in the results, but not in the plan now");
  c = a;
  c["claims"][0]["gain"][1] = 0.3;
  EXPECT_EQ(difference(a, c), "claim 'c', gain: [0.1,0.2] in the results, [0.1,0.3] now");
  c = a;
  c["cells"][0]["variants"][0]["config"].erase("data");
  EXPECT_EQ(difference(a, c), "cell 'x', data: \"corpus\" in the results, nothing now");
}

TEST(PlanDifference, SaysThreeAndCountsTheRest) {
  json b = plan({cell("x", 128, 7)}, 2);
  b["launches"] = 3;
  EXPECT_EQ(difference(plan({cell("x", 64)}), b),
            "launches: 5 in the results, 3 now; seed: 1 in the results, 2 now; cell 'x', rounds: 6 "
            "in the results, 7 now; "
            "1 more");
}

TEST(PlanDifference, APlanThatCannotBeReadHasNone) {
  EXPECT_EQ(plan_difference("not JSON", "{}"), "");
  EXPECT_EQ(plan_difference("[1]", "{\"cells\": 3}"), "");
}

} // namespace plan_difference_test
} // namespace assay
