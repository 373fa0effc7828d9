// MachineInfo: which machine this is, for `assay doctor` and for a launch's identity. Unknown text
// is "".
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace assay {

struct MachineInfo {
  std::string cpu, kernel, host, boot, os;
  int cores = 0;        // online
  int usable_cores = 0; // this process may run on (affinity)
  std::optional<std::int64_t> memory_bytes;
  std::optional<bool> virtualised; // the CPU reports a hypervisor
};

MachineInfo machine_info(const std::string& proc = "/proc"); // another root: canned files in tests

} // namespace assay
