#include "core/trace/trace_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/resource.h>

#include <cmath>
#include <csignal>
#include <fstream>

#include "core/sqlite/database.h"
#include "tests/core/trace_support.h"

namespace assay {
namespace trace_file_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using namespace test;

TEST(TraceFile, ReadsBackWhatWasWritten) {
  const TraceDirectory directory;
  const Result<Trace> read = read_trace(write_small_trace(directory / "traces/1.0.varlen.sqlite"));
  ASSERT_TRUE(read) << read.error().message;
  const Trace& t = *read;
  EXPECT_EQ(t.value("variant"), "varlen");
  EXPECT_TRUE(t.on_gpu());
  EXPECT_EQ(t.session_start_utc_ns, kEpoch);
  EXPECT_EQ(t.threads, (std::vector<std::int64_t>{kThread, kBackwardThread}));

  ASSERT_EQ(t.steps.size(), 2u);
  EXPECT_EQ(t.steps[1].start, 11'000);
  EXPECT_EQ(t.steps[1].round, 1);
  EXPECT_FALSE(t.steps[0].counted);
  EXPECT_EQ(t.steps[1].tokens, 512);
  EXPECT_EQ(t.steps[1].global_tid, kThread);

  ASSERT_EQ(t.device.size(), 6u);
  EXPECT_EQ(t.name(t.device[0].name), "Memcpy HtoD");
  EXPECT_EQ(t.device[0].bytes, 4096);
  EXPECT_EQ(t.device[1].kind, DeviceKind::Set);
  EXPECT_EQ(t.name(t.device[2].name), "void gemm<float>(float*)");
  EXPECT_EQ(t.device[2].start, 1500);
  EXPECT_EQ(t.device[2].end, 3500);
  EXPECT_EQ(t.device[2].stream, 7u);
  EXPECT_EQ(t.device[2].correlation, 1u);

  ASSERT_EQ(t.api.size(), 4u);
  EXPECT_EQ(t.name(t.api[0].name), "cudaLaunchKernel");
  ASSERT_EQ(t.syncs.size(), 2u);
  EXPECT_EQ(t.name(t.syncs[0].name), "Stream sync");
  EXPECT_EQ(t.threads[t.syncs[0].thread], kThread); // by its call
  EXPECT_EQ(t.overhead.size(), 2u);

  ASSERT_EQ(t.telemetry.size(), 2u);
  EXPECT_EQ(t.telemetry[0].metric.name, "power [W]");
  EXPECT_THAT(t.telemetry[0].value, ElementsAre(312.5, 313.5));
  EXPECT_THAT(t.telemetry[0].time, ElementsAre(1000, 11'000));
  EXPECT_THAT(t.telemetry[1].metric.status, HasSubstr("not permitted"));
  EXPECT_THAT(t.telemetry[1].value, IsEmpty());

  ASSERT_EQ(t.audit.size(), 2u);
  EXPECT_EQ(t.audit[1].check, "coverage");
  EXPECT_FALSE(t.audit[1].passed);
  EXPECT_EQ(t.audit[1].limit, 0.9);
}

TEST(TraceFile, OrdersByStartAndCountsWhatEncloses) {
  const TraceDirectory directory;
  const Trace t = value_or_throw(read_trace(write_small_trace(directory / "a.sqlite")));
  ASSERT_EQ(t.spans.size(), 6u);
  EXPECT_EQ(t.name(t.spans[0].name), "forward"); // was written after the span inside it
  EXPECT_EQ(t.spans[0].depth, 0);
  EXPECT_EQ(t.name(t.spans[1].name), "attention");
  EXPECT_EQ(t.spans[1].depth, 1);
  EXPECT_EQ(t.name(t.spans[1].domain), "assay");
  EXPECT_EQ(t.spans[2].end, 0); // a mark
  EXPECT_EQ(t.spans[3].depth, 0);
  ASSERT_EQ(t.operators.size(), 6u);
  EXPECT_EQ(t.operators[1].depth, 1); // spans do not count
  EXPECT_EQ(t.operators[0].sequence, 5);
  EXPECT_EQ(t.operators[1].sequence, -1);
  EXPECT_EQ(t.operators[2].depth, 0); // another thread
  EXPECT_TRUE(t.operators[2].backward);
}

TEST(TraceFile, DepthsOfRangesThatStartTogetherOrCross) {
  const TraceDirectory directory;
  TraceWriter writer(directory / "a.sqlite", kEpoch);
  TraceBatch batch;
  const auto range = [&](std::int64_t start, std::int64_t end, const char* name) {
    batch.ranges.push_back({kEpoch + start, kEpoch + end, 60, kThread, writer.intern(name), 0});
  };
  range(10, 20, "inner"); // ranges arrive when they end
  range(10, 90, "outer");
  range(50, 120, "crosses outer");
  range(100, 110, "in what crosses");
  writer.append(batch);
  writer.finish();
  const Trace t = value_or_throw(read_trace(directory / "a.sqlite"));
  std::vector<std::pair<std::string, int>> depths;
  for (const HostEvent& span : t.spans) depths.emplace_back(t.name(span.name), span.depth);
  EXPECT_THAT(depths,
              ElementsAre(std::pair("outer", 0),
                          std::pair("inner", 1),
                          std::pair("crosses outer", 1),
                          std::pair("in what crosses", 1)));
}

TEST(TraceFile, ReadsOnlyTheAskedParts) {
  const TraceDirectory directory;
  const Trace t = value_or_throw(
      read_trace(write_small_trace(directory / "a.sqlite"), kTraceSteps | kTraceOperators));
  EXPECT_EQ(t.steps.size(), 2u);
  EXPECT_EQ(t.operators.size(), 6u);
  EXPECT_THAT(t.device, IsEmpty());
  EXPECT_THAT(t.api, IsEmpty());
  EXPECT_THAT(t.spans, IsEmpty());
  EXPECT_THAT(t.telemetry, IsEmpty());
  EXPECT_EQ(t.audit.size(), 2u);
}

TEST(TraceFile, KeepsLostTimesZero) {
  const TraceDirectory directory;
  TraceWriter writer(directory / "a.sqlite", kEpoch);
  TraceBatch batch;
  batch.kernels.push_back(kernel(10, 20, writer.intern("k"), 1));
  batch.kernels.back().start = 0;
  batch.kernels.push_back(kernel(-30, -20, writer.intern("k"), 2)); // before the session
  writer.append(batch);
  writer.finish();
  const Trace t = value_or_throw(read_trace(directory / "a.sqlite"));
  EXPECT_EQ(t.device[0].start, -30);
  EXPECT_EQ(t.device[1].start, 0);
  EXPECT_EQ(t.device[1].end, 20);
}

TEST(TraceFile, KeepsTheNsightSystemsShape) {
  const TraceDirectory directory;
  const Database db(write_small_trace(directory / "a.sqlite"), Database::Mode::ReadOnly);
  EXPECT_EQ(db.integer("SELECT count(*) FROM pragma_table_info('CUPTI_ACTIVITY_KIND_KERNEL')"), 40);
  for (const char* table : {"StringIds",
                            "META_DATA_CAPTURE",
                            "META_DATA_EXPORT",
                            "TARGET_INFO_SESSION_START_TIME",
                            "ANALYSIS_DETAILS",
                            "TARGET_INFO_SYSTEM_ENV",
                            "TARGET_INFO_GPU",
                            "TARGET_INFO_CUDA_DEVICE",
                            "TARGET_INFO_CUDA_STREAM",
                            "PROCESSES",
                            "ThreadNames",
                            "CUPTI_ACTIVITY_KIND_MEMCPY",
                            "CUPTI_ACTIVITY_KIND_MEMSET",
                            "CUPTI_ACTIVITY_KIND_RUNTIME",
                            "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
                            "PROFILER_OVERHEAD",
                            "NVTX_EVENTS",
                            "GPU_METRICS",
                            "TARGET_INFO_GPU_METRICS",
                            "DIAGNOSTIC_EVENT",
                            "ENUM_CUDA_MEMCPY_OPER",
                            "ENUM_CUDA_MEM_KIND",
                            "ENUM_CUPTI_SYNC_TYPE",
                            "ASSAY_RUN",
                            "ASSAY_STEP",
                            "ASSAY_OPERATOR",
                            "ASSAY_AUDIT"})
    EXPECT_EQ(
        db.integer(fmt::format("SELECT count(*) FROM sqlite_schema WHERE name = '{}'", table)), 1)
        << table;
  EXPECT_EQ(
      db.integer(
          "SELECT value = '3.28.1' FROM META_DATA_EXPORT WHERE name = 'EXPORT_SCHEMA_VERSION'"),
      1);
  EXPECT_EQ(db.integer("SELECT count(*) FROM NVTX_EVENTS WHERE eventType = 75 AND text = 'assay'"),
            1);
  // As in NVIDIA's examples: the process and thread of a globalTid, a kernel joined to its call.
  EXPECT_EQ(db.integer("SELECT globalTid / 0x1000000 % 0x1000000 FROM CUPTI_ACTIVITY_KIND_RUNTIME"),
            4242);
  EXPECT_EQ(db.integer("SELECT globalPid / 0x1000000 % 0x1000000 FROM CUPTI_ACTIVITY_KIND_KERNEL"),
            4242);
  EXPECT_EQ(
      db.integer("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN "
                 "CUPTI_ACTIVITY_KIND_RUNTIME r USING (correlationId) JOIN StringIds s ON "
                 "s.id = k.demangledName WHERE s.value LIKE 'void gemm%' AND r.end <= k.start"),
      2);
  EXPECT_EQ(
      db.integer("SELECT count(*) FROM GPU_METRICS JOIN TARGET_INFO_GPU_METRICS USING (typeId, "
                 "metricId) WHERE metricName = 'power [W]'"),
      2);
  EXPECT_EQ(db.integer("SELECT duration FROM ANALYSIS_DETAILS"), 19'000);
  EXPECT_EQ(db.integer("SELECT overheadType FROM PROFILER_OVERHEAD"), 2);
  EXPECT_EQ(
      db.integer("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE graphNodeId IS NULL AND "
                 "gridX = 1024 AND gridY = 2 AND gridZ = 3 AND blockX = 256 AND gridId = 99 AND "
                 "registersPerThread = 32 AND tensorSizeMinusOneElements = ''"),
      2);
  EXPECT_EQ(db.integer("SELECT count(*) FROM TARGET_INFO_GPU g JOIN TARGET_INFO_CUDA_DEVICE c ON "
                       "c.gpuId = g.id WHERE g.name = 'NVIDIA H200' AND c.pid = 4242"),
            1);
  Statement check = db.prepare("PRAGMA integrity_check");
  ASSERT_TRUE(check.step());
  EXPECT_EQ(check.text(0), "ok");
}

// Large batches bind what is equal in all their rows once; small ones never do.
TEST(TraceFile, BatchSizeDoesNotChangeWhatIsStored) {
  const TraceDirectory directory;
  constexpr int kRows = 4000;
  for (const bool large : {false, true}) {
    TraceWriter writer(directory / (large ? "large.sqlite" : "small.sqlite"), kEpoch);
    const NameId name = writer.intern("k"), power = writer.intern("power [W]");
    TraceBatch batch;
    for (int i = 0; i < kRows; ++i) {
      KernelRow row = kernel(10 * i, 10 * i + 5, name, static_cast<std::uint32_t>(i));
      row.graph = i == kRows - 1 ? 3 : 0; // the last row alone differs
      row.block[1] = i == 0 ? 2 : 1;      // the first row alone differs
      batch.kernels.push_back(row);
      batch.copies.push_back(
          {0, 0, 0, 1, 7, 0, 1, 1, 0, 2, 0, -1, i < 2000 ? -1 : 1}); // lost times
      batch.ranges.push_back({kEpoch + i, 0, 34, kThread, name, 0});
      batch.operators.push_back({kEpoch + i, kEpoch + i + 1, kThread, name, -1, 0, true});
      batch.telemetry.push_back({kEpoch + i, power, 0.25});
      if (large && i + 1 < kRows) continue;
      writer.append(batch);
      batch.clear();
    }
    EXPECT_EQ(writer.rows(), 5 * kRows);
    writer.finish();
  }
  const Database db(directory / "large.sqlite", Database::Mode::ReadOnly);
  db.execute("ATTACH '" + directory / "small.sqlite" + "' AS small");
  for (const char* table : {"CUPTI_ACTIVITY_KIND_KERNEL",
                            "CUPTI_ACTIVITY_KIND_MEMCPY",
                            "NVTX_EVENTS",
                            "ASSAY_OPERATOR",
                            "GPU_METRICS"}) {
    EXPECT_EQ(db.integer(fmt::format("SELECT count(*) FROM main.{}", table)), kRows) << table;
    EXPECT_EQ(db.integer(fmt::format("SELECT count(*) FROM (SELECT rowid, * FROM main.{0} EXCEPT "
                                     "SELECT rowid, * FROM small.{0})",
                                     table)),
              0)
        << table;
  }
  EXPECT_EQ(db.integer("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE graphId IS NULL"),
            kRows - 1);
  EXPECT_EQ(db.integer("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_MEMCPY WHERE dstDeviceId IS NULL "
                       "AND start = 0"),
            2000);
  EXPECT_EQ(db.integer("SELECT count(*) FROM NVTX_EVENTS WHERE end IS NULL"), kRows);
  EXPECT_EQ(db.integer("SELECT sum(value) = 1000 FROM GPU_METRICS"), 1);
}

TEST(TraceFile, ASampleWithoutAValueIsNoSample) {
  const TraceDirectory directory;
  TraceWriter writer(directory / "a.sqlite", kEpoch);
  TraceBatch batch;
  batch.telemetry.push_back({kEpoch + 1, writer.intern("power [W]"), std::nan("")});
  batch.telemetry.push_back({kEpoch + 2, writer.intern("power [W]"), 5});
  writer.append(batch);
  writer.finish();
  const Trace t = value_or_throw(read_trace(directory / "a.sqlite"));
  ASSERT_EQ(t.telemetry.size(), 1u); // never declared, and still there
  EXPECT_EQ(t.telemetry[0].metric.name, "power [W]");
  EXPECT_THAT(t.telemetry[0].value, ElementsAre(5));
}

TEST(TraceFile, ASmallTraceIsSmall) {
  const TraceDirectory directory;
  EXPECT_LT(std::filesystem::file_size(write_small_trace(directory / "a.sqlite")), 300'000u);
}

TEST(TraceFile, RepairsAndCutsNames) {
  const TraceDirectory directory;
  TraceWriter writer(directory / "a.sqlite", kEpoch);
  const NameId good = writer.intern("k\u00f6rper"), bad = writer.intern("k\xff");
  const std::string longest(1 << 20, 'x');
  std::string accents((64 << 10) - 1, 'y');
  accents += "\u00e9\u00e9";
  const NameId cut = writer.intern(longest), between = writer.intern(accents);
  EXPECT_EQ(writer.altered_names(), 3);
  EXPECT_EQ(writer.intern(longest), cut);
  EXPECT_EQ(writer.intern("k\xff"), bad);
  EXPECT_EQ(writer.altered_names(), 3);
  EXPECT_EQ(writer.intern(""), 0u);
  TraceBatch batch;
  writer.append(batch);
  writer.finish();
  const Trace t = value_or_throw(read_trace(directory / "a.sqlite"));
  EXPECT_EQ(t.name(good), "k\u00f6rper");
  EXPECT_EQ(t.name(bad), "k\uFFFD");
  EXPECT_EQ(t.name(cut).size(), 64u << 10);
  EXPECT_EQ(t.name(between), std::string((64 << 10) - 1, 'y')); // no half character
}

TEST(TraceFile, AnUnfinishedTraceLeavesNothing) {
  const TraceDirectory directory;
  const std::string path = directory / "traces/1.0.a.sqlite";
  {
    TraceWriter writer(path, kEpoch);
    EXPECT_TRUE(std::filesystem::exists(path + ".part"));
    EXPECT_FALSE(std::filesystem::exists(path));
    const Result<Trace> early = read_trace(path);
    ASSERT_FALSE(early);
    EXPECT_THAT(early.error().message, HasSubstr("unfinished"));
    EXPECT_THAT(list_traces(directory.string()), IsEmpty());
  }
  EXPECT_FALSE(std::filesystem::exists(path + ".part"));
}

TEST(TraceFile, AClosedTraceTakesNothingMore) {
  const TraceDirectory directory;
  TraceWriter writer(directory / "a.sqlite", kEpoch);
  writer.finish();
  EXPECT_THROW(writer.append({}), Failure);
  EXPECT_THROW(writer.finish(), Failure);
  EXPECT_TRUE(read_trace(directory / "a.sqlite"));
}

// A limit on the size of files stands in for a full disk.
TEST(TraceFile, AFullDiskIsOneClearError) {
  const TraceDirectory directory;
  const std::string path = directory / "a.sqlite";
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{4 << 20, before.rlim_max};
  std::signal(SIGXFSZ, SIG_IGN);
  std::string message;
  {
    TraceWriter writer(path, kEpoch);
    TraceBatch batch;
    batch.kernels.assign(200'000, kernel(1, 2, writer.intern("k"), 1));
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    try {
      writer.append(batch);
      writer.finish();
    } catch (const DatabaseError& error) {
      message = error.what();
    }
    EXPECT_FALSE(std::filesystem::exists(path + ".part")); // at once, while the writer still lives
  }
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, SIG_DFL);
  EXPECT_THAT(message, HasSubstr(path));
  EXPECT_THAT(message, HasSubstr("disk is full"));
  EXPECT_THAT(message, HasSubstr("--out"));
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(TraceFile, ADirectoryThatCannotBeMadeIsNamed) {
  const TraceDirectory directory;
  std::ofstream(directory / "file") << "x";
  EXPECT_THROW(TraceWriter(directory / "file/traces/a.sqlite", kEpoch), Failure);
}

TEST(TraceFile, FileNames) {
  EXPECT_EQ(trace_file_name(12, 0, "varlen"), "traces/12.0.varlen.sqlite");
  EXPECT_EQ(trace_file_name(3, 1, "a/b"), "traces/3.1.a_b-3a8e75c1.sqlite");
  EXPECT_NE(trace_file_name(3, 1, "\u00e9"), trace_file_name(3, 1, "\u00fc"));
  const TraceDirectory directory;
  EXPECT_THAT(list_traces(directory / "none"), IsEmpty());
  for (const char* name : {"10.0.a", "2.1.a", "2.0.b", "2.0.a"})
    write_small_trace(directory / fmt::format("traces/{}.sqlite", name));
  std::ofstream(directory / "traces/3.0.a.sqlite.part") << "x";
  EXPECT_THAT(list_traces(directory.string()),
              ElementsAre(directory / "traces/2.0.a.sqlite",
                          directory / "traces/2.0.b.sqlite",
                          directory / "traces/2.1.a.sqlite",
                          directory / "traces/10.0.a.sqlite"));
}

} // namespace trace_file_test
} // namespace assay
