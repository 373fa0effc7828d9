// NvmlSampler: clocks, power, temperature, throttle reasons and foreign processes of one GPU, at
// the moment of the call.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/ledger/ledger.h"
#include "profilers/machine/nvml_api.h"

namespace assay {

struct GpuInfo {
  std::string name, uuid, driver; // "" where the driver does not report it
  std::int64_t memory_bytes = 0;  // 0: unknown
  int capability = 0;             // compute capability, 90 is 9.0; 0: unknown
};

// False in a container, where NVML lists processes by numbers of another namespace, or not at all.
bool in_initial_pid_namespace();

class NvmlSampler {
public:
  // The GPU with this UUID ("GPU-…", as CUDA reports it); with "" the first one. NVML numbers
  // boards in another order than CUDA and ignores CUDA_VISIBLE_DEVICES, so a worker names its board
  // by UUID.
  // `own_pid_visible`: the driver lists this process under its getpid(); not so in a container.
  static Result<NvmlSampler>
  open(const std::string& uuid, NvmlApi api, bool own_pid_visible = in_initial_pid_namespace());
  static Result<NvmlSampler> open(const std::string& uuid = "");

  const GpuInfo& info() const { return info_; }
  // The GPU fields of Covariates; a value that the board does not report, or that cannot be true,
  // is absent.
  void sample(Covariates& into);
  // What the board drew since the driver was loaded; absent where it has no counter.
  std::optional<double> energy_j() const;

private:
  std::optional<double> read_clock(int domain) const;
  std::optional<std::int64_t> count_foreign_processes();

  std::shared_ptr<const NvmlApi> nvml_;
  NvmlApi::Device device_ = nullptr;
  GpuInfo info_;
  std::vector<NvmlProcess> processes_; // room for the list, kept between samples
  bool own_pid_visible_ = true;
};

// Every GPU that NVML sees, with the driver's version; the error gives the reason if there is none.
Result<std::vector<GpuInfo>> list_gpus(const NvmlApi& api);
Result<std::vector<GpuInfo>> list_gpus();

} // namespace assay
