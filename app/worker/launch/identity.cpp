#include "app/worker/launch/identity.h"

#include <ATen/Parallel.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAFunctions.h>
#include <torch/version.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "core/build_id.h"
#include "core/result.h"
#include "model/config/no_gpu.h"
#include "model/layout/parallel.h"
#include "profilers/machine/machine_info.h"

namespace assay::worker {

namespace {

std::string relevant_environment() {
  std::string result;
  for (char** entry = environ; *entry != nullptr; ++entry)
    for (const char* prefix :
         {"NCCL_", "OMP_", "GOMP_", "MKL_", "KMP_", "CUDA_", "TORCH_", "PYTORCH_", "ONEDNN_"})
      if (std::strncmp(*entry, prefix, std::strlen(prefix)) == 0)
        result += std::string(*entry) + "\n";
  return result;
}

std::string gpu_uuid() {
  const auto* bytes =
      reinterpret_cast<const unsigned char*>(at::cuda::getCurrentDeviceProperties()->uuid.bytes);
  std::string uuid = "GPU-";
  for (int i = 0; i < 16; ++i)
    uuid += fmt::format("{}{:02x}", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", bytes[i]);
  return uuid;
}

} // namespace

std::string build_id() {
  std::string id = linker_build_id();
  if (id.empty())
    internal_error("this program has no linker build id; link it with -Wl,--build-id");
  return id;
}

void set_process(const TrainConfig& config) {
  const MachineInfo machine = machine_info();
  const int share = std::max(1, machine.usable_cores / static_cast<int>(config.ranks));
  set_threads(config.threads > 0 ? static_cast<int>(config.threads) : share);
  at::globalContext().setAllowTF32CuBLAS(config.tf32);
}

CudaVersions cuda_versions() {
  int runtime = 0, driver = 0;
  cudaRuntimeGetVersion(&runtime);
  cudaDriverGetVersion(&driver);
  return {std::to_string(runtime), std::to_string(driver)};
}

Identity identity() {
  const MachineInfo machine = machine_info();
  Identity id;
  id.build = build_id();
  id.libtorch = TORCH_VERSION;
  id.host = machine.host;
  id.boot = machine.boot;
  id.cpu = machine.cpu;
  id.kernel = machine.kernel;
  id.cores = machine.usable_cores;
  id.threads = at::get_num_threads();
  id.environment = relevant_environment();
  if (at::cuda::is_available()) {
    id.gpu = at::cuda::getCurrentDeviceProperties()->name;
    id.gpu_uuid = gpu_uuid();
    const int runtime = std::stoi(cuda_versions().runtime);
    id.cuda = fmt::format("{}.{}", runtime / 1000, runtime % 1000 / 10);
    if (Result<NvmlSampler> nvml = NvmlSampler::open(id.gpu_uuid)) id.driver = nvml->info().driver;
  }
  return id;
}

nlohmann::json to_json(const Identity& id) {
  return {{"build", id.build},
          {"libtorch", id.libtorch},
          {"cuda", id.cuda},
          {"driver", id.driver},
          {"gpu", id.gpu},
          {"gpu_uuid", id.gpu_uuid},
          {"host", id.host},
          {"boot", id.boot},
          {"cpu", id.cpu},
          {"kernel", id.kernel},
          {"cores", id.cores},
          {"threads", id.threads},
          {"environment", id.environment}};
}

CovariateSampler make_sampler(const TrainConfig& config) {
  if (config.device == Device::Cuda)
    if (Result<NvmlSampler> nvml = NvmlSampler::open(gpu_uuid()))
      return CovariateSampler(std::move(*nvml));
  return CovariateSampler();
}

void open_device(const TrainConfig& config, int board) {
  if (config.device != Device::Cuda) return;
  if (!at::cuda::is_available()) bad_input("{}", kNoUsableGpu);
  if (const std::int64_t boards = at::cuda::getNumGPUs(); board >= boards)
    bad_input("a rank needs GPU {} and LibTorch finds {}; start fewer ranks on this machine",
              board,
              boards);
  c10::cuda::set_device(static_cast<c10::DeviceIndex>(board));
  at::globalContext().lazyInitDevice(at::kCUDA); // the allocator's statistics exist only after it
}

int compute_capability() {
  if (!at::cuda::is_available()) return 0;
  const cudaDeviceProp* has = at::cuda::getDeviceProperties(0);
  return 10 * has->major + has->minor;
}

} // namespace assay::worker
