// The time of a launch for a plan that chooses between kernels.
#pragma once

#include <functional>

namespace tessera {

/// Samples of which median_us() returns the median.
constexpr int kTimeSamples = 7;

/// The median time of `launch`, which enqueues its work on the default stream, in microseconds:
/// each sample has enough launches for the resolution of the clock. Waits for the device.
double median_us(const std::function<void()>& launch);

/// The current device.
int current_device();

}  // namespace tessera
