// The GPU's collector on canned CUPTI buffers: what is fine arrives, and every fault of the field
// shows in the audit (docs/collectors.md).
#include "profilers/cupti/cupti_collector.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "core/trace/kernel_name.h"
#include "core/trace/trace_file.h"
#include "profilers/cupti/cupti_decode.h"
#include "tests/profilers/fake_cupti.h"
#include "tests/scratch.h"

namespace assay {
namespace cupti_collector_test {

using test::FakeCupti;
using test::kernel;
using test::launch;

class CuptiTest : public testing::Test {
protected:
  CuptiTest() {
    test::fake = &cupti_;
    options_.paths = {scratch_ / "a.sqlite"};
    options_.cuda = true;
    options_.collect.telemetry = false;
    options_.open_device = [this] {
      return make_cupti_collector(cupti_.api(), options_.collect, options_.memory_limit_bytes);
    };
  }
  ~CuptiTest() override {
    session_.reset();
    test::fake = nullptr;
  }

  template <class... Records> void queue(const Records&... records) {
    cupti_.queued.push_back({{FakeCupti::record(records)...}, false});
  }
  // One visit of one step; the queued buffers come at its end.
  Trace traced() {
    session_ = value_or_throw(TraceSession::start(options_));
    session_->begin_visit(0, 0, false);
    const std::int64_t start = trace_now();
    session_->begin("step");
    session_->end("step");
    session_->step(start, trace_now(), true, 8);
    session_->end_visit();
    (void)value_or_throw(session_->finish());
    return value_or_throw(read_trace(options_.paths[0]));
  }
  static const AuditRow& check(const Trace& trace, const std::string& name) {
    for (const AuditRow& row : trace.audit)
      if (row.check == name) return row;
    throw std::runtime_error("no audit row " + name);
  }

