#include "profilers/machine/host_sampler.h"

#include <dirent.h>
#include <sys/resource.h>

#include <charconv>
#include <set>
#include <string_view>

namespace assay {

struct HostSampler::Directory {
  explicit Directory(const std::string& path) : handle(::opendir(path.c_str())) {}
  ~Directory() {
    if (handle != nullptr) ::closedir(handle);
  }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  DIR* handle;
};

HostSampler::HostSampler(const std::string& proc)
    : proc_(proc), stat_(proc + "/stat"), loadavg_(proc + "/loadavg"),
      tasks_(std::make_unique<Directory>(proc + "/self/task")) {}

HostSampler::~HostSampler() = default;
HostSampler::HostSampler(HostSampler&&) noexcept = default;

// First line of /proc/stat: "cpu user nice system idle iowait irq softirq steal guest guest_nice",
// in ticks of 10 ms. guest is part of user and guest_nice of nice (proc(5)), so the total is the
// first eight.
std::optional<HostSampler::CpuTime> HostSampler::read_cpu_time() const {
  char buffer[256];
  std::optional<std::string_view> text = stat_.read(buffer);
  if (!text || !text->starts_with("cpu ")) return std::nullopt;
  text->remove_prefix(4);
  CpuTime time;
  for (int field = 0; field < 8; ++field) {
    const std::optional<long long> ticks = take_count(*text);
    if (!ticks) return std::nullopt;
    time.total += *ticks;
    time.steal = *ticks;
  }
  return time;
}

std::optional<double> HostSampler::read_load() const {
  char buffer[64];
  const std::optional<std::string_view> text = loadavg_.read(buffer);
  if (!text) return std::nullopt;
  double load = 0;
  const auto [rest, error] = std::from_chars(text->data(), text->data() + text->size(), load);
  if (error != std::errc{} || load < 0) return std::nullopt;
  return load;
}

std::optional<HostSampler::Switches> HostSampler::read_switches() {
  rusage usage{};
  if (::getrusage(RUSAGE_SELF, &usage) != 0) return std::nullopt;
  return Switches{usage.ru_nvcsw, usage.ru_nivcsw};
}

// schedstat: "ran_ns waited_ns timeslices"; the second is the time on a run queue without a core.
bool HostSampler::update_thread(int tid, Thread& thread) {
  for (int attempt = 0; attempt < 2; ++attempt) {
    char buffer[96];
    std::optional<std::string_view> text = thread.schedstat.read(buffer);
    if (text && take_count(*text)) {
      if (const std::optional<long long> waited = take_count(*text)) {
        thread.delay_ns = *waited;
        return true;
      }
    }
    // Not open yet, or it belongs to an earlier thread of this id: that one's file stays unreadable
    // for good.
    thread = Thread{ProcFile(proc_ + "/self/task/" + std::to_string(tid) + "/schedstat")};
  }
  return false;
}

bool HostSampler::update_threads() {
  if (tasks_->handle == nullptr) return false;
  ::rewinddir(tasks_->handle);
  std::set<int> alive;
  bool read_any = false;
  while (const dirent* entry = ::readdir(tasks_->handle)) {
    const std::string_view name = entry->d_name;
    int tid = 0;
    const auto [rest, error] = std::from_chars(name.data(), name.data() + name.size(), tid);
    if (error != std::errc{} || rest != name.data() + name.size()) continue;
    if (!update_thread(tid, threads_[tid])) continue; // ended between listing and reading
    alive.insert(tid);
    read_any = true;
  }
  std::erase_if(threads_, [&](const auto& item) { return !alive.contains(item.first); });
  return read_any;
}

std::optional<double> HostSampler::run_delay_share(std::chrono::nanoseconds wall) {
  if (!threads_known_ || !update_threads() || wall.count() <= 0) return std::nullopt;
  long long delay_ns =
      0; // a thread born in the interval counts from its birth; one that ended is lost
  for (const auto& [tid, thread] : threads_) delay_ns += thread.delay_ns - thread.delay_at_begin_ns;
  return static_cast<double>(delay_ns) / static_cast<double>(wall.count());
}

void HostSampler::begin() {
  begin_cpu_ = read_cpu_time();
  begin_switches_ = read_switches();
  threads_known_ = update_threads();
  for (auto& [tid, thread] : threads_) thread.delay_at_begin_ns = thread.delay_ns;
  begin_time_ = std::chrono::steady_clock::now();
}

Covariates HostSampler::end() {
  const auto wall = std::chrono::steady_clock::now() - begin_time_;
  Covariates result;
  result.run_delay_share = run_delay_share(wall);
  if (const std::optional<Switches> now = read_switches(); now && begin_switches_) {
    result.voluntary_switches = now->voluntary - begin_switches_->voluntary;
    result.involuntary_switches = now->involuntary - begin_switches_->involuntary;
  }
  // Within one tick nothing is known about steal. The kernel counts a tick when it is full, so most
  // of the first one may have been stolen before this visit: only what follows is certain.
  const std::optional<CpuTime> cpu = read_cpu_time();
  if (cpu && begin_cpu_ && cpu->total > begin_cpu_->total && cpu->steal >= begin_cpu_->steal)
    result.steal_share = static_cast<double>(std::max(0LL, cpu->steal - begin_cpu_->steal - 1)) /
                         static_cast<double>(cpu->total - begin_cpu_->total);
  result.load1 = read_load();
  return result;
}

} // namespace assay
