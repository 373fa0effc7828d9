#include "core/protocol/protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/protocol/visit_json.h"
#include "tests/names.h"

namespace assay {
namespace protocol_test {

using nlohmann::json;
using testing::HasSubstr;

const std::vector<LaunchVariant> kVariants{{11, "a", "a", Role::Reference, "{}"},
                                           {12, "b", "b", Role::Level, "{}"}};

json visit(int variant, int position) {
  return {{"variant", variant},
          {"position", position},
          {"steps", 1},
          {"wall_ns", 100},
          {"tokens", 5},
          {"skipped_steps", 0},
          {"sample_ns", {100}}};
}

TEST(Protocol, LaunchRequest) {
  LaunchRequest launch{.kind = "timed",
                       .seed = 3,
                       .unit = "train_step",
                       .optimization = "varlen",
                       .visit_steps = 5,
                       .discard_steps = 1,
                       .variants = {{7, "x", "y", Role::Control, R"({"lr":1.0})"}},
                       .results_directory = "r",
                       .launch = 12,
                       .cell = "v"};
  const json request = launch_request(launch);
  launch.kind = "traced";
  EXPECT_EQ(launch_request(launch).at("trace"),
            json({{"directory", "r"}, {"launch", 12}, {"cell", "v"}}));
  EXPECT_EQ(
      request,
      json::parse(
          R"({"op":"launch","kind":"timed","seed":3,"unit":"train_step","optimization":"varlen","visit_steps":5,
      "discard_steps":1,"variants":[{"name":"x","level":"y","role":"control","config":{"lr":1.0}}]})"));
}

TEST(Protocol, RoundFillsLedgerIdsAndLeavesUnknownsAbsent) {
  json event = {{"visits", {visit(1, 0), visit(0, 1)}}};
  event["visits"][0]["loss"] = 2.5;
  event["visits"][0]["covariates"] = {
      {"steal_share", 0.25}, {"throttle_reasons", 4}, {"load1", nullptr}};
  const auto rows = value_or_throw(parse_round(event, 5, 9, {1, 0}, kVariants));
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].variant, 12);
  EXPECT_EQ(rows[1].variant, 11);
  EXPECT_EQ(rows[0].launch, 5);
  EXPECT_EQ(rows[0].round, 9);
  EXPECT_EQ(rows[0].loss, 2.5);
  EXPECT_EQ(rows[1].loss, std::nullopt);
  EXPECT_EQ(rows[0].covariates.steal_share, 0.25);
  EXPECT_EQ(rows[0].covariates.throttle_reasons, 4);
  EXPECT_EQ(rows[0].covariates.load1, std::nullopt);
  EXPECT_EQ(rows[1].covariates.steal_share, std::nullopt);
}

TEST(Protocol, ARoundThatWasNotAskedForIsRefused) {
  const auto error = [](const json& event, const std::vector<std::size_t>& order) {
    const auto rows = parse_round(event, 1, 0, order, kVariants);
    return rows ? std::string() : rows.error().message;
  };
  EXPECT_THAT(error({{"visits", {visit(0, 0), visit(1, 1)}}}, {1, 0}), HasSubstr("not asked"));
  EXPECT_THAT(error({{"visits", {visit(0, 0)}}}, {0, 1}), HasSubstr("1 of 2"));
  EXPECT_THAT(error({{"visits", {visit(0, 0), visit(0, 0)}}}, {0, 1}), HasSubstr("not asked"));
  EXPECT_THAT(error({{"visits", {visit(0, 7)}}}, {0}), HasSubstr("not asked"));
  EXPECT_THAT(error({{"visit", 1}}, {0}), HasSubstr("breaks the protocol"));
  json zero = visit(0, 0);
  zero["wall_ns"] = 0;
  EXPECT_THAT(error({{"visits", {zero}}}, {0}), HasSubstr("0 ns"));
}

TEST(Protocol, GatesAndMetrics) {
  const auto gates = value_or_throw(parse_gates(
      {{"gates",
        {{{"variant", 1}, {"name", "g"}, {"passed", false}, {"value", nullptr}, {"bound", 0.5}}}}},
      3,
      kVariants));
  ASSERT_EQ(gates.size(), 1u);
  EXPECT_EQ(gates[0].variant, 12);
  EXPECT_TRUE(std::isnan(gates[0].value));
  const auto metrics = value_or_throw(parse_metrics(
      {{"metrics", {{{"variant", nullptr}, {"path", "p"}, {"unit", "ns"}, {"value", 2}}}}},
      3,
      kVariants));
  EXPECT_EQ(metrics.at(0).variant, 0);
  EXPECT_FALSE(
      parse_metrics({{"metrics", {{{"variant", 2}, {"path", "p"}, {"unit", "ns"}, {"value", 2}}}}},
                    3,
                    kVariants));
}

TEST(Protocol, AVisitSurvivesTheWire) {
  VisitRow row;
  row.position = 1;
  row.steps = 2;
  row.wall_ns = 5;
  row.device_ns = 4;
  row.tokens = 6;
  row.loss = 0.5;
  row.skipped_steps = 1;
  row.sample_ns = {2, 3};
  row.covariates = {0.1, 0.2, 0.3, 4, 5, 6.0, 7.0, 8.0, 9.0, 10, 11, 12.0};
  const json sent = visit_to_json(1, row);
  EXPECT_EQ(sent.at("variant"), 1);
  EXPECT_EQ(sent.at("covariates").size(), 12u);
  const VisitRow read = visit_from_json(sent);
  EXPECT_EQ(visit_to_json(1, read), sent);
  EXPECT_EQ(read.device_ns, 4);
  EXPECT_EQ(read.covariates.foreign_processes, 11);
  row.device_ns.reset();
  row.covariates = {};
  EXPECT_FALSE(visit_to_json(1, row).contains("device_ns"));
  EXPECT_EQ(visit_to_json(1, row).at("covariates"), json::object());
}

TEST(Protocol, ARetirementNamesItsCause) {
  const Retirement retired = value_or_throw(parse_retired(
      {{"event", "retired"}, {"variant", 2}, {"cause", "memory"}, {"reason", "12 GiB"}}));
  EXPECT_EQ(retired.variant, 2u);
  EXPECT_EQ(retired.cause, kCauseMemory);
  EXPECT_EQ(retired.reason, "12 GiB");
  EXPECT_FALSE(parse_retired({{"event", "retired"}, {"variant", 2}}));
  EXPECT_FALSE(parse_retired({{"variant", 2}, {"cause", "mood"}}));
}

TEST(Protocol, AnotherVersionIsRefused) {
  EXPECT_THAT(parse_hello({{"event", "hello"}, {"protocol", 3}}).error().message,
              test::names("protocol 3", "engine 4"));
}

} // namespace protocol_test
} // namespace assay
