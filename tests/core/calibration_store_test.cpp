#include "core/ledger/calibration_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "core/ledger/calibration.h"
#include "tests/core/ledger_support.h"
#include "tests/names.h"

namespace assay {
namespace calibration_store_test {

class CalibrationStoreTest : public testing::Test {
protected:
  std::vector<CalibrationRow> rows() const { return value_or_throw(read_calibration_store(file_)); }
  std::string text() const {
    std::ifstream in(file_);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  test::Scratch scratch_;
  std::string file_ = scratch_ / "data/assay/calibration.json"; // its folders are made
};

const std::string kJanuary = "2026-01-01T00:00:00Z", kFebruary = "2026-02-01T00:00:00Z",
                  kMarch = "2026-03-01T00:00:00Z";

TEST_F(CalibrationStoreTest, HasTheNewestRowOfEachMachineAndDevice) {
  EXPECT_TRUE(rows().empty()) << "no file is no calibration";
  store_calibration(file_, calibration("a", kJanuary));
  store_calibration(file_, calibration("b", kJanuary));
  store_calibration(file_, calibration("a", kMarch));
  store_calibration(file_, calibration("a", kFebruary)); // measured before, stored again
  CalibrationRow on_cpu = calibration("a", kJanuary);
  on_cpu.device = "cpu";
  store_calibration(file_, on_cpu);
  ASSERT_EQ(rows().size(), 3u);
  EXPECT_EQ(rows()[0].host, "a");
  EXPECT_EQ(rows()[0].utc, kMarch);
  EXPECT_EQ(rows()[0].cores, 2);
  EXPECT_EQ(rows()[0].planted.high, 0.023);
  EXPECT_EQ(rows()[1].host, "b");
  EXPECT_EQ(rows()[2].device, "cpu");
}

TEST_F(CalibrationStoreTest, AFileThatCannotBeReadIsNamedAndStays) {
  std::filesystem::create_directories(std::filesystem::path(file_).parent_path());
  for (const std::string& damage : {std::string("{"),
                                    std::string("[]"),
                                    std::string(R"({"schema_version":1,"calibrations":[{}]})"),
                                    std::string(R"({"schema_version":2,"calibrations":[]})")}) {
    std::ofstream(file_) << damage;
    const Result<std::vector<CalibrationRow>> read = read_calibration_store(file_);
    ASSERT_FALSE(read) << damage;
    EXPECT_THAT(read.error().message, test::names(file_, "move"));
    EXPECT_EQ(failure_of([&] { store_calibration(file_, calibration("a", kJanuary)); }),
              read.error().message);
    EXPECT_EQ(text(), damage);
  }
}

TEST_F(CalibrationStoreTest, LiesInTheHomeOfData) {
  const char* const before = std::getenv("XDG_DATA_HOME");
  const std::string kept = before == nullptr ? "" : before;
  ::setenv("XDG_DATA_HOME", "/data", 1);
  EXPECT_EQ(calibration_store_path(), "/data/assay/calibration.json");
  ::unsetenv("XDG_DATA_HOME");
  const char* const home = std::getenv("HOME");
  EXPECT_EQ(calibration_store_path(),
            home == nullptr ? "" : std::string(home) + "/.local/share/assay/calibration.json");
  if (before != nullptr) ::setenv("XDG_DATA_HOME", kept.c_str(), 1);
}

} // namespace calibration_store_test
} // namespace assay
