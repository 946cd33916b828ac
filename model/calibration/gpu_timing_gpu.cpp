#include "model/calibration/gpu_timing.hpp"

#include "formats/base/device_event.hpp"
#include "model/calibration/microbenchmark.hpp"

namespace tessera {
namespace {

cudaDeviceProp properties() {
  int device = 0;
  cudaDeviceProp found{};
  cuda_check(cudaGetDevice(&device), "querying the device");
  cuda_check(cudaGetDeviceProperties(&found, device), "querying the device's properties");
  return found;
}

}  // namespace

const cudaDeviceProp& current_gpu() {
  static const cudaDeviceProp found = properties();
  return found;
}

std::vector<double> run_times_us(int repeats, const std::function<void()>& launch) {
  DeviceEvent start, stop;
  std::vector<double> times;
  for (int run = -1; run < repeats; ++run) {
    start.record();
    launch();
    cuda_check(cudaGetLastError(), "launching a micro-benchmark");
    stop.record();
    const double us = stop.us_since(start);
    if (run >= 0) times.push_back(us);
  }
  return times;
}

std::vector<double> run_cycles(int repeats, int thread_blocks,
                               const std::function<void(long long*)>& launch) {
  DeviceArray<long long> cycles(static_cast<std::size_t>(thread_blocks));
  std::vector<double> medians;
  for (int run = -1; run < repeats; ++run) {
    launch(cycles.data());
    cuda_check(cudaGetLastError(), "launching a micro-benchmark");
    const std::vector<long long> found = cycles.download();
    if (run >= 0) medians.push_back(typical({found.begin(), found.end()}).median);
  }
  return medians;
}

void flush_l2() {
  DeviceArray<std::byte> overwritten(2 * static_cast<std::size_t>(current_gpu().l2CacheSize));
  cuda_check(cudaMemset(overwritten.data(), 0xa5, overwritten.size()), "flushing the L2");
}

void allow_shared_bytes(const void* kernel, std::size_t bytes) {
  const std::size_t most = current_gpu().sharedMemPerBlockOptin;
  require<Unsupported>(bytes <= most, "{} bytes of shared memory for a thread block, {} has {}",
                       bytes, current_gpu().name, most);
  const auto set = [&](cudaFuncAttribute attribute, int value) {
    cuda_check(cudaFuncSetAttribute(kernel, attribute, value),
               "setting the limit of shared memory");
  };
  set(cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  set(cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared);
}

}  // namespace tessera
