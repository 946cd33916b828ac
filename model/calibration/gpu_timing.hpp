// Timing for micro-benchmarks: microseconds by CUDA events, SM cycles by what kernels write down.
//
// Every run is repeated after one that warms up, and every launch is asked for its error.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <vector>

#include "formats/base/device_memory.hpp"

namespace tessera {

/// What the CUDA runtime says of the current GPU.
const cudaDeviceProp& current_gpu();

/// Microseconds of each of `repeats` runs of `launch`, which enqueues work on the default stream.
std::vector<double> run_times_us(int repeats, const std::function<void()>& launch);

/// SM cycles of each of `repeats` runs: the median over the thread blocks. `launch` starts
/// `thread_blocks` of them, each of which writes its cycles.
std::vector<double> run_cycles(int repeats, int thread_blocks,
                               const std::function<void(long long* cycles)>& launch);

/// Overwrites twice the L2, so that nothing else is in it.
void flush_l2();

/// Dynamic shared memory that a kernel may have from now on, out of as much as an SM can set aside,
/// so that all thread blocks that fit are resident. Throws Unsupported when it is more than a
/// thread block of this GPU can get.
void allow_shared_bytes(const void* kernel, std::size_t bytes);

}  // namespace tessera
