#include "app/assay/output/run_progress.h"

#include <gtest/gtest.h>

#include "experiments/report/text_layout.h"

namespace assay::cli {
namespace run_progress_test {

RunProgress progress() {
  RunProgress p;
  p.launch_number = 12;
  p.launches = 40;
  p.cell = "varlen";
  p.task = {1, LaunchKind::Timed, 3, 0};
  p.round = 7;
  p.rounds = 40;
  p.eta_seconds = 83;
  return p;
}

TEST(ProgressText, HasEverythingWhereThereIsRoom) {
  EXPECT_EQ(progress_text(progress(), 79),
            "[=====               ] 12/40  varlen timed launch 3  round 7/40  ETA 1m 23s");
}

TEST(ProgressText, PartsGoAsAWhole) {
  RunProgress p = progress();
  p.cell = "design_card/bf16_guard/group1";
  EXPECT_EQ(progress_text(p, 79),
            "12/40  design_card/bf16_guard/group1 timed launch 3  round 7/40  ETA 1m 23s");
  EXPECT_EQ(progress_text(p, 60), "12/40  design_card/.. timed launch 3  round 7/40  ETA 1m 23s");
  EXPECT_EQ(progress_text(p, 50), "12/40  design.. timed launch 3  round 7/40");
  EXPECT_EQ(progress_text(p, 35), "12/40  design.. timed launch 3");
}

TEST(ProgressText, IsNeverWiderAndNeverCutsAUnit) {
  RunProgress p = progress();
  for (const char* cell : {"a", "varlen", "a_very_long_name_of_a_cell/with/groups_and_more"})
    for (const double seconds : {0.854, 4.56, 83.0, 5000.0}) {
      p.cell = cell;
      p.eta_seconds = seconds;
      const std::string whole = progress_text(p, 500);
      const std::size_t eta = whole.find("ETA");
      for (std::size_t columns = 20; columns < 100; ++columns) {
        const std::string text = progress_text(p, columns);
        EXPECT_LE(display_width(text), columns) << text;
        const std::size_t at = text.find("ETA");
        EXPECT_EQ(at == std::string::npos ? "" : text.substr(at),
                  at == std::string::npos ? "" : whole.substr(eta));
      }
    }
}

TEST(ProgressLine, InAPipeEachAttemptAtALaunchHasALine) {
  testing::internal::CaptureStderr();
  RunProgressLine line(/*quiet=*/false);
  RunProgress p = progress();
  for (const int attempt : {0, 0, 1, 1}) {
    p.task.attempt = attempt;
    line.show(p);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "12/40  varlen timed launch 3  round 7/40  ETA 1m 23s\n"
            "12/40  varlen timed launch 3 (attempt 2)  round 7/40  ETA 1m 23s\n");
}

TEST(ProgressText, OfAWaitTheLaunchGoesFirstThenTheCause) {
  RunProgress p = progress();
  p.cell = "update_pass";
  p.waiting = WaitProgress{"threads wait 12 % of the time for a core", 11, 300};
  const std::string whole =
      "waiting for a quiet machine: threads wait 12 % of the time for a core (11.0 s of 5m 00s)";
  EXPECT_EQ(progress_text(p, 140), whole + ", before update_pass timed launch 3");
  EXPECT_EQ(progress_text(p, 100), whole);
  EXPECT_EQ(progress_text(p, 79), "waiting for a quiet machine (11.0 s of 5m 00s)");
  EXPECT_EQ(progress_text(p, 30), "waiting for a quiet machine");
}

TEST(ProgressText, LessThanASecondIsNotSaid) {
  RunProgress p = progress();
  p.eta_seconds = 0.854;
  EXPECT_EQ(progress_text(p, 79),
            "[=====               ] 12/40  varlen timed launch 3  round 7/40");
}

} // namespace run_progress_test
} // namespace assay::cli
