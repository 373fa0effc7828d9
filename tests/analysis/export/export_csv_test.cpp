#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <sstream>

#include "core/files/csv_text.h"
#include "core/files/json_text.h"
#include "core/result.h"
#include "experiments/export/export_csv.h"
#include "tests/analysis/export/export_fixture.h"

namespace assay::test {
namespace export_csv_test {

using testing::HasSubstr;

std::vector<std::string> lines(const std::string& path) {
  std::istringstream in(read_file(path));
  std::vector<std::string> result;
  for (std::string line; std::getline(in, line);) {
    EXPECT_EQ(line.back(), '\r') << line;
    result.push_back(line.substr(0, line.size() - 1));
  }
  return result;
}

TEST(ExportCsv, WritesATableAFile) {
  test::Scratch dir;
  const std::string a = ugly_trace(dir / "a.sqlite", "mask,dense"),
                    b = ugly_trace(dir / "b.sqlite", "b");
  const ExportSummary summary = export_csv({a, b}, StepWindow{1, 1}, dir / "new/out");
  const auto steps = lines(dir / "new/out/steps.csv");
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_EQ(steps[1], "\"mask,dense\",1,1,0,1,60000,70000,10000,64");
  EXPECT_EQ(steps[2], "b,1,1,0,1,60000,70000,10000,64");
  const auto device = lines(dir / "new/out/device.csv");
  ASSERT_EQ(device.size(), 3u);
  EXPECT_EQ(device[2],
            "b,kernel,outlives its step,62000,90000,28000,0,1,7,18,40,16,1024,10,20,30,256,2,1,");
  const auto telemetry = lines(dir / "new/out/telemetry.csv");
  ASSERT_EQ(telemetry.size(), 5u); // a sample and the refused series, twice
  EXPECT_THAT(telemetry, testing::Contains("b,Power [W],NVML,ok,65000,310"));
  EXPECT_THAT(telemetry, testing::Contains("b,Energy [J],NVML,not permitted: no rights,,"));
  EXPECT_EQ(summary.steps, 2);
}

TEST(ExportCsv, StagesTileTheStepWithoutHoles) {
  test::Scratch dir;
  const std::string a = ugly_trace(dir / "a.sqlite", "a");
  export_csv({a}, {}, dir / "out");
  const auto stages = lines(dir / "out/stages.csv");
  std::map<std::string, std::int64_t> end_of; // by step
  std::size_t rows = 0;
  for (std::size_t i = 1; i < stages.size(); ++i, ++rows) {
    std::vector<std::string> field;
    std::istringstream in(stages[i]);
    for (std::string one; std::getline(in, one, ',');) field.push_back(one);
    const std::int64_t start = std::stoll(field[6]), end = std::stoll(field[7]);
    if (end_of.count(field[1]) != 0) {
      EXPECT_EQ(start, end_of[field[1]]);
    }
    EXPECT_EQ(end - start, std::stoll(field[8]));
    end_of[field[1]] = end;
  }
  EXPECT_EQ(end_of.size(), 2u);
  EXPECT_GT(rows, 4u);
}

TEST(ExportCsv, RefusesAFileWhereTheDirectoryShouldBe) {
  test::Scratch dir;
  const std::string a = ugly_trace(dir / "a.sqlite", "a");
  std::ofstream(dir / "taken") << "x";
  try {
    export_csv({a}, {}, dir / "taken");
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_THAT(failure.what(), HasSubstr("taken"));
  }
}

TEST(CsvText, QuotesWhatNeedsIt) {
  EXPECT_EQ(csv_field("plain"), "plain");
  EXPECT_EQ(csv_field("a,b"), "\"a,b\"");
  EXPECT_EQ(csv_field("say \"hi\""), "\"say \"\"hi\"\"\"");
  EXPECT_EQ(csv_field("two\nlines"), "\"two\nlines\"");
  EXPECT_EQ(csv_field("=cmd(1)"), "'=cmd(1)");
  EXPECT_EQ(csv_field("@SUM(1,2)"), "\"'@SUM(1,2)\"");
  EXPECT_EQ(csv_field("\t+1+1"), "'\t+1+1");
  EXPECT_EQ(csv_field("-1.5e-9"), "-1.5e-9");
  EXPECT_EQ(csv_field("-1+cmd"), "'-1+cmd");
  EXPECT_EQ(csv_field("-"), "-");
}

std::string microseconds(std::int64_t ns) {
  std::string text;
  append_microseconds(text, ns);
  return text;
}

TEST(JsonText, MicrosecondsHaveThreeDecimals) {
  EXPECT_EQ(microseconds(0), "0.000");
  EXPECT_EQ(microseconds(7), "0.007");
  EXPECT_EQ(microseconds(1'234'567), "1234.567");
  EXPECT_EQ(microseconds(-1'005), "-1.005");
  EXPECT_EQ(microseconds(std::numeric_limits<std::int64_t>::min()), "-9223372036854775.808");
  EXPECT_EQ(microseconds(std::numeric_limits<std::int64_t>::max()), "9223372036854775.807");
}

TEST(JsonText, NumbersThatAreNoneBecomeNull) {
  std::string text;
  append_number(text, 0.1);
  text += ' ';
  append_number(text, std::numeric_limits<double>::infinity());
  EXPECT_EQ(text, "0.1 null");
}

TEST(JsonText, EveryByteStringBecomesValidJson) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  const auto parsed = nlohmann::json::parse("\"" + escape_json(all) + "\"").get<std::string>();
  EXPECT_EQ(parsed.substr(0, 128), all.substr(0, 128)); // ASCII comes back, control bytes included
  EXPECT_EQ(escape_json("\"\\\n"), "\\\"\\\\\\u000a");
}

} // namespace export_csv_test
} // namespace assay::test
