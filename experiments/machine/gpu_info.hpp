// What the GPU of this machine is and how it is doing: for env records, doctor and measurements.
//
// Identity comes from the CUDA runtime; clocks, throttling and UUIDs from NVML, loaded when first
// asked for and silently absent where there is none.
#pragma once

#include <optional>
#include <string>

#include "experiments/points/point.hpp"

namespace tessera {

/// Why no GPU can be used here; empty when one can.
std::string gpu_unavailable();

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
