#include "profilers/monitor/process_table.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <system_error>
#include <utility>

#include "profilers/machine/proc_file.h"

namespace assay {

namespace {

namespace fs = std::filesystem;

// Columns of /proc/PID/stat behind the name in brackets (man 5 proc_pid_stat), from 0.
constexpr int kUserTicks = 11, kSystemTicks = 12, kStart = 19, kResidentPages = 21;

struct Stat {
  std::string name;
  long long busy = 0, started = 0, resident_pages = 0;
};

// The name may contain blanks and brackets: it ends at the last one.
std::optional<Stat> read_stat(const std::string& path) {
  const std::optional<std::string> text = read_whole_file(path);
  if (!text) return std::nullopt;
  const std::size_t begin = text->find('('), end = text->rfind(')');
  if (begin == std::string::npos || end == std::string::npos || end < begin) return std::nullopt;
  Stat stat;
  stat.name = text->substr(begin + 1, end - begin - 1);
  std::string_view rest = std::string_view(*text).substr(end + 1);
  for (int column = 0; column <= kResidentPages; ++column) {
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
    const std::string_view word = rest.substr(0, rest.find(' '));
    rest.remove_prefix(word.size());
    long long value = 0; // letters and -1 of other columns stay unread
    std::from_chars(word.data(), word.data() + word.size(), value);
    if (column == kUserTicks || column == kSystemTicks) stat.busy += value;
    if (column == kStart) stat.started = value;
    if (column == kResidentPages) stat.resident_pages = value;
  }
  return stat;
}

std::string command_of(const std::string& directory) {
  std::string words = read_whole_file(directory + "/cmdline").value_or("");
  while (!words.empty() && words.back() == '\0') words.pop_back();
  std::replace(words.begin(), words.end(), '\0', ' ');
  return words;
}

std::optional<int> pid_of(const fs::path& directory) {
  const std::string name = directory.filename();
  int pid = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
  if (error != std::errc{} || end != name.data() + name.size()) return std::nullopt;
  return pid;
}

} // namespace

ProcessTable::ProcessTable(std::string proc) : proc_(std::move(proc)) {}

std::vector<ProcessUse> ProcessTable::read() {
  const auto now = std::chrono::steady_clock::now();
  const double seconds = std::chrono::duration<double>(now - std::exchange(read_at_, now)).count();
  const auto ticks_per_second = static_cast<double>(::sysconf(_SC_CLK_TCK));
  const auto page = static_cast<std::int64_t>(::sysconf(_SC_PAGE_SIZE));
  std::map<int, Ticks> ticks;
  std::vector<ProcessUse> processes;
  std::error_code unreadable; // a process may end while it is read
  for (const fs::directory_entry& entry : fs::directory_iterator(proc_, unreadable)) {
    const std::optional<int> pid = pid_of(entry.path());
    if (!pid) continue;
    const std::string directory = entry.path().string();
    const std::optional<Stat> stat = read_stat(directory + "/stat");
    if (!stat || stat->resident_pages == 0) continue;
    ProcessUse use{.pid = *pid,
                   .name = stat->name,
                   .command = command_of(directory),
                   .resident_bytes = stat->resident_pages * page};
    const auto before = last_.find(*pid);
    if (before != last_.end() && before->second.started == stat->started)
      use.cores =
          static_cast<double>(stat->busy - before->second.busy) / ticks_per_second / seconds;
    ticks[*pid] = {stat->busy, stat->started};
    processes.push_back(std::move(use));
  }
  last_ = std::move(ticks);
  return processes;
}

std::string open_file_of(int pid, const std::string& name, const std::string& proc) {
  std::error_code refused;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(proc + "/" + std::to_string(pid) + "/fd", refused)) {
    const fs::path file = fs::read_symlink(entry.path(), refused);
    if (!refused && file.filename() == name) return file.string();
  }
  return "";
}

} // namespace assay
