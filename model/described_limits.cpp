#include "model/described_limits.hpp"

#include <cmath>

namespace tessera {

GpuLimits described_limits(const Device& device) {
  const auto value = [&](const char* quantity) {
    return std::int64_t{std::llround(device.value(quantity))};
  };
  // The CUDA C++ Programming Guide has 1024 bytes from compute capability 8.0 on.
  return {.sms = value("sm_count"),
          .thread_blocks = value("thread_blocks_per_sm"),
          .warps = value("warps_per_sm"),
          .registers = value("registers_per_sm"),
          .shared_bytes = value("shared_per_sm"),
          .reserved_shared = std::stod(device.compute_capability) >= 8 ? 1024 : 0};
}

}  // namespace tessera
