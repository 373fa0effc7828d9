// What tests of the ledger share: a small plan, rows for it, and a directory of their own.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "core/ledger/ledger.h"
#include "core/ledger/storage/plan_json.h"
#include "tests/scratch.h"

namespace assay {

inline LedgerData small_plan() {
  LedgerData plan;
  plan.spec = {"",
               "small",
               0xffff'ffff'ffff'fff0u,
               "version = 1",
               "{}",
               "assay run",
               "2026-01-01T00:00:00Z",
               5,
               0.05,
               0.01,
               0.8,
               {0.06, 0.25, 0.3},
               "/where it ran"};
  plan.optimizations = {{"opt",
                         "summary",
                         "bitwise",
                         "train_step",
                         "visit",
                         "equal",
                         {{"a", "slow", "span/a"}, {"b", "fast", ""}},
                         {{"a", "b"}},
                         "ladder",
                         {{"a x b", "interaction", {{"a", "b", -1}, {"b", "a", 1}}},
                          {"b", "main_effect", {{"a", "b", 0.5}}}}}};
  plan.claims = {{"c1",
                  "opt",
                  "a",
                  "b",
                  "« texte »",
                  "document",
                  "throughput",
                  0.1,
                  0.15,
                  "on a GPU",
                  "",
                  "{}",
                  "forward,backward",
                  {"one", "two"}}};
  CellRow cell;
  cell.id = 1;
  cell.name = "cell";
  cell.optimization = "opt";
  cell.unit = "train_step";
  cell.config_json = "{}";
  cell.rounds = 4;
  cell.launches = 3;
  cell.traced_rounds = 4;
  cell.loss_seeds = 5;
  cell.loss_rounds = 50;
  cell.loss_steps = 10;
  cell.loss_margin = 0.02;
  plan.cells = {cell};
  plan.variants = {{1, 1, "a", "a", Role::Reference, "{}"},
                   {2, 1, "b", "b", Role::Level, "{}"},
                   {3, 1, "control", "a", Role::Control, "{}"}};
  plan.costs = {
      {1, 128, true, {{"mm", 3e9, 4e6, 7, Peak::Fp8}, {"norm", 0, 2e6, 1, Peak::Compute}}},
      {2, 128, false, {}}};
  plan.notes = {{"cell", "split into 2 groups"}, {"", "no cell tests claim 'c2'"}};
  seal_plan(plan);
  return plan;
}

inline VisitRow visit(std::int64_t launch, std::int64_t variant, int round) {
  VisitRow row;
  row.launch = launch;
  row.variant = variant;
  row.round = round;
  row.steps = 2;
  row.wall_ns = 1000 + round;
  row.tokens = 64;
  row.sample_ns = {500, 500 + round};
  return row;
}

inline LaunchRow timed_launch(int index = 1) {
  LaunchRow row;
  row.cell = 1;
  row.kind = LaunchKind::Timed;
  row.index = index;
  row.rounds_planned = 4;
  row.started_utc = "2026-01-01T00:00:00Z";
  return row;
}

inline CalibrationRow calibration(const std::string& host, const std::string& utc) {
  CalibrationRow row;
  row.utc = utc;
  row.build = "b1d0";
  row.host = host;
  row.cpu = "cpu";
  row.cores = 2;
  row.gpu = "H200";
  row.device = "cuda";
  row.cell = "varlen";
  row.preset = "small";
  row.precision = "bf16";
  row.unit_ns = 1.5e6;
  row.launches = 6;
  row.aa = {0.001, -0.002, 0.004, "OK", "NO_EFFECT"};
  row.planted_share = 0.02;
  row.planted_truth = 0.0198;
  row.planted = {0.02, 0.017, 0.023, "OK", "SLOWER"};
  return row;
}

inline std::string failure_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Failure& failure) {
    return failure.what();
  }
  return "";
}

class LedgerTest : public testing::Test {
protected:
  std::unique_ptr<Ledger> open() const { return Ledger::open(directory_, small_plan()); }
  std::string file() const { return directory_ + "/ledger.sqlite"; }
  std::string error() const {
    const Result<LedgerData> data = read_ledger(directory_);
    return data ? "" : data.error().message;
  }
  test::Scratch scratch_;
  std::string directory_ = scratch_ / "r";
};

} // namespace assay
