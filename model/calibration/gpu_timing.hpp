// Timing for micro-benchmarks: microseconds by CUDA events, SM cycles by the kernels themselves.
//
// A warm-up run precedes the repetitions, and every launch is checked for errors.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <vector>

#include "formats/base/device_memory.hpp"

namespace tessera {

/// The CUDA runtime's properties of the current GPU.
const cudaDeviceProp& current_gpu();

/// The microseconds of each of `repeats` runs of `launch`, which enqueues work on the default
/// stream. [repeats]
std::vector<double> run_times_us(int repeats, const std::function<void()>& launch);

/// The SM cycles of each of `repeats` runs, [repeats]: the median over the thread blocks. `launch`
/// starts `thread_blocks` thread blocks, each of which writes its cycles to cycles[thread block].
std::vector<double> run_cycles(int repeats, int thread_blocks,
                               const std::function<void(long long* cycles)>& launch);

/// Overwrites twice the L2's capacity, so that it holds nothing else.
void flush_l2();

/// Allows a kernel `bytes` of dynamic shared memory and lets an SM reserve its maximum of shared
/// memory, so that all thread blocks that fit are resident. Throws Unsupported when `bytes` exceeds
/// the limit of a thread block on this GPU.
void allow_shared_bytes(const void* kernel, std::size_t bytes);

}  // namespace tessera
