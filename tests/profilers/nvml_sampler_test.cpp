// NvmlSampler on canned driver answers: good values, errors, unsupported calls, garbage, process
// lists that grow.
#include "profilers/machine/nvml_sampler.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <string>
#include <vector>

#include "profilers/machine/covariate_sampler.h"

namespace assay {
namespace nvml_sampler_test {

using Status = NvmlApi::Status;

// PID_MAX_LIMIT of Linux: no process has a number from here on, so the fake ones are strangers.
constexpr unsigned kNoProcess = 1U << 22;

// What the fake driver answers; one per test.
struct Driver {
  Status init = 0, handle = 0, text = 0, clock = 0, power = 0, temperature = 0, throttle = 0,
         processes = 0;
  unsigned count = 2;
  std::string name = "NVIDIA H200", uuid = "GPU-1234";
  unsigned sm_mhz = 1980, memory_mhz = 3201, milliwatts = 412'500, degrees = 54;
  unsigned long long throttle_bits = 0x24, millijoules = 5'000'000'000;
  std::vector<unsigned> pids{static_cast<unsigned>(::getpid()), kNoProcess, kNoProcess + 1};
  unsigned started_meanwhile = 0; // processes that appear between two list calls
  std::string asked_uuid;
  int shutdowns = 0, list_calls = 0;
};
Driver* driver = nullptr;

Status fill(const std::string& text, char* buffer, unsigned size) {
  std::memset(buffer, 'x', size); // a driver need not terminate
  std::memcpy(buffer, text.data(), std::min<std::size_t>(text.size(), size));
  if (text.size() < size) buffer[text.size()] = '\0';
  return driver->text;
}

Status list_processes(NvmlApi::Device, unsigned* count, NvmlProcess* list) {
  ++driver->list_calls;
  if (driver->processes != 0) return driver->processes;
  const unsigned room = *count;
  *count = static_cast<unsigned>(driver->pids.size());
  if (room < *count) {
    for (unsigned i = 0; i < driver->started_meanwhile; ++i)
      driver->pids.push_back(kNoProcess + 1000 + i);
    return NvmlApi::kInsufficientSize;
  }
  for (unsigned i = 0; i < *count; ++i) list[i] = {driver->pids[i], 1 << 20, ~0U, ~0U};
  return 0;
}

NvmlApi fake_api() {
  NvmlApi api;
  api.init = [] { return driver->init; };
  api.shutdown = [] { return ++driver->shutdowns, 0; };
  api.error_string = [](Status status) { return status == 999 ? nullptr : "Not Supported"; };
  api.driver_version = [](char* text, unsigned size) { return fill("580.159.04", text, size); };
  api.device_count = [](unsigned* count) { return *count = driver->count, 0; };
  api.device_by_index = [](unsigned, NvmlApi::Device*) { return driver->handle; };
  api.device_by_uuid = [](const char* uuid, NvmlApi::Device*) {
    return driver->asked_uuid = uuid, driver->handle;
  };
  api.name = [](NvmlApi::Device, char* text, unsigned size) {
    return fill(driver->name, text, size);
  };
  api.uuid = [](NvmlApi::Device, char* text, unsigned size) {
    return fill(driver->uuid, text, size);
  };
  api.clock = [](NvmlApi::Device, int domain, unsigned* mhz) {
    *mhz = domain == NvmlApi::kSmClock ? driver->sm_mhz : driver->memory_mhz;
    return driver->clock;
  };
  api.power = [](NvmlApi::Device, unsigned* value) {
    return *value = driver->milliwatts, driver->power;
  };
  api.temperature = [](NvmlApi::Device, int, unsigned* value) {
    return *value = driver->degrees, driver->temperature;
  };
  api.throttle_reasons = [](NvmlApi::Device, unsigned long long* bits) {
    return *bits = driver->throttle_bits, driver->throttle;
  };
  api.processes = list_processes;
  api.memory_info = [](NvmlApi::Device, NvmlMemory* memory) {
    return memory->total = 150'754'820'096ULL, 0;
  };
  api.energy = [](NvmlApi::Device, unsigned long long* value) {
    return *value = driver->millijoules, driver->power;
  };
  api.compute_capability = [](NvmlApi::Device, int* major, int* minor) {
    return *major = 8, *minor = 9, driver->clock;
  };
  return api;
}

class NvmlSamplerTest : public testing::Test {
protected:
  NvmlSamplerTest() { driver = &driver_; }
  ~NvmlSamplerTest() override { driver = nullptr; }

