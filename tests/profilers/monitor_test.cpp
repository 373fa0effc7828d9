// The monitor: processes from canned files of /proc and from the real one, with planted work and
// memory; boards on canned driver answers; words; the last row of a training's log.
#include <gmock/gmock.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include "profilers/monitor/boards.h"
#include "profilers/monitor/meter_values.h"
#include "profilers/monitor/process_table.h"
#include "profilers/monitor/train_rows.h"
#include "tests/scratch.h"

namespace assay {
namespace monitor_test {

namespace fs = std::filesystem;
using testing::DoubleNear;
using testing::ElementsAre;
using testing::Optional;
using testing::Pair;

void write(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

// User and system ticks, and pages of main memory; process 7 began at tick 50.
std::string stat_line(long long user, long long system, long long pages) {
  return "7 (two (words) x) S 1 7 7 0 -1 4194560 9 9 9 9 " + std::to_string(user) + " " +
         std::to_string(system) + " 0 0 20 0 2 0 50 999 " + std::to_string(pages) + " 1 1\n";
}

TEST(ProcessTable, ReadsNamesMemoryAndTheTimeSinceTheReadingBefore) {
  const test::Scratch scratch;
  const fs::path proc = scratch.path();
  write(proc / "7" / "stat", stat_line(100, 20, 30));
  write(proc / "7" / "cmdline", std::string("assay\0run\0m.toml\0", 17));
  write(proc / "9" / "stat", "9 (kworker) I 2 0 0 0 -1 1 0 0 0 0 5 5 0 0 20 0 1 0 3 0 0 1 1\n");
  write(proc / "self" / "stat", stat_line(1, 1, 1));
  ProcessTable table(proc.string());
  std::vector<ProcessUse> processes = table.read();
  ASSERT_EQ(processes.size(), 1U) << "neither the kernel's thread nor what is no number";
  EXPECT_EQ(processes[0].name, "two (words) x");
  EXPECT_EQ(processes[0].command, "assay run m.toml");
  EXPECT_EQ(processes[0].resident_bytes, 30 * ::sysconf(_SC_PAGE_SIZE));
  EXPECT_EQ(processes[0].cores, std::nullopt);
  const auto start = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  write(proc / "7" / "stat", stat_line(101, 22, 30));
  processes = table.read();
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const double cores = 3.0 / static_cast<double>(::sysconf(_SC_CLK_TCK)) / seconds;
  EXPECT_THAT(processes.at(0).cores, Optional(DoubleNear(cores, 0.2 * cores)));
  std::string again = stat_line(400, 22, 30);
  again.replace(again.find(" 50 "), 4, " 60 ");
  write(proc / "7" / "stat", again);
  EXPECT_EQ(table.read().at(0).cores, std::nullopt) << "another process with that number";
}

// Memory that is really there: a compiler may leave out what nobody reads.
class Planted {
public:
  explicit Planted(std::size_t bytes) : memory_(new char[bytes]) {
    volatile char* const first = memory_.get();
    for (std::size_t i = 0; i < bytes; i += 4096) first[i] = 1;
  }

private:
  std::unique_ptr<char[]> memory_;
};

ProcessUse own(ProcessTable& table) {
  for (ProcessUse& use : table.read())
    if (use.pid == ::getpid()) return use;
  throw std::runtime_error("this process is not in the table");
}

TEST(ProcessTable, SeesPlantedWorkInCoresAndPlantedMemoryInMemory) {
  ProcessTable table;
  const std::int64_t before = own(table).resident_bytes;
  const auto start = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - start < std::chrono::milliseconds(300)) {
  }
  const ProcessUse worked = own(table);
  EXPECT_GT(worked.cores.value(), 0.2); // other tests may share the core
  EXPECT_LT(worked.resident_bytes - before, 50'000'000);
  const Planted planted(500'000'000);
  const ProcessUse filled = own(table);
  EXPECT_NEAR(static_cast<double>(filled.resident_bytes - worked.resident_bytes), 5e8, 3e7);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  own(table);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LT(own(table).cores.value(), 0.1);
}

// The machine's memory: Telemetry.HostMetersReadCannedFiles. A kernel hands out pages that were
// freed a moment ago without counting them as used.
TEST(MachineMeters, SeePlantedWork) {
  const std::vector<TelemetryMeter> meters = machine_meters();
  MeterValues values(metrics_of(meters));
  read_meters(meters, values);
  const auto start = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - start < std::chrono::milliseconds(300)) {
  }
  read_meters(meters, values);
  const double cores = static_cast<double>(std::thread::hardware_concurrency());
  EXPECT_GT(values.value("CPU busy [%]").value(), 100 / cores / 2);
  EXPECT_GT(values.value("Machine memory used [MiB]").value(), 0);
}

TEST(ProcessTable, FindsAnOpenFileByItsName) {
  const test::Scratch scratch;
  const fs::path file = fs::canonical(scratch.path()) / kTrainLogName;
  EXPECT_EQ(open_file_of(::getpid(), kTrainLogName), "");
  std::ofstream open(file);
  EXPECT_EQ(open_file_of(::getpid(), kTrainLogName), file.string());
  EXPECT_EQ(open_file_of(-1, kTrainLogName), "");
}

TEST(TrainRows, TheLastWholeRowCounts) {
  const test::Scratch scratch;
  const std::string path = (fs::path(scratch.path()) / kTrainLogName).string();
  EXPECT_EQ(last_train_row(path), std::nullopt);
  write(path, "step,loss,eval_loss,data_wait\n");
  EXPECT_EQ(last_train_row(path), std::nullopt);
  write(path, "step,loss,eval_loss,data_wait\n1,2.5,,0.25\n2,2.0,2.1,0.5\n3,1.");
  const std::optional<TrainRow> row = last_train_row(path);
  ASSERT_TRUE(row);
  EXPECT_THAT(
      *row,
      ElementsAre(
          Pair("data_wait", 0.5), Pair("eval_loss", 2.1), Pair("loss", 2.0), Pair("step", 2)));
  EXPECT_EQ(train_row_text(*row), "step 2, loss 2.0000, perplexity 7.389, 50.0 % waits for data");
  write(path, "step,loss,eval_loss,data_wait\n1,2.5,,0.25\n");
  EXPECT_FALSE(last_train_row(path).value().contains("eval_loss"));
}

TEST(MeterValues, WordsLeaveOutWhatHasNoValue) {
  MeterValues values({{"GPU busy [%]", "NVML", "ok"},
                      {"Power [W]", "NVML", "not permitted"},
                      {"Throttle reasons [bits]", "NVML", "ok"},
                      {"CPU busy [%]", "HOST", "ok"},
                      {"Resident memory [MiB]", "HOST", "ok"}});
  EXPECT_EQ(board_text(values) + short_text(values), "");
  values.set(3, 97);
  values.set(4, 512);
  EXPECT_EQ(short_text(values), "CPU 97 % 512.0 MiB");
  values.set(0, 98);
  values.set(2, 0x1 | 0x4 | 0x40);
  EXPECT_EQ(short_text(values), "GPU 98 %");
  EXPECT_EQ(board_text(values),
            "98 % busy, slowed by software power cap, hardware thermal slowdown");
  values.clear();
  EXPECT_EQ(host_text(values), "");
}

TEST(Boards, HaveTheirMetersAndTheMemoryOfTheirProcesses) {
  NvmlApi api;
  static int users = 0;
  api.init = [] { return ++users, 0; };
  api.shutdown = [] { return --users, 0; };
  api.error_string = [](NvmlApi::Status) { return "Not Supported"; };
  api.driver_version = [](char* text, unsigned) { return text[0] = '5', 0; };
  api.name = [](NvmlApi::Device, char* text, unsigned) { return text[0] = 'H', 0; };
  api.uuid = [](NvmlApi::Device, char* text, unsigned) { return text[0] = 'U', 0; };
  api.device_count = [](unsigned* count) { return *count = 2, 0; };
  static std::array<unsigned, 2> numbers{1, 2}; // of the boards, which devices point to
  api.device_by_index = [](unsigned index, NvmlApi::Device* device) {
    return *device = &numbers.at(index), 0;
  };
  api.power = [](NvmlApi::Device device, unsigned* value) {
    if (users == 0) return NvmlApi::kNotSupported; // a driver's library would be gone
    return *value = *static_cast<unsigned*>(device) * 1000, 0;
  };
  api.field_values = [](NvmlApi::Device, int, NvmlFieldValue* field) {
    field->status = field->field == NvmlApi::kPowerInstant ? 0 : NvmlApi::kNotSupported;
    field->value.number = 900'000;
    return 0;
  };
  api.processes = [](NvmlApi::Device device, unsigned* count, NvmlProcess* list) {
    const unsigned room = std::exchange(*count, 20);
    if (room < 20) return NvmlApi::kInsufficientSize;
    for (unsigned i = 0; i < 20; ++i)
      list[i] = {100 + i / 2, std::size_t{*static_cast<unsigned*>(device)} << 20, ~0U, ~0U};
    return NvmlApi::kSuccess;
  };
  Result<std::vector<Board>> boards = open_boards(api);
  ASSERT_TRUE(boards);
  ASSERT_EQ(boards->size(), 2U);
  MeterValues values(metrics_of((*boards)[1].meters));
  read_meters((*boards)[1].meters, values);
  EXPECT_EQ(values.value("Power [W]"), 2);
  EXPECT_EQ(values.value("Module power [W]"), 900);
  EXPECT_EQ(values.value("NVLink sent [KiB/s]"), std::nullopt);
  const std::map<int, std::int64_t> memory = (*boards)[1].memory_of_processes();
  EXPECT_EQ(memory.size(), 10U);
  EXPECT_EQ(memory.at(109), 2 * (2 << 20)) << "two contexts of one process";
  std::vector<TelemetryMeter> meters = std::move((*boards)[0].meters);
  boards->clear();
  MeterValues outlived(metrics_of(meters));
  read_meters(meters, outlived);
  EXPECT_EQ(outlived.value("Power [W]"), 1) << "meters keep NVML open without their board";
  meters.clear();
  EXPECT_EQ(users, 0);
}

} // namespace monitor_test
} // namespace assay
