// HostSampler on canned /proc files (arithmetic, absent and damaged files) and on the real ones
// (sanity, cost).
#include "profilers/machine/host_sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "profilers/machine/covariate_sampler.h"
#include "profilers/machine/package_energy.h"

namespace assay {
namespace host_sampler_test {

namespace fs = std::filesystem;

class FakeProc : public testing::Test {
protected:
  FakeProc() : root_(fs::temp_directory_path() / ("assay_proc_" + std::to_string(::getpid()))) {
    fs::remove_all(root_);
    put("stat", "cpu  100 0 50 800 10 5 5 30 20 0\ncpu0 1 2 3\n");
    put("loadavg", "1.25 0.50 0.10 2/100 4242\n");
    put("self/task/11/schedstat", "5000 1000000 7\n");
    put("self/task/12/schedstat", "5000 3000000 7\n");
  }
  ~FakeProc() override { fs::remove_all(root_); }

  void put(const std::string& path, const std::string& text) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  void remove(const std::string& path) const { fs::remove_all(root_ / path); }
  HostSampler sampler() const { return HostSampler(root_.string()); }

  fs::path root_;
};

TEST_F(FakeProc, StealIsItsShareOfAllTicksLessOneWithoutGuestTime) {
  HostSampler host = sampler();
  host.begin();
  put("stat",
      "cpu  140 0 60 820 10 5 5 60 55 0\n"); // 40 + 10 + 20 + 30 ticks; guest is inside user
  const Covariates seen = host.end();
  ASSERT_TRUE(seen.steal_share);
  EXPECT_DOUBLE_EQ(*seen.steal_share, 0.29);
  EXPECT_DOUBLE_EQ(seen.load1.value(), 1.25);
}

// A visit of a few milliseconds lasts a few ticks; one that was nearly full before it is no sign.
TEST_F(FakeProc, OneTickOfStealIsNotCertainlyOfThisVisit) {
  HostSampler host = sampler();
  host.begin();
  put("stat", "cpu  102 0 50 800 10 5 5 31 20 0\n"); // 2 + 1 ticks
  EXPECT_DOUBLE_EQ(host.end().steal_share.value(), 0);
}

TEST_F(FakeProc, StealIsUnknownWithinOneTickOrWhenCountersRunBackwards) {
  HostSampler host = sampler();
  host.begin();
  EXPECT_FALSE(host.end().steal_share);
  put("stat", "cpu  200 0 50 800 10 5 5 20 20 0\n");
  EXPECT_FALSE(host.end().steal_share);
}

TEST_F(FakeProc, RunDelaySumsThreadsOverWallTime) {
  HostSampler host = sampler();
  const auto before = std::chrono::steady_clock::now();
  host.begin();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  put("self/task/11/schedstat", "9000 5000000 8\n"); // + 4 ms
  put("self/task/12/schedstat", "9000 4000000 8\n"); // + 1 ms
  put("self/task/13/schedstat", "9000 2000000 8\n"); // born in the interval: all of its 2 ms
  const Covariates seen = host.end();
  const double wall_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - before).count();
  ASSERT_TRUE(seen.run_delay_share);
  EXPECT_LE(*seen.run_delay_share, 7.0 / 20.0);
  EXPECT_GE(*seen.run_delay_share, 7.0 / wall_ms);
}

TEST_F(FakeProc, ThreadsThatEndedAreForgottenAndTheRestStillCounts) {
  HostSampler host = sampler();
  host.begin();
  remove("self/task/12");
  put("self/task/11/schedstat", "9000 1000000 8\n");
  EXPECT_DOUBLE_EQ(host.end().run_delay_share.value(), 0.0);
}

TEST_F(FakeProc, WhatCannotBeReadIsAbsentNotZero) {
  remove("stat");
  remove("loadavg");
  remove("self");
  HostSampler host = sampler();
  host.begin();
  const Covariates seen = host.end();
  EXPECT_FALSE(seen.steal_share);
  EXPECT_FALSE(seen.load1);
  EXPECT_FALSE(seen.run_delay_share);
  EXPECT_TRUE(seen.voluntary_switches); // getrusage, not a file
}

TEST_F(FakeProc, DamagedTextIsAbsent) {
  for (const char* text : {"",
                           "cpu",
                           "cpu  1 2 3\n",
                           "cpu  1 2 x 4 5 6 7 8\n",
                           "cpu  1 2 3 4 5 6 7 -8\n",
                           "intr 5\n"}) {
    put("stat", text);
    put("loadavg", "?");
    put("self/task/11/schedstat", "9000");
    put("self/task/12/schedstat", "nan nan");
    HostSampler host = sampler();
    host.begin();
    const Covariates seen = host.end();
    EXPECT_FALSE(seen.steal_share) << text;
    EXPECT_FALSE(seen.load1);
    EXPECT_FALSE(seen.run_delay_share);
  }
}

class PackageEnergyTest : public FakeProc {
protected:
  void put_counter(int package, const std::string& microjoules) const {
    put("intel-rapl:" + std::to_string(package) + "/energy_uj", microjoules);
  }
};

TEST_F(PackageEnergyTest, SumsPackagesAndSurvivesACounterThatStartsAgain) {
  for (const int package : {0, 1}) {
    put_counter(package, "900000");
    put("intel-rapl:" + std::to_string(package) + "/max_energy_range_uj", "1000000");
  }
  PackageEnergy energy(root_.string());
  energy.begin();
  put_counter(0, "950000");
  put_counter(1, "200000"); // + 1 J - 0.7 J
  EXPECT_DOUBLE_EQ(energy.end().value(), 0.35);
}

TEST_F(PackageEnergyTest, IsUnknownWithoutACounterThatCanBeRead) {
  PackageEnergy none((root_ / "nothing").string());
  none.begin();
  EXPECT_FALSE(none.end());
  put_counter(0, "900000");
  put_counter(1, "900000");
  PackageEnergy one(root_.string());
  one.begin();
  put_counter(1, "");
  EXPECT_FALSE(one.end());
}

TEST(HostSampler, CountsARealWaitAsASwitchAndSpinningThreadsAsRunDelay) {
  HostSampler host;
  host.begin();
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads; // more than cores, so that they must wait for each other
  for (unsigned i = 0; i < 2 * std::thread::hardware_concurrency() + 1; ++i)
    threads.emplace_back([&] {
      while (!stop) {
      }
    });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const Covariates seen = host.end();
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(seen.voluntary_switches.value(), 1); // the sleep
  if (!fs::exists("/proc/self/schedstat"))
    GTEST_SKIP() << "this kernel keeps no scheduler statistics";
  EXPECT_GT(seen.run_delay_share.value(), 0.5);
}

TEST(HostSampler, AnIdleIntervalHasLittleRunDelay) {
  if (!fs::exists("/proc/self/schedstat"))
    GTEST_SKIP() << "this kernel keeps no scheduler statistics";
  HostSampler host;
  host.begin();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const Covariates seen = host.end();
  EXPECT_GE(seen.run_delay_share.value(), 0.0);
  EXPECT_LT(*seen.run_delay_share, 0.2);
}

TEST(CovariateSampler, APairCostsLessThanTwoHundredMicrosecondsAndLeavesGpuFieldsAbsent) {
  CovariateSampler sampler;
  std::vector<double> cost_us;
  Covariates seen;
  for (int i = 0; i < 200; ++i) {
    const auto start = std::chrono::steady_clock::now();
    sampler.begin();
    seen = sampler.end();
    cost_us.push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
            .count());
  }
  std::nth_element(cost_us.begin(), cost_us.begin() + 100, cost_us.end());
  RecordProperty("median_us", std::to_string(cost_us[100]));
  std::printf("median of a begin/end pair: %.1f us\n", cost_us[100]);
  EXPECT_LT(cost_us[100], 200); // 2 cores: ~30 us; /proc/stat grows with cores and interrupts
  EXPECT_FALSE(seen.sm_clock_mhz);
  EXPECT_FALSE(seen.foreign_processes);
}

} // namespace host_sampler_test
} // namespace assay