  static Covariates sample(bool own_pid_visible = true) {
    Result<NvmlSampler> sampler = NvmlSampler::open("", fake_api(), own_pid_visible);
    EXPECT_TRUE(sampler);
    Covariates seen;
    sampler->sample(seen);
    return seen;
  }

  Driver driver_;
};

TEST_F(NvmlSamplerTest, GoodAnswersArriveInTheLedgersUnits) {
  const Covariates seen = sample();
  EXPECT_EQ(seen.sm_clock_mhz, 1980);
  EXPECT_EQ(seen.memory_clock_mhz, 3201);
  EXPECT_EQ(seen.power_w, 412.5);
  EXPECT_EQ(seen.temperature_c, 54);
  EXPECT_EQ(seen.throttle_reasons, 0x24);
  EXPECT_EQ(seen.foreign_processes, 2);
  EXPECT_FALSE(seen.steal_share); // not its field
  EXPECT_EQ(driver_.shutdowns, 1);
}

TEST_F(NvmlSamplerTest, OpensTheNamedBoardAndSaysWhatItIs) {
  const Result<NvmlSampler> sampler = NvmlSampler::open("GPU-abc", fake_api());
  ASSERT_TRUE(sampler);
  EXPECT_EQ(driver_.asked_uuid, "GPU-abc");
  EXPECT_EQ(sampler->info().name, "NVIDIA H200");
  EXPECT_EQ(sampler->info().uuid, "GPU-1234");
  EXPECT_EQ(sampler->info().driver, "580.159.04");
}

TEST_F(NvmlSamplerTest, FailuresToOpenNameTheBoardAndTheCause) {
  driver_.handle = 6;
  const Result<NvmlSampler> unknown = NvmlSampler::open("GPU-abc", fake_api());
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().message, "NVML finds no GPU GPU-abc: NVML error 6: Not Supported");
  EXPECT_EQ(driver_.shutdowns, 1); // init succeeded, so it is undone

