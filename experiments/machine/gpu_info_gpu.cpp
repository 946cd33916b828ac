#include "experiments/machine/gpu_info.hpp"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "experiments/machine/gpu_load.hpp"
#include "experiments/machine/machine.hpp"
#include "formats/base/device_memory.hpp"
#include "formats/base/registry.hpp"
#include "kernels/tensor_core/gpu_generation.hpp"

namespace tessera {
namespace {

/// The few functions of NVML used here. Its header is not required: the types are the library's
/// stable C interface (an opaque handle, unsigned integers, int status with 0 for success).
class Nvml {
 public:
  static const Nvml& instance() {
    static const Nvml nvml;
    return nvml;
  }

  std::optional<unsigned> clock(unsigned which) const {
    unsigned mhz = 0;
    if (device_ == nullptr || clock_ == nullptr || clock_(device_, which, &mhz) != 0) return {};
    return mhz;
  }
  std::optional<unsigned long long> throttle_reasons() const {
    unsigned long long mask = 0;
    if (device_ == nullptr || throttle_ == nullptr || throttle_(device_, &mask) != 0) return {};
    return mask;
  }
  /// Nanoseconds in which a limit has kept the clocks low.
  std::optional<std::uint64_t> violation_ns(int policy) const {
    Violation time{};
    if (device_ == nullptr || violation_ == nullptr || violation_(device_, policy, &time) != 0)
      return {};
    return time.violation_ns;
  }
  /// The processes with a context on the device.
  std::optional<std::vector<int>> processes() const {
    std::array<Process, 64> found{};
    auto count = static_cast<unsigned>(found.size());
    if (device_ == nullptr || processes_ == nullptr ||
        processes_(device_, &count, found.data()) != 0)
      return {};
    std::vector<int> pids;
    for (unsigned i = 0; i < count; ++i) pids.push_back(static_cast<int>(found[i].pid));
    return pids;
  }
  /// The GPUs of this host, where CUDA sees each of them as one device, and its driver is no older
  /// than this program.
  static std::optional<int> whole_gpus() {
    void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return {};
    const auto init = find<int (*)()>(library, "nvmlInit_v2");
    const auto count = find<int (*)(unsigned*)>(library, "nvmlDeviceGetCount_v2");
    const auto by_index =
        find<int (*)(unsigned, Device*)>(library, "nvmlDeviceGetHandleByIndex_v2");
    const auto mig = find<int (*)(Device, unsigned*, unsigned*)>(library, "nvmlDeviceGetMigMode");
    const auto version = find<int (*)(int*)>(library, "nvmlSystemGetCudaDriverVersion_v2");
    unsigned found = 0;
    int of_driver = 0;
    if (init == nullptr || count == nullptr || by_index == nullptr || mig == nullptr ||
        version == nullptr || init() != 0 || count(&found) != 0 || version(&of_driver) != 0 ||
        of_driver / 1000 < CUDART_VERSION / 1000)
      return {};
    for (unsigned i = 0; i < found; ++i) {
      Device device = nullptr;
      unsigned divided = 0, pending = 0;
      if (by_index(i, &device) != 0) return {};
      const int status = mig(device, &divided, &pending);
      if (status != kNotSupported && (status != 0 || divided != 0)) return {};
    }
    return static_cast<int>(found);
  }
  std::string driver() const {
    std::array<char, 96> text{};
    if (device_ == nullptr || driver_ == nullptr || driver_(text.data(), text.size()) != 0)
      return "";
    return text.data();
  }

 private:
  using Device = void*;
  struct Violation {  // nvmlViolationTime_t
    unsigned long long reference_ns;
    unsigned long long violation_ns;
  };
  struct Process {  // nvmlProcessInfo_t of version 3
    unsigned pid;
    unsigned long long used_bytes;
    unsigned gpu_instance;
    unsigned compute_instance;
  };

  static constexpr int kNotSupported = 3;  // NVML_ERROR_NOT_SUPPORTED

  Nvml() {
    void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
    const auto init = find<int (*)()>(library, "nvmlInit_v2");
    const auto by_bus =
        find<int (*)(const char*, Device*)>(library, "nvmlDeviceGetHandleByPciBusId_v2");
    clock_ = find<decltype(clock_)>(library, "nvmlDeviceGetClockInfo");
    throttle_ = find<decltype(throttle_)>(library, "nvmlDeviceGetCurrentClocksThrottleReasons");
    driver_ = find<decltype(driver_)>(library, "nvmlSystemGetDriverVersion");
    violation_ = find<decltype(violation_)>(library, "nvmlDeviceGetViolationStatus");
    processes_ = find<decltype(processes_)>(library, "nvmlDeviceGetComputeRunningProcesses_v3");
    int current = 0;
    std::array<char, 32> bus{};
    if (init == nullptr || by_bus == nullptr || init() != 0 ||
        cudaGetDevice(&current) != cudaSuccess ||
        cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), current) != cudaSuccess)
      return;
    if (by_bus(bus.data(), &device_) != 0) device_ = nullptr;
  }

