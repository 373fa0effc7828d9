// What is not a good trace gets its own message; no bytes make the reader crash or hang.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <random>

#include "core/sqlite/database.h"
#include "core/sqlite/sqlite_file.h"
#include "core/trace/trace_file.h"
#include "tests/core/trace_support.h"

namespace assay {
namespace trace_damage_test {

using testing::HasSubstr;
using namespace test;

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

std::string error_of(const std::string& path) {
  const Result<Trace> trace = read_trace(path);
  return trace ? "" : trace.error().message;
}

TEST(TraceDamage, EachKindOfWrongFileHasItsMessage) {
  const TraceDirectory directory;
  const std::string good = write_small_trace(directory / "good.sqlite"),
                    path = directory / "x.sqlite";
  ASSERT_EQ(error_of(good), "");

  EXPECT_THAT(error_of(path), HasSubstr("no such file"));
  EXPECT_THAT(error_of(directory.string()), HasSubstr("is a directory"));
  write(path, "");
  EXPECT_THAT(error_of(path), HasSubstr("is empty"));
  write(path, "{\"traceEvents\": []}");
  EXPECT_THAT(error_of(path), HasSubstr("not an SQLite"));
  std::filesystem::remove(path);
  {
    const Database other(path, Database::Mode::Create);
    other.execute("CREATE TABLE StringIds(id, value)");
  }
  EXPECT_THAT(error_of(path), HasSubstr("another program"));
  {
    const Database ledger(path, Database::Mode::ReadWrite);
    ledger.execute(fmt::format("PRAGMA application_id = {}", kLedgerApplicationId));
  }
  EXPECT_THAT(error_of(path), HasSubstr("an Assay ledger"));
  write(path, bytes_of(good));
  {
    const Database newer(path, Database::Mode::ReadWrite);
    newer.execute(fmt::format("PRAGMA user_version = {}", kTraceSchema + 1));
  }
  EXPECT_THAT(error_of(path), HasSubstr(fmt::format("schema {} is newer", kTraceSchema + 1)));
  write(path + ".part", bytes_of(good));
  EXPECT_THAT(error_of(path + ".part"), HasSubstr("never finished"));
}

TEST(TraceDamage, EveryTruncationIsAnError) {
  const TraceDirectory directory;
  const std::string whole = bytes_of(write_small_trace(directory / "good.sqlite"));
  const std::string path = directory / "cut.sqlite";
  for (std::size_t size = 1; size < whole.size(); size = size < 200 ? size + 1 : size + 1999) {
    write(path, whole.substr(0, size));
    EXPECT_THAT(error_of(path), HasSubstr("damaged")) << size;
  }
  write(path, whole.substr(0, whole.size() - 1));
  EXPECT_THAT(error_of(path), HasSubstr("cut off after"));
}

TEST(TraceDamage, RowsThatNameNoStringAreDamage) {
  const TraceDirectory directory;
  for (const char* change : {"UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET demangledName = 1 << 40",
                             "UPDATE ASSAY_OPERATOR SET nameId = -1",
                             "UPDATE NVTX_EVENTS SET textId = 12345",
                             "DELETE FROM StringIds WHERE id = 3",
                             "DELETE FROM StringIds",
                             "DELETE FROM TARGET_INFO_SESSION_START_TIME",
                             "DROP TABLE ASSAY_STEP",
                             "ALTER TABLE GPU_METRICS DROP COLUMN value",
                             "DELETE FROM TARGET_INFO_GPU_METRICS",
                             "DROP TABLE ASSAY_STEP; CREATE VIEW ASSAY_STEP AS SELECT 1"}) {
    const std::string path = write_small_trace(directory / "x.sqlite");
    Database(path, Database::Mode::ReadWrite).execute(change);
    EXPECT_THAT(error_of(path), HasSubstr("damaged")) << change;
  }
}

// Random bytes, random places, among them the header and the page headers: an error or a trace.
TEST(TraceDamage, RandomBytesNeverCrashTheReader) {
  const TraceDirectory directory;
  const std::string whole = bytes_of(write_small_trace(directory / "good.sqlite"));
  constexpr std::size_t kPage = 4096;
  ASSERT_EQ(static_cast<unsigned char>(whole[16]) << 8, kPage);
  std::mt19937 random(20261121);
  const auto below = [&](std::size_t bound) { return static_cast<std::size_t>(random()) % bound; };
  int errors = 0, traces = 0;
  for (int round = 0; round < 1500; ++round) {
    std::string bytes = whole;
    for (std::size_t flips = 1 + below(round % 2 == 0 ? 3 : 60); flips > 0; --flips) {
      const std::size_t page = below(bytes.size() / kPage) * kPage;
      // Cell contents stand at the end of a page, its header and cell pointers at the start.
      const std::size_t place = below(2) == 0 ? page + below(256) : page + kPage - 1 - below(1024);
      if (place >= 24 && place < 28)
        continue; // the change counter only says not to check the length
      bytes[place] = static_cast<char>(below(256));
    }
    if (below(4) == 0) bytes.resize(below(bytes.size()));
    const std::string path = directory / "x.sqlite";
    write(path, bytes);
    const Result<Trace> trace = read_trace(path);
    if (trace) {
      ++traces;
      for (const DeviceEvent& event : trace->device) ASSERT_LT(event.name, trace->names.size());
      for (const HostEvent& event : trace->spans) ASSERT_LT(event.thread, trace->threads.size());
    } else {
      ++errors;
      ASSERT_FALSE(trace.error().message.empty());
    }
  }
  EXPECT_GT(errors, 200); // the changes hit something …
  EXPECT_GT(traces, 100); // … and not always the same
}

} // namespace trace_damage_test
} // namespace assay
