#include "profilers/machine/machine_info.h"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <string_view>

#include "core/text.h"
#include "profilers/machine/proc_file.h"

namespace assay {
namespace {

std::string_view trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\n\"");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\n\"") - first + 1);
}

// The value of the first line "key<blanks><separator>value", or nothing.
std::optional<std::string_view>
value_of(std::string_view text, std::string_view key, char separator) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const std::size_t at = line.find(separator);
    if (at != std::string_view::npos && trim(line.substr(0, at)) == key)
      return trim(line.substr(at + 1));
  }
  return std::nullopt;
}

void read_cpu(const std::string& proc, MachineInfo& info) {
  const std::optional<std::string> text = read_whole_file(proc + "/cpuinfo");
  if (!text) return;
  if (const auto model = value_of(*text, "model name", ':')) info.cpu = printable(*model);
  if (const auto flags = value_of(*text, "flags", ':'))
    info.virtualised = (" " + std::string(*flags) + " ").find(" hypervisor ") != std::string::npos;
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
}

} // namespace

MachineInfo machine_info(const std::string& proc) {
  MachineInfo info;
  read_cpu(proc, info);
  if (const auto text = read_whole_file(proc + "/meminfo"))
    if (auto value = value_of(*text, "MemTotal", ':'))
      if (const auto kilobytes = take_count(*value)) info.memory_bytes = *kilobytes * 1024;
  if (const auto boot = read_whole_file(proc + "/sys/kernel/random/boot_id"))
    info.boot = printable(trim(*boot));
  if (const auto text = read_whole_file("/etc/os-release"))
    if (const auto name = value_of(*text, "PRETTY_NAME", '=')) info.os = printable(*name);
  utsname names{};
  if (::uname(&names) == 0) {
    info.kernel = std::string(names.sysname) + " " + names.release;
    info.host = printable(names.nodename);
  }
  info.cores = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  info.usable_cores = usable_cores();
  return info;
}

} // namespace assay
