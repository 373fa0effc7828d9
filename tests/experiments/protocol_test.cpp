#include "core/protocol/protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace assay {
namespace {

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
  EXPECT_THAT(error({{"visits", {visit(0, 0), visit(1, 1)}}}, {1, 0}),
              HasSubstr("which was not asked"));
  EXPECT_THAT(error({{"visits", {visit(0, 0)}}}, {0, 1}), HasSubstr("1 of 2 visits"));
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

TEST(Protocol, AnotherVersionIsRefused) {
  EXPECT_THAT(parse_hello({{"event", "hello"}, {"protocol", 4}}).error().message,
              HasSubstr("the worker speaks protocol 4, this engine 3"));
}

} // namespace
} // namespace assay
