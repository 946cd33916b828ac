// The traces of row_spgemm's launches over the tasks of one class.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/spgemm/row/accesses.hpp"
#include "kernels/spgemm/row/walk.hpp"

namespace tessera::row_spgemm::tracing {

/// The trace of a launch, and the barriers of each thread block, summed over its warps. [thread
/// blocks]
struct TracedLaunch {
  std::shared_ptr<const LaunchTrace> trace;
  std::vector<std::int64_t> barriers;
};

/// count_columns() or make_sums().
TracedLaunch trace_groups(std::shared_ptr<const ProductAnalysis> product, ClassLaunch launch,
                          const DeviceArrays& at);
/// count_small() or make_small_sums().
TracedLaunch trace_small(std::shared_ptr<const ProductAnalysis> product, ClassLaunch launch,
                         const DeviceArrays& at);

}  // namespace tessera::row_spgemm::tracing
