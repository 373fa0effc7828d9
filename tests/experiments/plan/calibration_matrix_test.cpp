// The matrix that `assay calibrate` makes of a cell.
#include "experiments/plan/calibration_matrix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/files/json_difference.h"
#include "core/ledger/stored_config.h"
#include "tests/experiments/plan/plan_fixture.h"
#include "tests/names.h"

namespace assay::test {
namespace calibration_matrix_test {

using testing::UnorderedElementsAre;

class CalibrationMatrixTest : public PlanTest {
protected:
  CalibrationMatrixTest() {
    results_.spec.limits = {0.9, 0.8, 0.7};
    cell_.rounds = 50;
    cell_.visit_steps = 3;
    cell_.discard_steps = 1;
  }
  Plan made() const {
    return value_or_throw(
        make_plan(value_or_throw(parse_matrix(calibration_matrix(results_, cell_), "m.toml")), {}));
  }
  LedgerData results_ = small_plan(scratch_).ledger;
  CellRow cell_ = results_.cells.at(1); // a level of it sets a key, its reference does not
};

TEST_F(CalibrationMatrixTest, PlantsNothingAndTwoPercentInTheReferenceOfTheCell) {
  const LedgerData plan = made().ledger;
  ASSERT_EQ(plan.cells.size(), 2u);
  EXPECT_EQ(plan.cells[0].name, "aa");
  EXPECT_EQ(plan.cells[1].name, "planted");
  EXPECT_EQ(plan.spec.name, "guard");
  EXPECT_EQ(plan.spec.seed, results_.spec.seed + 1'000'000);
  EXPECT_EQ(plan.spec.limits.steal, 0.9);
  EXPECT_EQ(plan.spec.limits.pairs, 0.7);
  EXPECT_TRUE(plan.claims.empty());
  for (const CellRow& cell : plan.cells) {
    EXPECT_EQ(cell.launches, 6);
    EXPECT_EQ(cell.rounds, 50);
    EXPECT_EQ(cell.visit_steps, 3);
    EXPECT_EQ(cell.discard_steps, 1);
    EXPECT_EQ(cell.traced_rounds, 0);
    EXPECT_EQ(cell.loss_seeds, 0);
    EXPECT_EQ(differing_keys(stored_config(cell.config_json), stored_config(cell_.config_json)),
              std::set<std::string>{"seed"});
  }
  std::map<std::string, double> spins;
  for (const VariantRow& variant : plan.variants)
    spins[variant.name] = stored_config(variant.config_json).at("planted_spin").get<double>();
  EXPECT_THAT(spins,
              UnorderedElementsAre(std::pair("off", 0.0),
                                   std::pair("spin0", 1e-9),
                                   std::pair("spin2", 0.02),
                                   std::pair("control", 0.0)));
}

// A captured step cannot wait, and a wait settles after some steps.
TEST_F(CalibrationMatrixTest, TheStepIsNoGraphAndLongEnough) {
  nlohmann::json config = stored_config(cell_.config_json);
  config["step_graph"] = "on";
  cell_.config_json = config.dump();
  cell_.rounds = 4;
  const LedgerData plan = made().ledger;
  EXPECT_EQ(stored_config(plan.cells[0].config_json).at("step_graph"), "off");
  EXPECT_EQ(plan.cells[0].rounds, 14); // of 3 steps
}

TEST_F(CalibrationMatrixTest, ResultsThatNothingCanTrainAreRefused) {
  cell_.config_json = R"({"device":"cpu"})";
  EXPECT_THAT(failure_of([&] { (void)calibration_matrix(results_, cell_); }),
              names("small", "`seed`"));
}

} // namespace calibration_matrix_test
} // namespace assay::test