  test::Scratch scratch_;
  FakeCupti cupti_;
  TraceOptions options_;
  std::unique_ptr<TraceSession> session_;
  std::int64_t now_ = trace_now();
};

TEST_F(CuptiTest, KernelsAndTheirLaunchesArrive) {
  queue(launch(now_, now_ + 100, 5), kernel(now_ + 200, now_ + 900, 5));
  const Trace trace = traced();
  ASSERT_EQ(trace.device.size(), 1u);
  EXPECT_EQ(trace.device[0].end - trace.device[0].start, 700);
  EXPECT_EQ(trace.name(trace.device[0].name), "void gemm<float>(float*)");
  ASSERT_EQ(trace.api.size(), 1u);
  EXPECT_EQ(trace.name(trace.api[0].name), "cudaLaunchKernel");
  EXPECT_EQ(trace.api[0].correlation, trace.device[0].correlation);
  for (const AuditRow& row : trace.audit)
    EXPECT_TRUE(row.passed || row.check == "step_coverage") << row.check;
  EXPECT_TRUE(cupti_.enabled.empty()); // nothing stays on
  session_.reset();
  EXPECT_EQ(cupti_.finalized, 1);
}

TEST_F(CuptiTest, TheLaunchMayComeInALaterBuffer) {
  queue(kernel(now_ + 200, now_ + 900, 5));
  queue(launch(now_, now_ + 100, 5));
  EXPECT_EQ(check(traced(), "unmatched_correlation").value, 0);
}

TEST_F(CuptiTest, OutOfOrderRecordsAreCountedAndSorted) {
  queue(launch(now_, now_ + 10, 1),
        launch(now_ + 20, now_ + 30, 2),
        kernel(now_ + 500, now_ + 600, 2),
        kernel(now_ + 100, now_ + 200, 1));
  const Trace trace = traced();
  EXPECT_EQ(check(trace, "out_of_order").value, 1);
  EXPECT_LT(trace.device[0].start, trace.device[1].start);
}

TEST_F(CuptiTest, LostTimestampsFailTheAudit) {
  queue(launch(now_, now_ + 10, 1), kernel(0, 0, 1));
  const Trace trace = traced();
  EXPECT_EQ(check(trace, "timestamp_zero").value, 1);
  EXPECT_FALSE(check(trace, "timestamp_zero").passed);
}

TEST_F(CuptiTest, EndBeforeStartFailsTheAudit) {
  queue(launch(now_, now_ + 10, 1), kernel(now_ + 500, now_ + 400, 1));
  EXPECT_FALSE(check(traced(), "end_before_start").passed);
}

TEST_F(CuptiTest, DroppedRecordsFailTheAudit) {
  queue(launch(now_, now_ + 10, 1), kernel(now_ + 100, now_ + 200, 1));
  cupti_.dropped = 17;
  const Trace trace = traced();
  EXPECT_EQ(check(trace, "lost_records").value, 17);
  EXPECT_FALSE(check(trace, "lost_records").passed);
}

TEST_F(CuptiTest, AnUnknownShapeLosesOnlyTheRestOfItsBuffer) {
  queue(launch(now_, now_ + 10, 1), kernel(now_ + 100, now_ + 200, 1));
  cupti_.queued.back().invalid_tail = true;
  queue(launch(now_ + 20, now_ + 30, 2), kernel(now_ + 300, now_ + 400, 2));
  const Trace trace = traced();
  EXPECT_EQ(check(trace, "invalid_records").value, 1);
  EXPECT_FALSE(check(trace, "invalid_records").passed);
  EXPECT_EQ(trace.device.size(), 2u);
}

TEST_F(CuptiTest, ReusedIdsAndOverlapAreReported) {
  queue(launch(now_, now_ + 10, 1),
        kernel(now_ + 100, now_ + 300, 1),
        kernel(now_ + 200, now_ + 400, 1));
  const Trace trace = traced();
  EXPECT_EQ(check(trace, "duplicate_correlation").value, 1);
  EXPECT_EQ(check(trace, "overlapping_kernels").value, 1);
}

TEST_F(CuptiTest, AKernelBeforeItsLaunchFailsTheAudit) {
  queue(launch(now_ + 50'000, now_ + 60'000, 1), kernel(now_, now_ + 100, 1));
  EXPECT_FALSE(check(traced(), "launch_after_kernel").passed);
}

TEST_F(CuptiTest, WorkOfUnrecordedCallsIsPlacedByTheirOrder) {
  queue(kernel(now_, now_ + 10, 3),
        launch(now_ + 20, now_ + 30, 5),
        kernel(now_ + 100, now_ + 200, 5),
        kernel(now_ + 300, now_ + 400, 6));
  const Trace trace = traced();
  EXPECT_EQ(check(trace, "unmatched_correlation").value, 1); // id 3: before every recorded call
  EXPECT_FALSE(check(trace, "unmatched_correlation").passed);
  EXPECT_EQ(check(trace, "placed_by_order").value, 1); // id 6
}

TEST_F(CuptiTest, HugeAndBrokenNamesAreAlteredAndCounted) {
  const std::string huge(1 << 20, 'x'), broken = "kernel\xff\xfe";
  queue(launch(now_, now_ + 10, 1),
        kernel(now_ + 100, now_ + 200, 1, huge.c_str()),
        launch(now_ + 20, now_ + 30, 2),
        kernel(now_ + 300, now_ + 400, 2, broken.c_str()));
  const Trace trace = traced();
  EXPECT_EQ(check(trace, "altered_names").value, 2);
  EXPECT_LE(trace.name(trace.device[0].name).size(), 65536u);
}

TEST_F(CuptiTest, BuffersBeyondTheLimitAreDroppedAndCounted) {
  options_.memory_limit_bytes = 4096; // one of the fake's buffers
  for (std::uint32_t i = 1; i <= 50; ++i)
    queue(launch(now_ + i, now_ + i, i), kernel(now_ + 100 * i, now_ + 100 * i + 50, i));
  const Trace trace = traced();
  EXPECT_FALSE(check(trace, "dropped_buffers").passed);
  EXPECT_EQ(static_cast<double>(trace.device.size()) + check(trace, "dropped_buffers").value, 50);
}

TEST_F(CuptiTest, AClockApartFailsTheAudit) {
  queue(launch(now_, now_ + 10, 1), kernel(now_ + 100, now_ + 200, 1));
  cupti_.clock_offset_ns = 10'000'000;
  EXPECT_FALSE(check(traced(), "clock_fit").passed);
}

TEST_F(CuptiTest, NothingFromTheGpuFailsTheAudit) {
  EXPECT_FALSE(check(traced(), "device_rows").passed);
}

TEST_F(CuptiTest, ASecondCollectorIsRefused) {
  session_ = value_or_throw(TraceSession::start(options_));
  EXPECT_NE(make_cupti_collector(cupti_.api(), options_.collect, 1).error().message.find("already"),
            std::string::npos);
  EXPECT_EQ(cupti_.finalized, 0); // the first one goes on
  queue(launch(now_, now_ + 100, 5), kernel(now_ + 200, now_ + 900, 5));
  session_->begin_visit(0, 0, false);
  session_->end_visit();
  (void)value_or_throw(session_->finish());
  EXPECT_EQ(value_or_throw(read_trace(options_.paths[0])).device.size(), 1U);
}

TEST_F(CuptiTest, WhatCuptiRefusesToRecordFailsTheAudit) {
  cupti_.refused_kind = CUPTI_ACTIVITY_KIND_MEMSET;
  queue(launch(now_, now_ + 100, 5), kernel(now_ + 200, now_ + 900, 5));
  const Trace trace = traced();
  const AuditRow& row = check(trace, "refused_calls");
  EXPECT_FALSE(row.passed);
  EXPECT_NE(row.detail.find("enabling activity kind 2: fake error"), std::string::npos)
      << row.detail;
}

TEST_F(CuptiTest, TheLibrarysVersionIsInTheTrace) {
  queue(launch(now_, now_ + 100, 5), kernel(now_ + 200, now_ + 900, 5));
  EXPECT_EQ(traced().value("cupti_version"), std::to_string(CUPTI_API_VERSION));
}

TEST_F(CuptiTest, AClockThatIsSetDuringAVisitFailsTheAudit) {
  options_.clock_offset = [offset = std::int64_t{0}]() mutable { return offset += 3'000'000'000; };
  queue(launch(now_, now_ + 100, 5), kernel(now_ + 200, now_ + 900, 5));
  const Trace trace = traced();
  EXPECT_FALSE(check(trace, "clock_steps").passed);
  EXPECT_NE(check(trace, "clock_steps").detail.find("by up to 3000000000 ns"), std::string::npos);
}

TEST(CuptiNames, AreShortenedWithoutTemplatesAndNamespaces) {
  EXPECT_EQ(demangled_name("_Z4gemmIfEvPT_"), "void gemm<float>(float*)");
  EXPECT_EQ(short_kernel_name("void at::native::(anonymous namespace)::f<a::b<1>, 2>(int)"), "f");
  EXPECT_EQ(short_kernel_name("plain_kernel"), "plain_kernel");
}

TEST(CuptiApi, AMissingLibraryIsNamed) {
  EXPECT_NE(load_cupti("libno-such-cupti.so").error().message.find("libno-such-cupti.so"),
            std::string::npos);
}

} // namespace cupti_collector_test
} // namespace assay
