// What slows a GPU down while a time is measured: limits of power and heat that lower its clocks,
// and other processes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "experiments/machine/gpu_info.hpp"

namespace tessera {

/// The state of the GPU before or after a measurement.
struct GpuLoad {
  GpuClocks clocks = {};
  /// Cause ("power", "heat", ...) -> nanoseconds, since the driver was loaded, in which it has kept
  /// the clocks low. A cause that the driver does not count is absent.
  std::map<std::string, std::uint64_t> held_back_ns = {};
  std::optional<std::int64_t> other_processes = {};  // absent where it cannot be told
};

/// The reasons for which a time between these two states is no time of the GPU at its clocks:
/// "the clocks were lowered: power", ... Empty when there is none.
std::vector<std::string> lowered_clocks(const GpuLoad& before, const GpuLoad& after);

/// "2 other processes are on the GPU"; empty where there is none, or where it cannot be told.
std::string others_on_gpu(const GpuLoad& before, const GpuLoad& after);

/// The processes among `pids` that are neither `self` nor, with a `parent` above 0, children of it:
/// the workers of one run measure in turn. `parent_of` gives 0 for a process that is not seen here.
/// Absent when `self` is not listed and there are workers: the driver then counts in another
/// namespace, where one's own cannot be told from others.
std::optional<std::int64_t> count_others(const std::vector<int>& pids, int self, int parent,
                                         const std::function<int(int)>& parent_of);

/// The same for this process, with the parent that share_gpu_with_children_of() has named.
std::optional<std::int64_t> count_others(const std::vector<int>& pids);

/// Names the process whose children measure in turn, and are no others to each other.
void share_gpu_with_children_of(int process);

/// The state of this process's GPU; empty where NVML is missing. In a build with the CUDA half.
GpuLoad gpu_load();

}  // namespace tessera
