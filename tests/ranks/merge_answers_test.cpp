#include "app/worker/ranks/merge_answers.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/result.h"

namespace assay::worker {
namespace merge_answers_test {

using nlohmann::json;
using testing::HasSubstr;

json round(json visit) {
  return {{"event", "round"}, {"round", 3}, {"visits", json::array({std::move(visit)})}};
}

json visit(std::int64_t wall, std::int64_t device, json samples, double loss) {
  return {{"variant", 1},
          {"position", 0},
          {"steps", 2},
          {"wall_ns", wall},
          {"device_ns", device},
          {"sample_ns", std::move(samples)},
          {"tokens", 64},
          {"loss", loss},
          {"skipped_steps", 0},
          {"covariates", {{"load1", static_cast<double>(wall)}}}};
}

std::string failure(const std::vector<json>& answers) {
  try {
    (void)merge_answers(answers);
  } catch (const Failure& error) {
    return error.what();
  }
  return "";
}

TEST(MergeAnswers, AVisitLastsAsLongAsItsSlowestRank) {
  const json merged = merge_answers({round(visit(100, 90, {40, 60}, 1.0)),
                                     round(visit(120, 80, {70, 50}, 2.0)),
                                     round(visit(110, 85, {50, 61}, 6.0))});
  const json& v = merged.at("visits").at(0);
  EXPECT_EQ(v.at("wall_ns"), 120);
  EXPECT_EQ(v.at("device_ns"), 90);
  EXPECT_EQ(v.at("sample_ns"), json::array({70, 61}));
  EXPECT_EQ(v.at("tokens"), 3 * 64);
  EXPECT_DOUBLE_EQ(v.at("loss").get<double>(), 3.0);
  EXPECT_EQ(v.at("skipped_steps"), 0);
  EXPECT_EQ(v.at("covariates").at("load1"), 100.0); // rank 0's
  EXPECT_EQ(merged.at("round"), 3);
}

// validation_ranks = none: rank 0 alone knows the loss, which is then that of all.
TEST(MergeAnswers, ARankWithoutALossHasNoShareInTheMean) {
  json silent = visit(1, 1, {1, 1}, 0);
  silent.erase("loss");
  const auto loss = [](const std::vector<json>& answers) {
    return merge_answers(answers).at("visits").at(0).value("loss", json());
  };
  const json told = round(visit(100, 90, {40, 60}, 3.5));
  EXPECT_EQ(loss({told, round(silent), round(silent)}), 3.5);
  EXPECT_EQ(loss({told, round(silent), round(visit(1, 1, {1, 1}, 4.5))}), 4.0);
  EXPECT_EQ(loss({round(silent), round(silent)}), json());
}

TEST(MergeAnswers, NamesTheRankWhoseVisitIsAnother) {
  json other = visit(1, 1, {1, 1}, 1);
  other["skipped_steps"] = 1;
  const json whole = round(visit(1, 1, {1, 1}, 1));
  EXPECT_THAT(failure({whole, whole, round(other)}),
              HasSubstr("rank 2 answers skipped_steps '1' where rank 0 answers '0'"));
  other = visit(1, 1, {1}, 1);
  EXPECT_THAT(failure({whole, round(other)}), HasSubstr("rank 1 has 1 values of 'sample_ns'"));
  other = visit(1, 1, {1, 1}, 1);
  other.erase("device_ns");
  EXPECT_THAT(failure({whole, round(other)}), HasSubstr("'device_ns'"));
  EXPECT_THAT(failure({whole, {{"event", "bye"}, {"metrics", json::array()}}}),
              HasSubstr("rank 1 answers event '\"bye\"'"));
}

TEST(MergeAnswers, SumsBytesInUseAndTakesTheLongestBuild) {
  const json merged = merge_answers(
      {{{"event", "built"}, {"build_order", {"a", "b"}}, {"seconds", 1.5}, {"bytes", {10, 20}}},
       {{"event", "built"}, {"build_order", {"a", "b"}}, {"seconds", 2.5}, {"bytes", {11, 21}}}});
  EXPECT_EQ(merged.at("seconds"), 2.5);
  EXPECT_EQ(merged.at("bytes"), json::array({21, 41}));
}

TEST(MergeAnswers, AProbesMemoryIsThatOfTheRankThatNeedsMost) {
  const auto probe = [](int replica, int step) {
    return json{{"event", "probe"}, {"replica_bytes", replica}, {"step_bytes", step}};
  };
  const json merged = merge_answers({probe(10, 7), probe(12, 5)});
  EXPECT_EQ(merged.at("replica_bytes"), 12);
  EXPECT_EQ(merged.at("step_bytes"), 7);
}

TEST(MergeAnswers, RanksThatReadOtherDataAreRefused) {
  const auto built = [](const char* data) {
    return json{{"event", "built"}, {"build_order", {"a"}}, {"data", data}};
  };
  EXPECT_EQ(merge_answers({built("x"), built("x")}).at("data"), "x");
  EXPECT_THAT(failure({built("x"), built("x"), built("y")}),
              HasSubstr("rank 2 reads other data than rank 0 (fingerprints y and x)"));
}

TEST(MergeAnswers, AGatePassesOnEveryRankOrNotAtAll) {
  const auto parity = [](bool passed, double value) {
    return json{{"event", "parity"},
                {"metrics", json::array()},
                {"gates",
                 json::array({{{"variant", 1},
                               {"name", "loss"},
                               {"passed", passed},
                               {"value", value},
                               {"bound", 1e-5},
                               {"detail", passed ? "" : "why"}}})}};
  };
  const auto gate = [](const json& merged) { return merged.at("gates").at(0); };
  EXPECT_EQ(gate(merge_answers({parity(true, 1e-7), parity(true, 3e-7)})).at("value"), 3e-7);
  const json failed = gate(merge_answers({parity(true, 1e-7), parity(false, 1e-3)}));
  EXPECT_EQ(failed.at("passed"), false);
  EXPECT_EQ(failed.at("detail"), "why");
  // A gate can fail with a smaller value than it passes with elsewhere (a count, for instance).
  EXPECT_EQ(gate(merge_answers({parity(false, 0), parity(true, 1)})).at("passed"), false);
}

TEST(MergeAnswers, MetricsGoByTheirUnit) {
  const auto bye = [](json metrics) {
    return json{{"event", "bye"}, {"metrics", std::move(metrics)}};
  };
  const auto metric = [](json variant, const char* path, const char* unit, double value) {
    return json{{"variant", std::move(variant)},
                {"path", path},
                {"unit", unit},
                {"value", value},
                {"detail", ""}};
  };
  const json merged = merge_answers({bye({metric(0, "memory/peak_bytes", "bytes", 5),
                                          metric(0, "ops/add", "calls", 7),
                                          metric(nullptr, "trace/rows", "records", 100),
                                          metric(0, "trace/audit_passed", "bool", 1),
                                          metric(0, "rank/0/step_ns", "ns", 10)}),
                                     bye({metric(0, "memory/peak_bytes", "bytes", 6),
                                          metric(0, "ops/add", "calls", 7),
                                          metric(nullptr, "trace/rows", "records", 50),
                                          metric(0, "trace/audit_passed", "bool", 0),
                                          metric(0, "rank/1/step_ns", "ns", 12)})});
  std::map<std::string, double> values;
  for (const json& m : merged.at("metrics")) values[m.at("path")] = m.at("value");
  EXPECT_EQ(values,
            (std::map<std::string, double>{{"memory/peak_bytes", 6},
                                           {"ops/add", 7},
                                           {"trace/rows", 150},
                                           {"trace/audit_passed", 0},
                                           {"rank/0/step_ns", 10},
                                           {"rank/1/step_ns", 12}}));
}

// Variant 0 peaks on rank 1, variant 1 on rank 0: each with the parts of that rank alone.
TEST(MergeAnswers, MemoryIsThatOfTheRankWithTheHighestPeak) {
  const auto metric = [](int variant, const char* path, double value) {
    return json{
        {"variant", variant}, {"path", path}, {"unit", "bytes"}, {"value", value}, {"detail", ""}};
  };
  const json merged = merge_answers({json{{"event", "memory"},
                                          {"metrics",
                                           {metric(0, "memory/peak_bytes", 5),
                                            metric(0, "memory/at_peak/weights/head", 5),
                                            metric(1, "memory/peak_bytes", 9),
                                            metric(1, "memory/at_peak/weights/head", 9)}}},
                                     json{{"event", "memory"},
                                          {"metrics",
                                           {metric(0, "memory/peak_bytes", 6),
                                            metric(0, "memory/at_peak/weights/embedding", 6),
                                            metric(1, "memory/peak_bytes", 8),
                                            metric(1, "memory/at_peak/weights/embedding", 8)}}}});
  std::map<std::string, double> values;
  for (const json& m : merged.at("metrics"))
    values[fmt::format("{} {}", m.at("variant").get<int>(), m.at("path").get<std::string>())] =
        m.at("value");
  EXPECT_EQ(values,
            (std::map<std::string, double>{{"0 memory/peak_bytes", 6},
                                           {"0 memory/at_peak/weights/embedding", 6},
                                           {"1 memory/peak_bytes", 9},
                                           {"1 memory/at_peak/weights/head", 9}}));
}

} // namespace merge_answers_test
} // namespace assay::worker
