// MachineInfo on canned files and on this machine; the figures of NoiseCheck.
#include "profilers/machine/machine_info.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "profilers/machine/noise_check.h"

namespace assay {
namespace machine_test {

namespace fs = std::filesystem;

struct Root {
  Root() { fs::create_directories(path / "sys/kernel/random"); }
  ~Root() { fs::remove_all(path); }
  void put(const char* name, const std::string& text) const { std::ofstream(path / name) << text; }
  fs::path path = fs::temp_directory_path() / ("assay_machine_" + std::to_string(::getpid()));
};

TEST(MachineInfo, ReadsModelHypervisorMemoryAndBootId) {
  const Root root;
  root.put("cpuinfo",
           "processor\t: 0\nmodel name\t: AMD EPYC 9B14\nflags\t\t: fpu hypervisor sse\n");
  root.put("meminfo", "MemTotal:       16384 kB\nMemFree: 1 kB\n");
  root.put("sys/kernel/random/boot_id", "ba4ea58d-8866\n");
  const MachineInfo info = machine_info(root.path.string());
  EXPECT_EQ(info.cpu, "AMD EPYC 9B14");
  EXPECT_EQ(info.virtualised, true);
  EXPECT_EQ(info.memory_bytes, 16384 * 1024);
  EXPECT_EQ(info.boot, "ba4ea58d-8866");
}

TEST(MachineInfo, AFlagThatOnlyContainsTheWordIsNoHypervisor) {
  const Root root;
  root.put("cpuinfo", "flags : fpu hypervisor_guest_x sse\n");
  EXPECT_EQ(machine_info(root.path.string()).virtualised, false);
}

TEST(MachineInfo, MissingFilesAreAbsent) {
  const MachineInfo info = machine_info("/nonexistent");
  EXPECT_EQ(info.cpu, "");
  EXPECT_EQ(info.boot, "");
  EXPECT_FALSE(info.memory_bytes);
  EXPECT_FALSE(info.virtualised);
}

TEST(MachineInfo, ThisMachineHasAKernelAHostCoresAndMemory) {
  const MachineInfo info = machine_info();
  EXPECT_TRUE(info.kernel.starts_with("Linux ")) << info.kernel;
  EXPECT_FALSE(info.host.empty());
  EXPECT_GE(info.cores, info.usable_cores);
  EXPECT_GE(info.usable_cores, 1);
  EXPECT_GT(info.memory_bytes.value_or(0), 64 << 20);
}

TEST(NoiseCheck, SpreadIsTheScaledMedianDeviation) {
  // median 10; deviations 1 0 2 1 90 → median 1; one wild slice moves `slowest` only
  const NoiseCheck check = summarize_slices({11, 10, 8, 9, 100});
  EXPECT_DOUBLE_EQ(check.median_ms, 10);
  EXPECT_DOUBLE_EQ(check.spread, 0.14826);
  EXPECT_DOUBLE_EQ(check.slowest, 10);
  EXPECT_EQ(check.slices, 5);
}

TEST(NoiseCheck, EvenCountsTakeTheMiddlePair) {
  EXPECT_DOUBLE_EQ(summarize_slices({1, 2, 4, 8}).median_ms, 3);
  EXPECT_DOUBLE_EQ(summarize_slices({3, 3, 3, 3}).spread, 0);
}

TEST(NoiseCheck, RunsForTheGivenTimeInSlicesOfAboutAMillisecond) {
  const NoiseCheck check = check_noise(0.3);
  EXPECT_GT(check.slices, 30); // 300 when nothing else runs
  EXPECT_GT(check.median_ms, 0.2);
  EXPECT_LT(check.median_ms, 10);
  EXPECT_GE(check.slowest, 1);
}

} // namespace machine_test
} // namespace assay