  driver_.init = 999;
  const Result<NvmlSampler> dead = NvmlSampler::open("", fake_api());
  ASSERT_FALSE(dead);
  EXPECT_EQ(dead.error().message, "the NVIDIA driver does not start: NVML error 999: ?");
  EXPECT_EQ(driver_.shutdowns, 1);
}

TEST_F(NvmlSamplerTest, EachUnsupportedValueIsAbsentAlone) {
  driver_.power = NvmlApi::kNotSupported;
  driver_.throttle = NvmlApi::kNotSupported;
  Covariates seen = sample();
  EXPECT_FALSE(seen.power_w);
  EXPECT_FALSE(seen.throttle_reasons);
  EXPECT_TRUE(seen.sm_clock_mhz && seen.temperature_c && seen.foreign_processes);

  driver_.clock = driver_.temperature = driver_.processes = 15; // GPU is lost
  seen = sample();
  EXPECT_FALSE(seen.sm_clock_mhz || seen.memory_clock_mhz || seen.temperature_c ||
               seen.foreign_processes);
}

TEST_F(NvmlSamplerTest, GarbageIsAbsent) {
  driver_.sm_mhz = ~0U;
  driver_.memory_mhz = 0;
  driver_.milliwatts = ~0U;
  driver_.degrees = 4'000'000'000U;
  driver_.throttle_bits = ~0ULL;
  const Covariates seen = sample();
  EXPECT_FALSE(seen.sm_clock_mhz || seen.memory_clock_mhz || seen.power_w || seen.temperature_c);
  EXPECT_FALSE(seen.throttle_reasons);
}

TEST_F(NvmlSamplerTest, NamesWithoutAnEndOrWithBadBytesAreMadePrintable) {
  driver_.name = std::string(500, 'n');
  driver_.uuid = "GPU\xff\x1b[31m";
  const Result<NvmlSampler> sampler = NvmlSampler::open("", fake_api());
  ASSERT_TRUE(sampler);
  EXPECT_EQ(sampler->info().name, std::string(127, 'n'));
  EXPECT_EQ(sampler->info().uuid.find('\x1b'), std::string::npos);
  EXPECT_EQ(sampler->info().uuid.find('\xff'), std::string::npos);
}

TEST_F(NvmlSamplerTest, AGrowingProcessListIsReadAgainAndAnEndlessOneIsAbsent) {
  for (unsigned i = 0; i < 30; ++i) driver_.pids.push_back(kNoProcess + 10 + i);
  driver_.started_meanwhile = 3;
  EXPECT_EQ(sample().foreign_processes, 2 + 30 + 3);
  EXPECT_EQ(driver_.list_calls, 2);

  driver_.started_meanwhile = 1000; // outgrows every retry
  for (unsigned i = 0; i < 100; ++i) driver_.pids.push_back(kNoProcess + 100 + i);
  EXPECT_FALSE(sample().foreign_processes);
}

TEST_F(NvmlSamplerTest, AnEmptyListMeansNobodyElse) {
  driver_.pids.clear();
  EXPECT_EQ(sample().foreign_processes, 0);
}

// A process that takes turns with this one has its parent; it waits while this one is timed.
TEST_F(NvmlSamplerTest, ASiblingIsNoStranger) {
  const pid_t sibling = ::fork();
  if (sibling == 0) {
    ::pause();
    ::_exit(0);
  }
  const pid_t own = ::fork();
  if (own == 0) {
    driver_.pids = {static_cast<unsigned>(::getpid()), static_cast<unsigned>(sibling), 1};
    ::_exit(static_cast<int>(sample().foreign_processes.value_or(99)));
  }
  int status = 0;
  ASSERT_EQ(::waitpid(own, &status, 0), own);
  ::kill(sibling, SIGKILL);
  ::waitpid(sibling, nullptr, 0);
  EXPECT_EQ(WEXITSTATUS(status), 1);
}

TEST_F(NvmlSamplerTest, InAContainerTheListCountsOnlyIfItShowsThisProcess) {
  EXPECT_EQ(sample(false).foreign_processes, 2);
  // One of them may be this process, under its number outside.
  driver_.pids = {kNoProcess, kNoProcess + 1};
  EXPECT_FALSE(sample(false).foreign_processes);
  driver_.pids.clear();
  EXPECT_FALSE(sample(false).foreign_processes);
}

TEST_F(NvmlSamplerTest, TheCombinedSamplerFillsHostAndGpuFields) {
  Result<NvmlSampler> gpu = NvmlSampler::open("", fake_api());
  ASSERT_TRUE(gpu);
  CovariateSampler sampler(std::move(*gpu));
  sampler.begin();
  const Covariates seen = sampler.end();
  EXPECT_TRUE(seen.load1 && seen.voluntary_switches && seen.sm_clock_mhz);
}

TEST_F(NvmlSamplerTest, EnergyIsWhatTheBoardDrewMeanwhile) {
  const auto visit = [&](unsigned long long more) {
    CovariateSampler sampler(*NvmlSampler::open("", fake_api()));
    sampler.begin();
    driver_.millijoules += more;
    return sampler.end().energy_j;
  };
  EXPECT_EQ(visit(2'500'000), 2500);
  EXPECT_FALSE(visit(-1'000'000'000ULL)); // the driver was loaded again
  driver_.power = NvmlApi::kNotSupported;
  EXPECT_FALSE(visit(2'500'000));
}

TEST_F(NvmlSamplerTest, ListsEveryBoardOrSaysWhyThereIsNone) {
  Result<std::vector<GpuInfo>> gpus = list_gpus(fake_api());
  ASSERT_TRUE(gpus);
  EXPECT_EQ(gpus->front().memory_bytes, 150'754'820'096);
  EXPECT_EQ(gpus->front().capability, 89);
  EXPECT_EQ(gpus->size(), 2U);
  EXPECT_EQ(driver_.shutdowns, 1);
  driver_.handle = NvmlApi::kNotSupported;
  gpus = list_gpus(fake_api());
  ASSERT_FALSE(gpus);
  EXPECT_EQ(gpus.error().message, "NVML cannot open GPU 0 of 2: NVML error 3: Not Supported");
  EXPECT_EQ(driver_.shutdowns, 2);
}

TEST(NvmlApi, AMissingOrForeignLibraryIsAnErrorThatNamesIt) {
  const Result<NvmlApi> missing = load_nvml("libassay-no-such-library.so");
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("libassay-no-such-library.so"), std::string::npos);
  const Result<NvmlApi> foreign = load_nvml("libc.so.6");
  ASSERT_FALSE(foreign);
  EXPECT_EQ(foreign.error().message,
            "libc.so.6 has no nvmlInit_v2; the NVIDIA driver is too old (510 or newer is needed)");
}

} // namespace nvml_sampler_test
} // namespace assay
