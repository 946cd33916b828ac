// Identity and state of this machine's GPU, for env records, doctor and measurements.
//
// The CUDA runtime gives the identity; NVML, loaded on first use, gives clocks, throttling and
// UUIDs, which are silently absent without it.
#pragma once

#include <optional>
#include <string>

#include "experiments/points/point.hpp"

namespace tessera {

/// The reason why no GPU can be used here; empty when one can.
std::string gpu_unavailable();

/// Makes this process's context on its GPU, and NVML's view of it. What fails will fail again where
/// it is used.
void open_gpu();

struct GpuClocks {
  std::optional<unsigned> sm_mhz;
  std::optional<unsigned> memory_mhz;
  std::optional<unsigned long long> throttle_reasons;  // NVML's bit mask
};
GpuClocks gpu_clocks();
Json to_json(const GpuClocks& clocks);

/// Name, compute capability, tensor cores (empty when not known), memory, driver and runtime
/// versions, UUID.
Json gpu_description();

}  // namespace tessera
