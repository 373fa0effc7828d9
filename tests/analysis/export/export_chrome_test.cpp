#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <csignal>
#include <random>
#include <regex>
#include <set>

#include "core/result.h"
#include "experiments/export/export_chrome.h"
#include "tests/analysis/export/export_fixture.h"
#include "tests/names.h"

namespace assay::test {
namespace export_chrome_test {

using nlohmann::json;
using nlohmann::ordered_json;
using testing::ElementsAre;
using testing::HasSubstr;

json exported(const std::vector<std::string>& traces,
              const std::string& out,
              std::optional<StepWindow> steps = {}) {
  export_chrome(traces, steps, out);
  return json::parse(read_file(out));
}

// On every track, slices lie beside or in each other.
void expect_nesting(const json& document) {
  std::map<std::pair<std::int64_t, std::int64_t>,
           std::vector<std::pair<std::int64_t, std::int64_t>>>
      tracks;
  for (const auto& e : document.at("traceEvents"))
    if (e["ph"] == "X")
      tracks[{e["pid"].get<std::int64_t>(), e["tid"].get<std::int64_t>()}].emplace_back(
          ns(e["ts"]), ns(e["ts"]) + ns(e["dur"]));
  ASSERT_GT(tracks.size(), 2u);
  for (auto& [track, slices] : tracks) {
    std::sort(slices.begin(), slices.end(), [](const auto& x, const auto& y) {
      return x.first != y.first ? x.first < y.first : x.second > y.second;
    });
    std::vector<std::int64_t> open;
    for (const auto& [start, end] : slices) {
      while (!open.empty() && open.back() <= start) open.pop_back();
      if (!open.empty()) {
        EXPECT_LE(end, open.back())
            << "pid " << track.first << " tid " << track.second << " at " << start;
      }
      open.push_back(end);
    }
  }
}

std::map<std::int64_t, std::string> process_names(const json& document) {
  std::map<std::int64_t, std::string> names;
  for (const auto& e : document.at("traceEvents"))
    if (e["name"] == "process_name") names[e["pid"]] = e["args"]["name"];
  return names;
}

class ExportChrome : public testing::Test {
protected:
  // The error of an export to `out`, or "".
  std::string why(const std::string& out) const {
    try {
      export_chrome({trace_}, {}, out);
    } catch (const Failure& failure) {
      return failure.what();
    }
    return "";
  }
  test::Scratch dir_;
  std::string trace_ = ugly_trace(dir_ / "4.0.varlen.sqlite", "varlen");
};

TEST_F(ExportChrome, HasKinetosTopObjectInItsOrder) {
  export_chrome({trace_}, {}, dir_ / "t.json");
  const std::string text = read_file(dir_ / "t.json");
  const auto document = ordered_json::parse(text);
  std::vector<std::string> keys;
  for (const auto& [key, value] : document.items()) keys.push_back(key);
  EXPECT_THAT(keys,
              ElementsAre("schemaVersion",
                          "deviceProperties",
                          "cupti_version",
                          "cuda_runtime_version",
                          "cuda_driver_version",
                          "distributedInfo",
                          "displayTimeUnit",
                          "baseTimeNanoseconds",
                          "traceEvents",
                          "traceName"));
  EXPECT_EQ(document["schemaVersion"], 1);
  EXPECT_EQ(document["displayTimeUnit"], "ms");
  EXPECT_EQ(document["baseTimeNanoseconds"], kEpoch);
  EXPECT_EQ(document["traceName"], "t.json");
  // The pattern by which HTA finds the rank.
  EXPECT_TRUE(std::regex_search(text, std::regex(R"("rank":\s+3\b)")));
  for (const auto& entry : std::filesystem::directory_iterator(dir_ / ""))
    EXPECT_NE(entry.path().extension(), ".partial") << entry.path();
}

TEST_F(ExportChrome, TimesHaveThreeDecimalsAndNoneIsNegative) {
  export_chrome({trace_}, {}, dir_ / "t.json");
  const std::string text = read_file(dir_ / "t.json");
  const std::regex time(R"re("(ts|dur)":([^,}]+))re"), good(R"(\d+\.\d{3})");
  std::size_t times = 0;
  for (std::sregex_iterator it(text.begin(), text.end(), time), end; it != end; ++it, ++times)
    EXPECT_TRUE(std::regex_match((*it)[2].str(), good)) << it->str();
  EXPECT_GT(times, 60u);
}

TEST_F(ExportChrome, SlicesNestOnEveryTrack) {
  const json document = exported({trace_}, dir_ / "t.json");
  expect_nesting(document);
  std::set<std::string> threads;
  for (const auto& e : document["traceEvents"])
    if (e["name"] == "thread_name") threads.insert(e["args"]["name"]);
  EXPECT_TRUE(threads.count("stream 7") && threads.count("stream 7 (overlap)") &&
              threads.count("stream 7 (sync)") && threads.count("thread 41001 (overlap)"));
}

TEST(ExportChromeNesting, HoldsForRandomTraces) {
  std::mt19937 random(11);
  for (int round = 0; round < 20; ++round) {
    test::Scratch dir;
    TraceRows rows(dir / "t.sqlite", "v");
    rows.step(0, 10, 90'000);
    const auto time = [&] { return static_cast<std::int64_t>(20 + random() % 80'000); };
    for (std::uint32_t i = 1; i <= 60; ++i) {
      const std::int64_t a = time(), b = time(), c = time();
      rows.range("span", std::min(a, b), std::max(a, b), i % 3 == 0 ? kOther : kMain);
      rows.op("op", a, a + static_cast<std::int64_t>(random() % 5000));
      rows.call("cudaLaunchKernel", c, c + static_cast<std::int64_t>(random() % 900), i);
      const std::int64_t start = c + static_cast<std::int64_t>(random() % 9000);
      rows.kernel("k", start, start + static_cast<std::int64_t>(random() % 4000), i, i % 2);
    }
    rows.finish();
    expect_nesting(exported({dir / "t.sqlite"}, dir / "t.json"));
  }
}

TEST_F(ExportChrome, NamesComeBackAsTheyWere) {
  const json document = exported({trace_}, dir_ / "t.json");
  const Events kernels = of_category(document, "kernel");
  EXPECT_EQ(std::count_if(kernels.begin(),
                          kernels.end(),
                          [](const auto& e) { return e["name"] == kUglyName; }),
            1);
}

TEST_F(ExportChrome, EveryKindHasItsCategoryAndArguments) {
  const json document = exported({trace_}, dir_ / "t.json");
  std::map<std::string, int> count;
  for (const auto& e : document["traceEvents"])
    if (e["ph"] == "X") ++count[e["cat"]];
  EXPECT_EQ(count["kernel"], 7);
  EXPECT_EQ(count["gpu_memcpy"], 1);
  EXPECT_EQ(count["cuda_runtime"], 6);
  EXPECT_EQ(count["cuda_driver"], 2);
  EXPECT_EQ(count["cuda_sync"], 1);
  EXPECT_EQ(count["overhead"], 1);
  EXPECT_EQ(count["cpu_op"], 4);
  EXPECT_EQ(count["user_annotation"], 6);
  const json kernel = of_category(document, "kernel").front();
  EXPECT_EQ(kernel["pid"], 0);
  EXPECT_EQ(kernel["tid"], 7);
  EXPECT_EQ(kernel["args"],
            json::parse(R"({"External id":2,"device":0,"context":1,"stream":7,"correlation":11,
                            "registers per thread":40,"shared memory":1040,"grid":[10,20,30],
                            "block":[256,2,1]})"));
  const json copy = of_category(document, "gpu_memcpy").front();
  EXPECT_EQ(copy["name"], "Memcpy HtoD (Pinned -> Device)");
  EXPECT_EQ(copy["args"]["bytes"], 4000);
  EXPECT_EQ(copy["args"]["memory bandwidth (GB/s)"], 2);
  // HTA takes every event with a "stream" for work of the GPU.
  EXPECT_FALSE(of_category(document, "cuda_sync").front()["args"].contains("stream"));
  const Events lost = select(document, [](const auto& e) { return e["name"] == "no time stamp"; });
  EXPECT_TRUE(lost.empty());
}

TEST_F(ExportChrome, SaysWhatItLeftOutOrChanged) {
  const ExportSummary summary = export_chrome({trace_}, {}, dir_ / "t.json");
  EXPECT_EQ(summary.lost, 1);
  EXPECT_EQ(summary.clamped, 1);
  EXPECT_EQ(summary.moved, 2); // a range and a kernel
  EXPECT_EQ(summary.steps, 2);
  const json document = json::parse(read_file(dir_ / "t.json"));
  EXPECT_EQ(summary.events, static_cast<std::int64_t>(document["traceEvents"].size()));
  EXPECT_EQ(summary.bytes, static_cast<std::int64_t>(std::filesystem::file_size(dir_ / "t.json")));
}

TEST_F(ExportChrome, ArrowsStartInACallAndEndAtItsFirstKernel) {
  const json document = exported({trace_}, dir_ / "t.json");
  std::map<std::int64_t, json> starts, ends;
  for (const auto& e : document["traceEvents"]) {
    if (e.value("cat", "") != "ac2g") continue;
    EXPECT_EQ(e["name"], "ac2g");
    auto& side = e["ph"] == "s" ? starts : ends;
    EXPECT_TRUE(side.emplace(e["id"], e).second) << e;
    EXPECT_EQ(e.value("bp", ""), e["ph"] == "f" ? "e" : "");
  }
  EXPECT_EQ(starts.size(), 7u); // 11 to 16 and 18; 14 was not recorded
  ASSERT_EQ(ends.size(), starts.size());
  for (const auto& [id, start] : starts) {
    const Events call = select(document, [&, i = id](const auto& e) {
      return (e.value("cat", "") == "cuda_runtime" || e.value("cat", "") == "cuda_driver") &&
             e["args"].value("correlation", 0) == i;
    });
    ASSERT_EQ(call.size(), 1u);
    EXPECT_EQ(call[0]["ts"], start["ts"]);
    EXPECT_EQ(call[0]["tid"], start["tid"]);
    const Events work = select(document, [&, i = id](const auto& e) {
      return e["ph"] == "X" && e.contains("args") && e["args"].contains("stream") &&
             e["args"].value("correlation", 0) == i;
    });
    ASSERT_FALSE(work.empty());
    EXPECT_EQ(work[0]["ts"], ends[id]["ts"]);
    EXPECT_EQ(work[0]["tid"], ends[id]["tid"]);
  }
}

// HTA and TraceLens leave out work that no call started.
TEST_F(ExportChrome, WorkOfAnUnrecordedCallStandsBehindTheCallBeforeIt) {
  EXPECT_EQ(export_chrome({trace_}, {}, dir_ / "t.json").placed, 1);
  const json document = json::parse(read_file(dir_ / "t.json"));
  const Events marks =
      select(document, [](const auto& e) { return e["name"] == "launch (not recorded)"; });
  ASSERT_EQ(marks.size(), 1u);
  EXPECT_EQ(marks[0]["args"]["correlation"], 14);
  EXPECT_EQ(marks[0]["args"].size(), 1u); // which operator it was is not known
  EXPECT_EQ(ns(marks[0]["ts"]), 6500);    // where the call with correlation 13 ends
  EXPECT_EQ(marks[0]["dur"], 0);
}

TEST_F(ExportChrome, JoinsTheInnermostForwardWithTheOutermostBackward) {
  const json document = exported({trace_}, dir_ / "t.json");
  const Events flows =
      select(document, [](const auto& e) { return e.value("cat", "") == "fwdbwd"; });
  ASSERT_EQ(flows.size(), 2u);
  EXPECT_EQ(flows[0]["ph"], "s");
  EXPECT_EQ(ns(flows[0]["ts"]), 1300); // aten::mm
  EXPECT_EQ(flows[1]["ph"], "f");
  EXPECT_EQ(ns(flows[1]["ts"]), 27'000); // MmBackward0
  EXPECT_EQ(flows[0]["id"], flows[1]["id"]);
}

TEST_F(ExportChrome, AnnotatesTheDeviceWithTheSpansThatLaunched) {
  const json document = exported({trace_}, dir_ / "t.json");
  const Events spans = of_category(document, "gpu_user_annotation");
  ASSERT_FALSE(spans.empty());
  const auto forward = std::find_if(
      spans.begin(), spans.end(), [](const auto& e) { return e["name"] == "forward"; });
  ASSERT_NE(forward, spans.end());
  EXPECT_EQ(ns((*forward)["ts"]), 2499); // 1 ns before its first kernel
  EXPECT_TRUE(std::any_of(
      spans.begin(), spans.end(), [](const auto& e) { return e["name"] == "ProfilerStep#1"; }));
}

TEST_F(ExportChrome, StepsAreIterationsAndTelemetryIsCounters) {
  const json document = exported({trace_}, dir_ / "t.json");
  const Events steps = select(document, [](const auto& e) {
    return e.value("cat", "") == "user_annotation" &&
           e["name"].template get<std::string>().rfind("ProfilerStep#", 0) == 0;
  });
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[1]["name"], "ProfilerStep#1");
  const Events power =
      select(document, [](const auto& e) { return e["ph"] == "C" && e["name"] == "Power [W]"; });
  ASSERT_EQ(power.size(), 2u);
  EXPECT_EQ(power[0]["args"]["value"], 300.5);
  EXPECT_EQ(process_names(document).at(power[0]["pid"]), "GPU 0 counters");
}

TEST_F(ExportChrome, AWindowHoldsWhatItsStepsLaunched) {
  const json first = exported({trace_}, dir_ / "t.json", StepWindow{0, 0});
  std::vector<std::string> names;
  for (const auto& e : of_category(first, "kernel")) names.push_back(e["name"]);
  EXPECT_THAT(names, testing::Contains("launched by a library"));
  EXPECT_THAT(names, testing::Not(testing::Contains("outlives its step")));
  EXPECT_EQ(names.size(), 6u);
  const json second = exported({trace_}, dir_ / "t.json", StepWindow{1, 9});
  const Events kernels = of_category(second, "kernel");
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels[0]["name"], "outlives its step");
  EXPECT_EQ(of_category(second, "cuda_runtime").size(), 1u);
  EXPECT_EQ(select(second, [](const auto& e) { return e["ph"] == "C"; }).size(), 1u);
  try {
    export_chrome({trace_}, StepWindow{7, 8}, dir_ / "none.json");
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_THAT(failure.what(), test::names("0 to 1", "not 7 to 8"));
  }
  EXPECT_FALSE(std::filesystem::exists(dir_ / "none.json"));
}

TEST_F(ExportChrome, TwoTracesLieSideBySideAlignedAtTheirFirstStep) {
  const std::string b = ugly_trace(dir_ / "4.0.dense.sqlite", "dense", 7'000'000);
  const json document = exported({trace_, b}, dir_ / "ab.json", StepWindow{1, 1});
  std::map<std::string, std::int64_t> pids;
  for (const auto& [pid, name] : process_names(document)) pids[name] = pid;
  EXPECT_EQ(pids.at("baseline · GPU 0"), 0);
  EXPECT_EQ(pids.at("candidate · GPU 0"), 1000);
  EXPECT_EQ(pids.at("baseline · process 41000"), 41'000);
  EXPECT_EQ(pids.at("candidate · process 41000"), 42'000);
  const Events steps = select(document, [](const auto& e) {
    return e["name"] == "ProfilerStep#1" && e.value("cat", "") == "user_annotation";
  });
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0]["ts"], steps[1]["ts"]);
  EXPECT_NE(steps[0]["pid"], steps[1]["pid"]);
  std::set<std::int64_t> ids;
  for (const auto& e : select(document, [](const auto& one) { return one["ph"] == "s"; }))
    EXPECT_TRUE(ids.insert(e["id"].get<std::int64_t>()).second) << "flow id used twice";
  expect_nesting(document);
}

TEST_F(ExportChrome, GzipHoldsTheSameDocument) {
  const std::string plain = dir_ / "t.json", packed = dir_ / "t.json.gz";
  export_chrome({trace_}, {}, plain);
  export_chrome({trace_}, {}, packed);
  std::string text(1 << 20, '\0');
  gzFile in = gzopen(packed.c_str(), "rb");
  ASSERT_NE(in, nullptr);
  text.resize(
      static_cast<std::size_t>(gzread(in, text.data(), static_cast<unsigned>(text.size()))));
  EXPECT_EQ(gzclose(in), Z_OK);
  json a = json::parse(read_file(plain)), b = json::parse(text);
  EXPECT_EQ(a["traceEvents"], b["traceEvents"]);
  EXPECT_EQ(b["traceName"], "t.json.gz");
  EXPECT_LT(std::filesystem::file_size(packed), std::filesystem::file_size(plain) / 4);
}

class FileSizeLimit { // of this process
public:
  explicit FileSizeLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    rlimit now = before_;
    now.rlim_cur = bytes;
    ::setrlimit(RLIMIT_FSIZE, &now);
    std::signal(SIGXFSZ, SIG_IGN);
  }
  ~FileSizeLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }

private:
  rlimit before_{};
};

TEST_F(ExportChrome, AFailedExportLeavesTheOldFileAndNoOther) {
  std::ofstream(dir_ / "t.json") << "old";
  const FileSizeLimit limit(600); // bytes; the compressed document is about 1500
  for (const char* name : {"t.json", "t.json.gz"}) {
    try {
      export_chrome({trace_}, {}, dir_ / name);
      FAIL() << name;
    } catch (const Failure& failure) {
      EXPECT_THAT(failure.what(), HasSubstr("cannot write"));
      EXPECT_THAT(failure.what(), HasSubstr("limit of a file's size"));
    }
    for (const auto& entry : std::filesystem::directory_iterator(dir_ / ""))
      EXPECT_NE(entry.path().extension(), ".partial") << entry.path();
  }
  EXPECT_EQ(read_file(dir_ / "t.json"), "old");
  EXPECT_FALSE(std::filesystem::exists(dir_ / "t.json.gz"));
}

TEST_F(ExportChrome, NeverReplacesADatabaseOrWhatIsNoFile) {
  EXPECT_THAT(why(trace_), HasSubstr("SQLite file"));
  EXPECT_TRUE(read_trace(trace_)); // as before
  std::filesystem::create_directory(dir_ / "folder");
  EXPECT_THAT(why(dir_ / "folder"), test::names("a directory", "name a file"));
  ASSERT_EQ(::mkfifo((dir_ / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(why(dir_ / "pipe"), test::names("a pipe", "name a file"));
  EXPECT_TRUE(std::filesystem::is_fifo(dir_ / "pipe"));
  std::filesystem::create_symlink("loop", dir_ / "loop");
  EXPECT_THAT(why(dir_ / "loop"), HasSubstr("symbolic links"));
}

TEST_F(ExportChrome, ALinkIsFollowed) {
  for (const char* target : {"there.json", "not_yet.json"}) {
    if (std::string(target) == "there.json") std::ofstream(dir_ / target) << "old";
    std::filesystem::remove(dir_ / "link.json");
    std::filesystem::create_symlink(target, dir_ / "link.json");
    EXPECT_EQ(why(dir_ / "link.json"), "");
    EXPECT_TRUE(std::filesystem::is_symlink(dir_ / "link.json"));
    EXPECT_THAT(read_file(dir_ / target), HasSubstr("traceEvents"));
  }
  std::filesystem::remove(dir_ / "link.json");
  std::filesystem::create_symlink(trace_, dir_ / "link.json");
  EXPECT_THAT(why(dir_ / "link.json"), HasSubstr("SQLite file"));
}

TEST_F(ExportChrome, NamesTheFileThatCannotBeMadeOrRead) {
  try {
    export_chrome({trace_}, {}, dir_ / "no/such/folder.json");
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_THAT(failure.what(), HasSubstr("no/such/folder.json: No such"));
  }
  // The advice fits the cause.
  EXPECT_THAT(why(dir_ / "no/such/folder.json"), HasSubstr("directory first"));
  EXPECT_THAT(why(dir_ / "t.json/x.json"), HasSubstr("directory first"));
  std::ofstream(dir_ / "text.sqlite") << "this is not a trace";
  EXPECT_THROW(export_chrome({dir_ / "text.sqlite"}, {}, dir_ / "t.json"), Failure);
}

} // namespace export_chrome_test
} // namespace assay::test