  template <class F>
  static F find(void* library, const char* name) {
    return reinterpret_cast<F>(dlsym(library, name));
  }

  Device device_ = nullptr;
  int (*clock_)(Device, unsigned, unsigned*) = nullptr;
  int (*throttle_)(Device, unsigned long long*) = nullptr;
  int (*driver_)(char*, unsigned) = nullptr;
  int (*violation_)(Device, int, Violation*) = nullptr;
  int (*processes_)(Device, unsigned*, Process*) = nullptr;
};

cudaDeviceProp properties() {
  int device = 0;
  cudaDeviceProp found{};
  cuda_check(cudaGetDevice(&device), "asking for the device");
  cuda_check(cudaGetDeviceProperties(&found, device), "asking for the device's properties");
  return found;
}

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

class GpuProbe final : public Probe {
 public:
  Json look() const override {
    const std::string reason = gpu_unavailable();
    if (!reason.empty()) return {{"available", false}, {"reason", reason}};
    Json description = gpu_description();
    description["available"] = true;
    return description;
  }

  bool is_sure() const override { return count_without_driver().value_or(0) > 0; }

  int count() const override {
    if (const std::optional<int> sure = count_without_driver()) return *sure;
    int count = 0;
    return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
  }

 private:
  /// NVML answers much sooner than the driver starts. It does not know what of them CUDA may see.
  static std::optional<int> count_without_driver() {
    return std::getenv("CUDA_VISIBLE_DEVICES") == nullptr ? Nvml::whole_gpus() : std::nullopt;
  }
};

const Register<Probe> entry{{
    .name = "gpu",
    .summary = "the GPU, its driver and the CUDA runtime",
    .make = [](const Params&) { return std::make_unique<GpuProbe>(); },
}};

}  // namespace

std::string gpu_unavailable() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) return fmt::format("no usable GPU: {}", cudaGetErrorString(status));
  return count > 0 ? "" : "this machine has no GPU";
}

void open_gpu() {
  if (cudaFree(nullptr) == cudaSuccess) gpu_load();
}

GpuClocks gpu_clocks() {
  const Nvml& nvml = Nvml::instance();
  constexpr unsigned kSm = 1, kMemory = 2;  // NVML_CLOCK_SM, NVML_CLOCK_MEM
  return {nvml.clock(kSm), nvml.clock(kMemory), nvml.throttle_reasons()};
}

GpuLoad gpu_load() {
  const Nvml& nvml = Nvml::instance();
  GpuLoad load{.clocks = gpu_clocks()};
  struct Policy {  // nvmlPerfPolicyType_t
    int number;
    const char* cause;
  };
  for (const auto& [number, cause] : {Policy{0, "power"}, {1, "heat"}, {3, "board"}})
    if (const auto ns = nvml.violation_ns(number)) load.held_back_ns[cause] = *ns;
  if (const auto pids = nvml.processes()) load.other_processes = count_others(*pids);
  return load;
}

Json to_json(const GpuClocks& clocks) {
  Json json = Json::object();
  if (clocks.sm_mhz) json["sm_mhz"] = *clocks.sm_mhz;
  if (clocks.memory_mhz) json["memory_mhz"] = *clocks.memory_mhz;
  if (clocks.throttle_reasons) json["throttle_reasons"] = *clocks.throttle_reasons;
  return json;
}

Json gpu_description() {
  const cudaDeviceProp device = properties();
  int runtime = 0, driver_cuda = 0;
  cuda_check(cudaRuntimeGetVersion(&runtime), "asking for the runtime version");
  cuda_check(cudaDriverGetVersion(&driver_cuda), "asking for the driver version");
  std::string uuid;
  for (const char byte : device.uuid.bytes)
    uuid += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return {{"name", device.name},
          {"uuid", uuid},
          {"compute_capability", fmt::format("{}.{}", device.major, device.minor)},
          {"tensor_cores", generation_of(device.major, device.minor)},
          {"sm_count", device.multiProcessorCount},
          {"memory_bytes", device.totalGlobalMem},
          {"l2_bytes", device.l2CacheSize},
          {"driver", Nvml::instance().driver()},
          {"driver_cuda", version_text(driver_cuda)},
          {"cuda_runtime", version_text(runtime)},
          {"clocks", to_json(gpu_clocks())}};
}

}  // namespace tessera
