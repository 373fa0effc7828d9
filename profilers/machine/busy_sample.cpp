#include "profilers/machine/busy_sample.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "profilers/machine/machine_info.h"

namespace assay {

Covariates sample_busy_machine(CovariateSampler& sampler, int threads, double seconds) {
  if (threads == 0) threads = machine_info().usable_cores;
  std::atomic<bool> done = false;
  std::vector<std::jthread> computing;
  for (int i = 0; i < threads; ++i)
    computing.emplace_back([&done] {
      volatile std::uint64_t work = 1;
      while (!done.load(std::memory_order_relaxed)) work = work * 6364136223846793005ULL + 1;
    });
  sampler.begin(); // threads of the interval are those that exist at both ends
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  const Covariates covariates = sampler.end();
  done = true;
  return covariates;
}

} // namespace assay
