// TraceSession without a GPU: spans and operators of several threads, steps, telemetry, loss, a
// full disk.
#include "profilers/trace/trace_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "core/trace/trace_file.h"
#include "profilers/trace/event_ring.h"
#include "profilers/trace/telemetry_sampler.h"
#include "profilers/trace/trace_audit.h"
#include "tests/scratch.h"

namespace assay {
namespace trace_session_test {

using testing::HasSubstr;

class TraceSessionTest : public testing::Test {
protected:
  TraceSessionTest() {
    options_.paths = {scratch_ / "traces/a.sqlite", scratch_ / "traces/b.sqlite"};
  }

  std::unique_ptr<TraceSession> start() { return value_or_throw(TraceSession::start(options_)); }
  Trace read(std::size_t variant) const {
    return value_or_throw(read_trace(options_.paths[variant]));
  }
  static void step(TraceSession& session, int operators) {
    const std::int64_t begin = trace_now();
    {
      const SpanSinkGuard guard(session);
      const Span whole("step");
      const Span forward("forward");
      for (int i = 0; i < operators; ++i) {
        session.operator_begin("aten::mm", i, 0, false);
        session.operator_begin("aten::add", -1, 0, false);
        session.operator_end();
        session.operator_end();
      }
    }
    session.step(begin, trace_now(), true, 64);
  }
  static const AuditRow& check(const Trace& trace, const std::string& name) {
    for (const AuditRow& row : trace.audit)
      if (row.check == name) return row;
    throw std::runtime_error("no audit row " + name);
  }

