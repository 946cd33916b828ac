// The order of products that share a workspace, over streams and captures of CUDA graphs.
//
// The functions of the driver are found in the process when the first GPU tensor arrives, so that
// the library loads on a machine without a driver.
#pragma once

#include "python/torch_operators/operators.hpp"

namespace tessera::torch_operators {

/// The current stream of torch on that device (a cudaStream_t).
void* current_stream(std::int32_t device_index);

/// True while the stream is captured into a CUDA graph.
bool is_capturing(void* stream);

/// Lets work that is enqueued on the stream from now on begin after a plan's last product. It
/// costs nothing where that ran on the same stream. A capture cannot wait for what runs outside:
/// torch synchronises before it begins one.
void follow(LastUse& last, void* stream);

/// Waits for a plan's last product.
void wait_for(const LastUse& last);

/// Makes a device the current one, and the former one again at the end.
class DeviceGuard {
 public:
  explicit DeviceGuard(std::int32_t device_index);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  DeviceGuardOpaque* guard_ = nullptr;
};

}  // namespace tessera::torch_operators
