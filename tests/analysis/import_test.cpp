#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>

#include "core/sqlite/database.h"
#include "core/trace/trace_file.h"
#include "experiments/attribution/tiling.h"
#include "experiments/demo/demo_trace.h"
#include "experiments/export/export_chrome.h"
#include "experiments/import/chrome_reader.h"
#include "experiments/import/import_trace.h"
#include "tests/paths.h"
#include "tests/scratch.h"

namespace assay {

namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string file(const std::string& name) {
  return test::source_dir() + "/tests/analysis/import/" + name;
}

struct Imported {
  explicit Imported(const std::string& path, const std::string& steps = "") {
    const Result<std::string> copy = import_trace(path, {steps, scratch / "copy.sqlite"});
    if (copy)
      trace = value_or_throw(read_trace(*copy));
    else
      error = copy.error().message;
  }
  explicit Imported(const test::Scratch& folder, const std::string& text, const std::string& steps)
      : Imported(folder.write("t.json", text), steps) {}

  test::Scratch scratch;
  Trace trace;
  std::string error;
};

// Microseconds.
std::string slice(const std::string& category,
                  const std::string& name,
                  double start,
                  double length,
                  int tid = 1,
                  const std::string& args = "") {
  return fmt::format(R"({{"ph":"X","cat":"{}","name":"{}","pid":7,"tid":{},"ts":{},"dur":{},)"
                     R"("args":{{{}}}}},)",
                     category,
                     name,
                     tid,
                     start,
                     length,
                     args);
}

std::string document(std::string events) {
  if (!events.empty()) events.pop_back();
  return "{\"traceEvents\":[" + events + "]}";
}

std::string kernel(const std::string& name, double start, double length, int correlation) {
  return slice("kernel",
               name,
               start,
               length,
               3,
               fmt::format(R"("device":1,"stream":3,"context":2,"correlation":{},"grid":[4,2,1],)"
                           R"("block":[128,1,1],"registers per thread":40,"shared memory":1024)",
                           correlation));
}

std::string launch(double start, int correlation) {
  return slice("cuda_runtime",
               "cudaLaunchKernel",
               start,
               2,
               1,
               fmt::format("\"correlation\":{}", correlation));
}

// Three steps of 100 us: data loader, forward, backward on autograd's thread, clipping, optimizer.
std::string torch_training(bool annotated) {
  std::string events;
  for (int step = 0; step < 3; ++step) {
    const double t = 1000 + 100 * step;
    if (annotated)
      events += slice("user_annotation", fmt::format("ProfilerStep#{}", step + 4), t, 100);
    events += slice("user_annotation", "enumerate(DataLoader)#_Iter.__next__", t, 10);
    events += slice("cpu_op", "aten::zeros", t + 1, 2); // of the loader, in its annotation
    events += slice("cpu_op", "aten::mm", t + 12, 20, 1, "\"Sequence number\":5");
    events += launch(t + 14, step * 10 + 1) + kernel("gemm", t + 16, 15, step * 10 + 1);
    events += slice("cpu_op",
                    "autograd::engine::evaluate_function: MmBackward0",
                    t + 40,
                    30,
                    2,
                    "\"Fwd thread id\":1,\"Sequence number\":5");
    events += slice("cpu_op", "aten::mm", t + 45, 10, 2);
    events += slice("cuda_runtime",
                    "cudaLaunchKernel",
                    t + 46,
                    2,
                    2,
                    fmt::format("\"correlation\":{}", step * 10 + 2));
    events += kernel("gemm", t + 50, 20, step * 10 + 2);
    events += slice("cpu_op", "aten::norm", t + 72, 5); // clipping
    events += slice("user_annotation", "Optimizer.step#AdamW.step", t + 80, 15);
    events += launch(t + 82, step * 10 + 3) + kernel("adamw", t + 84, 10, step * 10 + 3);
  }
  return document(events);
}

TEST(Import, MicrosecondsBecomeNanosecondsWithoutRounding) {
  EXPECT_EQ(nanoseconds_of("1700000000123456.789"), 1700000000123456789);
  EXPECT_EQ(nanoseconds_of("1700000000123456"), 1700000000123456000);
  EXPECT_EQ(nanoseconds_of("0.5"), 500);
  EXPECT_EQ(nanoseconds_of("-2.25"), -2250);
  EXPECT_EQ(nanoseconds_of("1.0009"), 1001);
  EXPECT_EQ(nanoseconds_of("7."), 7000);
  EXPECT_EQ(nanoseconds_of("1.5e3"), 1500000);
  for (const char* bad : {"", "x", "--1", "1e300", "99999999999999999999", "1.x", ".", "1e"})
    EXPECT_FALSE(nanoseconds_of(bad)) << bad;
}

TEST(Import, KinetoTestTrace) {
  const Imported imported(file("kineto-test.json"));
  ASSERT_EQ(imported.error, "");
  const Trace& trace = imported.trace;
  EXPECT_EQ(trace.value("source"), "Kineto JSON");
  EXPECT_EQ(trace.value("gpu"), "NVIDIA H100");
  ASSERT_EQ(trace.device.size(), 1u);
  EXPECT_EQ(trace.name(trace.device[0].name), "Kernel");
  EXPECT_EQ(trace.device[0].end - trace.device[0].start, 20);
  EXPECT_EQ(trace.operators.size(), 4u);
  EXPECT_EQ(trace.syncs.size(), 2u);
  ASSERT_EQ(trace.api.size(), 1u);
  EXPECT_EQ(trace.api[0].correlation, trace.device[0].correlation);
  EXPECT_EQ(trace.session_start_utc_ns + trace.api[0].start, 1775078550000000000 + 88437691101729);
  EXPECT_THAT(trace.value("steps"), HasSubstr("nothing repeats"));
}

TEST(Import, TraceWithABackwardThread) {
  const Imported imported(file("hta-backward-thread.json"));
  ASSERT_EQ(imported.error, "");
  const Trace& trace = imported.trace;
  ASSERT_EQ(trace.steps.size(), 1u);
  EXPECT_EQ(trace.steps[0].end - trace.steps[0].start, 413'451'000);
  EXPECT_EQ(trace.value("steps"), "annotations ProfilerStep#N");
  EXPECT_EQ(trace.session_start_utc_ns + trace.steps[0].start, 1666149715033200000);
  const std::vector<StepTiling> tiled = tile_steps(trace);
  EXPECT_EQ(tiled[0].stage_ns[static_cast<std::size_t>(Stage::Backward)], 45'000);
}

TEST(Import, StepsAndStagesOfATraining) {
  const test::Scratch scratch;
  for (const bool annotated : {true, false}) {
    const Imported imported(scratch, torch_training(annotated), "");
    ASSERT_EQ(imported.error, "");
    const Trace& trace = imported.trace;
    ASSERT_EQ(trace.device.size(), 9u);
    const DeviceEvent& first = trace.device[0];
    EXPECT_EQ(first.device, 1);
    EXPECT_EQ(first.stream, 3u);
    EXPECT_FALSE(first.graph);
    if (!annotated) continue;
    ASSERT_EQ(trace.steps.size(), 3u);
    for (const StepTiling& step : tile_steps(trace)) {
      const auto ns = [&](Stage stage) { return step.stage_ns[static_cast<std::size_t>(stage)]; };
      EXPECT_EQ(ns(Stage::Forward), 15'000);
      EXPECT_EQ(ns(Stage::Backward), 20'000);
      EXPECT_EQ(ns(Stage::Optimizer), 10'000);
    }
    EXPECT_THAT(trace.value("stages"), HasSubstr("autograd"));
    std::multiset<std::string> spans;
    for (const HostEvent& span : trace.spans)
      if (trace.name(span.domain) == "assay") spans.insert(trace.name(span.name));
    EXPECT_EQ(spans.count("forward"), 3u);
    EXPECT_EQ(spans.count("backward"), 3u);
    EXPECT_EQ(spans.count("data_wait"), 3u);
    EXPECT_EQ(spans.count("optimizer"), 3u); // with the norm that precedes it
  }
}

TEST(Import, StepsByRepetition) {
  const test::Scratch scratch;
  std::string spans, kernels;
  for (int i = 0; i < 5; ++i) {
    spans += slice("nvtx", fmt::format("train_step {}", i), 100 * i, 90);
    spans += slice("nvtx", "layer", 100 * i + 5, 20) + slice("nvtx", "layer", 100 * i + 30, 20);
    kernels += launch(100 * i, 2 * i + 1) + kernel("a", 100 * i + 5, 20, 2 * i + 1);
    kernels += launch(100 * i + 40, 2 * i + 2) + kernel("b", 100 * i + 45, 20, 2 * i + 2);
  }
  const Imported by_span(scratch, document(spans), "");
  ASSERT_EQ(by_span.error, "");
  EXPECT_EQ(by_span.trace.steps.size(), 5u);
  EXPECT_THAT(by_span.trace.value("steps"), HasSubstr("train_step"));
  const Imported named(scratch, document(spans), "layer");
  EXPECT_EQ(named.trace.steps.size(), 10u);
  const Imported unknown(scratch, document(spans), "lair");
  EXPECT_THAT(unknown.error, HasSubstr("no span is named 'lair'"));
  EXPECT_THAT(unknown.error, HasSubstr("layer (10)"));
  const Imported by_kernel(scratch, document(kernels), "");
  ASSERT_EQ(by_kernel.error, "");
  EXPECT_EQ(by_kernel.trace.steps.size(), 4u); // the end of the last is not known
  EXPECT_THAT(by_kernel.trace.value("steps"), StartsWith("2 kernels that repeat"));
}

// What we export and read again has the same steps, work and stages.
TEST(Import, OurOwnExport) {
  const test::Scratch scratch;
  DemoTrace plan;
  plan.path = scratch / "good.sqlite";
  plan.cell = "varlen";
  plan.variant = "packed";
  plan.optimization = "varlen";
  plan.warm_rounds = 1;
  plan.rounds = 3;
  plan.stages = {
      {"forward", "attention", {{"aten::mm", "void gemm_kernel(float*)", "gemm_kernel", 100}}},
      {"backward", "", {{"MmBackward0", "void gemm_kernel(float*)", "gemm_kernel", 200}}},
      {"optimizer", "", {{"aten::add_", "void add_kernel(float*)", "add_kernel", 30}}}};
  plan.copy_us = 20;
  write_demo_trace(plan);
  const Trace ours = value_or_throw(read_trace(plan.path));
  for (const std::string name : {"t.json", "t.json.gz"}) {
    (void)export_chrome({plan.path}, std::nullopt, scratch / name);
    const Imported imported(scratch / name);
    ASSERT_EQ(imported.error, "");
    const Trace& back = imported.trace;
    ASSERT_EQ(back.steps.size(), ours.steps.size());
    ASSERT_EQ(back.device.size(), ours.device.size());
    ASSERT_EQ(back.operators.size(), ours.operators.size());
    for (std::size_t i = 0; i < ours.device.size(); ++i) {
      EXPECT_EQ(back.name(back.device[i].name), ours.name(ours.device[i].name));
      EXPECT_EQ(back.device[i].end - back.device[i].start,
                ours.device[i].end - ours.device[i].start);
      EXPECT_EQ(back.device[i].stream, ours.device[i].stream);
      EXPECT_EQ(back.device[i].bytes, ours.device[i].bytes);
    }
    const std::vector<StepTiling> expected = tile_steps(ours), actual = tile_steps(back);
    // Where a step begins on the device depends on what a visit is, which an export does not say.
    for (std::size_t i = 0; i < expected.size(); ++i)
      for (const Stage stage :
           {Stage::HostToDevice, Stage::Forward, Stage::Backward, Stage::Optimizer})
        EXPECT_EQ(actual[i].stage_ns[static_cast<std::size_t>(stage)],
                  expected[i].stage_ns[static_cast<std::size_t>(stage)])
            << name << " step " << i;
  }
}

// A schema without NVTX_EVENTS.textId, graph nodes and the session's start, as old versions have.
TEST(Import, ExportsOfNsightSystems) {
  const test::Scratch scratch;
  for (const bool old : {true, false}) {
    const std::string path = scratch / (old ? "old.sqlite" : "new.sqlite");
    {
      const Database db(path, Database::Mode::Create);
      db.execute("CREATE TABLE StringIds(id INTEGER PRIMARY KEY, value TEXT);"
                 "INSERT INTO StringIds VALUES (3,'void gemm(float*)'),(4,'gemm'),"
                 "(5,'cudaLaunchKernel_v7000'),(6,'step'),"
                 "(7,'aten::mm, op_id = 3, seq = 9, sizes = [[2]]');"
                 "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(start INT, end INT, eventClass INT, "
                 "globalTid INT, correlationId INT, nameId INT, returnValue INT);");
      db.execute(std::string("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INT, end INT, deviceId "
                             "INT, contextId INT, streamId INT, correlationId INT, globalPid INT, "
                             "demangledName INT, shortName INT, gridX INT") +
                 (old ? ");" : ", graphNodeId INT);"));
      db.execute(std::string("CREATE TABLE NVTX_EVENTS(start INT, end INT, eventType INT, text "
                             "TEXT, globalTid INT") +
                 (old ? ");" : ", textId INT, domainId INT);"));
      for (int i = 0; i < 4; ++i) {
        const int t = 5000 + 1000 * i;
        db.execute(fmt::format("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES({},{},0,16777223,"
                               "{},5,0);",
                               t + 100,
                               t + 110,
                               i + 1));
        db.execute(fmt::format("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES({},{},0,1,7,{},1,3,"
                               "4,8{});",
                               t + 200,
                               t + 300,
                               i + 1,
                               old ? "" : ",NULL"));
        for (const int name : {6, 7})
          db.execute(fmt::format("INSERT INTO NVTX_EVENTS VALUES({},{},59,{},16777223{});",
                                 t + name,
                                 t + 900,
                                 old ? name == 6 ? "'step'" : "'aten::mm, seq = 9'" : "NULL",
                                 old ? "" : fmt::format(",{},0", name)));
      }
    }
    ASSERT_TRUE(is_foreign_trace(path));
    const Imported imported(path);
    ASSERT_EQ(imported.error, "");
    const Trace& trace = imported.trace;
    EXPECT_EQ(trace.value("source"), "Nsight Systems SQLite");
    EXPECT_EQ(trace.steps.size(), 4u);
    EXPECT_THAT(trace.value("steps"), HasSubstr("step"));
    ASSERT_EQ(trace.device.size(), 4u);
    EXPECT_EQ(trace.name(trace.device[0].name), "void gemm(float*)");
    EXPECT_FALSE(trace.device[0].graph);
    EXPECT_EQ(trace.name(trace.api[0].name), "cudaLaunchKernel");
    ASSERT_EQ(trace.operators.size(), 4u);
    EXPECT_EQ(trace.name(trace.operators[0].name), "aten::mm");
    EXPECT_EQ(trace.operators[0].sequence, 9);
  }
}

TEST(Import, OtherProgramsSlicesAreSpans) {
  const test::Scratch scratch;
  const Imported imported(
      scratch,
      R"([{"ph":"B","cat":"io","name":"read","pid":"worker","tid":"main","ts":10},
          {"ph":"B","cat":"io","name":"parse","pid":"worker","tid":"main","ts":12},
          {"ph":"E","pid":"worker","tid":"main","ts":15},
          {"ph":"E","pid":"worker","tid":"main","ts":30},
          {"ph":"E","pid":"worker","tid":"main","ts":31},
          {"ph":"C","name":"rss","pid":1,"ts":3,"args":{"v":1}}])",
      "");
  ASSERT_EQ(imported.error, "");
  EXPECT_EQ(imported.trace.value("source"), "Chrome JSON");
  ASSERT_EQ(imported.trace.spans.size(), 2u);
  EXPECT_EQ(imported.trace.name(imported.trace.spans[0].name), "read");
  EXPECT_EQ(imported.trace.spans[0].end - imported.trace.spans[0].start, 20'000);
  EXPECT_EQ(imported.trace.spans[1].depth, 1);
  EXPECT_EQ(imported.trace.value("left_out"), "2 events of other kinds");
}

TEST(Import, FilesThatAreNoTraceSayWhy) {
  const test::Scratch scratch;
  const std::string good = torch_training(true);
  const auto error_of = [&](const std::string& text) { return Imported(scratch, text, "").error; };
  EXPECT_THAT(error_of(good.substr(0, good.size() / 2)), HasSubstr("cut off"));
  EXPECT_THAT(error_of("{\"a\": 1}"), HasSubstr("without `traceEvents`"));
  EXPECT_THAT(error_of(document("")), HasSubstr("no events with a time"));
  EXPECT_THAT(error_of("hello"), HasSubstr("neither JSON"));
  EXPECT_THAT(error_of(""), HasSubstr("neither JSON"));
  EXPECT_THAT(error_of(document(slice("cpu_op", "a", 0, 1) + slice("cpu_op", "b", 3e13, 1))),
              HasSubstr("days apart"));
  const std::string zipped = scratch / "cut.json.gz";
  gzFile out = ::gzopen(zipped.c_str(), "wb");
  (void)::gzwrite(out, good.data(), static_cast<unsigned>(good.size()));
  (void)::gzclose(out);
  std::filesystem::resize_file(zipped, std::filesystem::file_size(zipped) / 2);
  EXPECT_THAT(Imported(zipped).error, HasSubstr("cut off or damaged"));
}

TEST(Import, ACopyIsWrittenOnceAndAgainForAChangedFile) {
  const test::Scratch scratch;
  const std::string cache = scratch.path().string();
  const char* old = std::getenv("XDG_CACHE_HOME");
  const std::string before = old == nullptr ? "" : old;
  ::setenv("XDG_CACHE_HOME", cache.c_str(), 1);
  const std::string path = scratch.write("t.json", torch_training(true));
  const std::string first = value_or_throw(readable_trace(path));
  EXPECT_THAT(first, StartsWith(cache));
  const auto time = std::filesystem::last_write_time(first);
  EXPECT_EQ(value_or_throw(readable_trace(path)), first);
  EXPECT_EQ(std::filesystem::last_write_time(first), time);
  (void)scratch.write("t.json", torch_training(false));
  EXPECT_NE(value_or_throw(readable_trace(path)), first);
  EXPECT_EQ(value_or_throw(readable_trace(first)), first); // one of ours
  if (old == nullptr)
    ::unsetenv("XDG_CACHE_HOME");
  else
    ::setenv("XDG_CACHE_HOME", before.c_str(), 1);
}

} // namespace

} // namespace assay