  test::Scratch scratch_;
  TraceOptions options_;
};

TEST_F(TraceSessionTest, EveryVisitGoesIntoItsVariantsFile) {
  auto session = start();
  for (int round = 0; round < 3; ++round)
    for (std::size_t variant = 0; variant < 2; ++variant) {
      session->begin_visit(variant, round, round == 0);
      for (std::size_t i = 0; i <= variant; ++i) step(*session, 2);
      session->end_visit();
    }
  session->set_info(1, "variant", "b");
  const TraceSession::Summary summary = value_or_throw(session->finish());
  EXPECT_EQ(summary.lost, 0);
  const Trace a = read(0), b = read(1);
  EXPECT_EQ(a.steps.size(), 3u);
  EXPECT_EQ(b.steps.size(), 6u);
  EXPECT_EQ(b.value("variant"), "b");
  EXPECT_FALSE(a.steps[0].counted); // the warm-up round
  EXPECT_TRUE(a.steps[1].counted);
  EXPECT_EQ(b.steps[3].round, 1);
  EXPECT_EQ(b.steps[3].position, 1);
  EXPECT_EQ(a.spans.size(), 6u);
  EXPECT_EQ(a.operators.size(), 12u);
  EXPECT_EQ(b.operators.size(), 24u);
  for (const HostEvent& op : a.operators)
    EXPECT_EQ(op.depth, a.name(op.name) == "aten::add" ? 1 : 0);
  for (const Trace* trace : {&a, &b})
    for (const AuditRow& row : trace->audit) // these steps are as short as the calls around them
      EXPECT_TRUE(row.passed || row.check == "step_coverage") << row.check << row.value;
  EXPECT_FALSE(a.telemetry.empty());
}

TEST_F(TraceSessionTest, OtherThreadsAreRecordedAsTheirOwn) {
  auto session = start();
  session->begin_visit(0, 0, false);
  std::thread other([&] {
    session->operator_begin("MmBackward0", 7, 1, true);
    session->operator_end();
  });
  other.join();
  step(*session, 1);
  session->end_visit();
  (void)value_or_throw(session->finish());
  const Trace trace = read(0);
  ASSERT_EQ(trace.operators.size(), 3u);
  const HostEvent& backward = trace.operators.front();
  EXPECT_TRUE(backward.backward);
  EXPECT_EQ(backward.sequence, 7);
  EXPECT_NE(backward.thread, trace.operators.back().thread);
}

TEST_F(TraceSessionTest, NothingIsRecordedBetweenVisits) {
  auto session = start();
  session->begin("outside");
  session->end("outside");
  session->begin_visit(0, 0, false);
  step(*session, 0);
  session->end_visit();
  session->begin("outside");
  session->end("outside");
  (void)value_or_throw(session->finish());
  for (const HostEvent& span : read(0).spans) EXPECT_NE(read(0).name(span.name), "outside");
}

TEST_F(TraceSessionTest, OpenAndStrayRangesFailTheAudit) {
  auto session = start();
  session->begin_visit(0, 0, false);
  step(*session, 0);
  session->operator_end();
  session->begin("never ended");
  session->end_visit();
  (void)value_or_throw(session->finish());
  EXPECT_EQ(check(read(0), "open_ranges").value, 2);
  EXPECT_FALSE(check(read(0), "open_ranges").passed);
}

TEST_F(TraceSessionTest, AFullRingLosesAndTells) {
  options_.ring_events = 16;
  auto session = start();
  session->begin_visit(0, 0, false);
  step(*session, 20'000); // far more than a ring between two looks of the writer
  session->end_visit();
  EXPECT_GT(value_or_throw(session->finish()).lost, 0);
  EXPECT_FALSE(check(read(0), "lost_records").passed);
}

TEST_F(TraceSessionTest, AFullDiskIsOneErrorAndTheStepsGoOn) {
  const auto old_handler = ::signal(SIGXFSZ, SIG_IGN);
  rlimit old{};
  ::getrlimit(RLIMIT_FSIZE, &old);
  auto session = start();
  const rlimit small{200'000, old.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  for (int round = 0; round < 5; ++round) {
    session->begin_visit(0, round, false);
    step(*session, 20'000);
    session->end_visit();
  }
  const Result<TraceSession::Summary> summary = session->finish();
  ::setrlimit(RLIMIT_FSIZE, &old);
  ::signal(SIGXFSZ, old_handler);
  ASSERT_FALSE(summary);
  EXPECT_THAT(summary.error().message, HasSubstr("a.sqlite"));
  session.reset();
  EXPECT_TRUE(list_traces(scratch_.path()).empty());
  EXPECT_FALSE(std::filesystem::exists(options_.paths[0] + ".part"));
}

TEST_F(TraceSessionTest, WithoutFinishNothingStays) {
  auto session = start();
  session->begin_visit(0, 0, false);
  step(*session, 1);
  session->end_visit();
  session.reset();
  EXPECT_TRUE(std::filesystem::is_empty(scratch_ / "traces"));
}

TEST_F(TraceSessionTest, APlaceThatCannotBeWrittenIsNamed) {
  std::ofstream(scratch_ / "file") << "x";
  options_.paths = {scratch_ / "file/a.sqlite"};
  EXPECT_THAT(TraceSession::start(options_).error().message, HasSubstr("file"));
}

TEST_F(TraceSessionTest, ASpanCostsLittle) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer takes most of the time";
#endif
  auto session = start();
  session->begin_visit(0, 0, false);
  const SpanSinkGuard guard(*session);
  constexpr int kSpans = 20'000;
  const std::int64_t begin = trace_now();
  for (int i = 0; i < kSpans; ++i) const Span span("cost");
  const double each = static_cast<double>(trace_now() - begin) / kSpans;
  RecordProperty("ns_per_span", static_cast<int>(each));
  EXPECT_LT(each, 2000);
  session->end_visit();
}

TEST(EventRing, KeepsOrderAcrossThreads) {
  EventRing ring(64);
  constexpr std::int64_t kEvents = 200'000;
  std::thread producer([&] {
    for (std::int64_t i = 0; i < kEvents;) {
      const std::int64_t lost = ring.lost();
      ring.push({i, nullptr, -1, 0, HostEventKind::SpanBegin, false});
      if (ring.lost() == lost) ++i;
    }
  });
  std::int64_t next = 0;
  while (next < kEvents)
    ring.drain([&](const RawHostEvent& event) { EXPECT_EQ(event.time, next++); });
  producer.join();
}

TEST(TraceAudit, AReplayWithoutARecordOfANodeFailsIt) {
  const auto graph_nodes = [](std::vector<int> records) {
    TraceAudit audit;
    TraceBatch batch;
    std::uint32_t correlation = 0;
    for (const int count : records) {
      batch.api.push_back({.start = 1, .end = 2, .correlation = ++correlation});
      for (int node = 1; node <= count; ++node) {
        KernelRow kernel;
        kernel.start = 10 * node, kernel.end = kernel.start + 5;
        kernel.correlation = correlation;
        kernel.graph = 3, kernel.graph_node = static_cast<std::uint64_t>(node);
        batch.kernels.push_back(kernel);
      }
    }
    audit.see(batch);
    audit.end_visit();
    AuditInputs inputs;
    inputs.cuda = true;
    for (const AuditRow& row : audit.rows(inputs))
      if (row.check == "graph_nodes") return std::pair(row.passed, row.value);
    return std::pair(true, -1.0); // not checked
  };
  EXPECT_EQ(graph_nodes({4, 4, 4}), std::pair(true, 0.0));
  EXPECT_EQ(graph_nodes({4, 3, 4}), std::pair(false, 1.0));
  EXPECT_EQ(graph_nodes({}), std::pair(true, -1.0));
}

TEST(TraceAudit, AStepMayLack5PercentOfItsSpans) {
  const auto passes = [](std::int64_t step_us, std::int64_t covered_us) {
    TraceAudit audit;
    TraceBatch batch;
    StepRow step;
    step.start = 1000, step.end = step.start + step_us * 1000;
    batch.steps.push_back(step);
    RangeRow span;
    span.start = step.start, span.end = span.start + covered_us * 1000;
    batch.ranges.push_back(span);
    audit.see(batch);
    audit.end_visit();
    for (const AuditRow& row : audit.rows({}))
      if (row.check == "step_coverage") return row.passed;
    return false;
  };
  EXPECT_TRUE(passes(10'000, 9'600));
  EXPECT_FALSE(passes(10'000, 9'400));
}

TEST(TraceAudit, ClockStepsFailIt) {
  AuditInputs inputs;
  inputs.clock_steps = 1;
  for (const AuditRow& row : TraceAudit().rows(inputs))
    EXPECT_EQ(row.passed, row.check != "clock_steps" && row.check != "step_coverage");
}

TEST(Telemetry, WhatTheMachineRefusesHasAStatusAndNoMeter) {
  NvmlApi api;
  api.error_string = [](NvmlApi::Status) { return "Insufficient Permissions"; };
  api.utilization = [](NvmlApi::Device, NvmlUtilization* u) { return *u = {42, 7}, 0; };
  api.power = [](NvmlApi::Device, unsigned*) { return 4; };
  const std::vector<TelemetryMeter> meters =
      nvml_meters(std::make_shared<const NvmlApi>(api), nullptr);
  const auto meter = [&](const std::string& name) {
    for (const TelemetryMeter& m : meters)
      if (m.metric.name == name) return m;
    throw std::runtime_error("no meter " + name);
  };
  EXPECT_EQ(meter("GPU busy [%]").read(), 42);
  EXPECT_EQ(meter("Power [W]").metric.status, "not permitted: Insufficient Permissions");
  EXPECT_FALSE(meter("Power [W]").read);
  EXPECT_THAT(meter("Power by energy counter [W]").metric.status, HasSubstr("not supported"));
}

TEST(Telemetry, HostMetersReadCannedFiles) {
  const test::Scratch scratch;
  const std::filesystem::path root = scratch.path();
  std::filesystem::create_directories(root / "self");
  const auto write = [&](const char* file, const std::string& text) {
    std::ofstream(root / file) << text;
  };
  write("stat", "cpu 100 0 0 900 0 0 0 0\ncpu0 100 0 0 900 0 0 0 0\n");
  write("self/schedstat", "5 77 9\n");
  write("self/statm", "100 50 1 1 0 1 0\n");
  write("meminfo", "MemTotal:  4096 kB\nMemFree:  512 kB\nMemAvailable:  1024 kB\n");
  std::vector<TelemetryMeter> meters = host_meters(root.string(), root.string());
  const auto value = [&](const std::string& wanted) -> std::optional<double> {
    for (TelemetryMeter& m : meters)
      if (m.metric.name == wanted) return m.read ? m.read() : std::nullopt;
    throw std::runtime_error("no meter " + wanted);
  };
  for (const char* rate : {"CPU busy [%]", "Run delay of the main thread [%]"})
    EXPECT_EQ(value(rate), std::nullopt) << "needs two readings";
  std::this_thread::sleep_for(std::chrono::milliseconds(10)); // meters share one reading for 5
  write("stat", "cpu 160 0 0 930 0 0 0 10\ncpu0 160 0 0 930 0 0 0 10\n");
  EXPECT_NEAR(*value("CPU busy [%]"), 70, 1e-9);
  write("self/schedstat", "5 5000077 9\n");
  const double waited = *value("Run delay of the main thread [%]"); // 5 ms of more than 10
  EXPECT_TRUE(waited > 0 && waited <= 50) << waited;
  write("self/schedstat", "5 7 9\n");
  EXPECT_EQ(value("Run delay of the main thread [%]"), std::nullopt) << "the total began anew";
  EXPECT_NEAR(*value("Resident memory [MiB]"), 50 * 4096.0 / 1048576, 1e-9);
  EXPECT_EQ(value("Machine memory used [MiB]"), 3);
  for (const TelemetryMeter& m : meters)
    EXPECT_EQ(m.metric.status.starts_with("not permitted"),
              m.metric.name == "CPU package power [W]");
}

} // namespace trace_session_test
} // namespace assay
