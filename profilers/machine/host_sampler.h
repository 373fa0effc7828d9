// HostSampler: what the machine's cores did to this process during an interval: time stolen by the
// hypervisor, time its threads waited for a core, context switches, load. Counters are read at both
// ends; nothing runs in between.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "core/ledger/ledger.h"
#include "profilers/machine/proc_file.h"

namespace assay {

class HostSampler {
public:
  explicit HostSampler(const std::string& proc = "/proc"); // another root: canned files in tests
  ~HostSampler();
  HostSampler(HostSampler&&) noexcept;

  void begin();
  // The host fields of Covariates for the time since begin(). May be called again: the interval
  // then is longer.
  Covariates end();

private:
  struct CpuTime {
    long long total = 0, steal = 0; // clock ticks of all cores together
  };
  struct Switches {
    std::int64_t voluntary = 0, involuntary = 0;
  };
  struct Thread {
    ProcFile schedstat;
    long long delay_at_begin_ns = 0;
    long long delay_ns = 0;
  };

  std::optional<CpuTime> read_cpu_time() const;
  std::optional<double> read_load() const;
  static std::optional<Switches> read_switches();
  // Reads every thread's run delay, follows threads that came and went; false if threads cannot be
  // listed or read.
  bool update_threads();
  bool update_thread(int tid, Thread& thread);
  std::optional<double> run_delay_share(std::chrono::nanoseconds wall);

  struct Directory;
  std::string proc_;
  ProcFile stat_, loadavg_;
  std::unique_ptr<Directory> tasks_;
  std::map<int, Thread> threads_; // by thread id
  bool threads_known_ = false;
  std::chrono::steady_clock::time_point begin_time_;
  std::optional<CpuTime> begin_cpu_;
  std::optional<Switches> begin_switches_;
};

} // namespace assay
