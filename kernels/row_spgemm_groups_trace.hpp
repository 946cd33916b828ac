// What the warps of one launch of row_spgemm do, for the simulator.
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/row_spgemm_walk.hpp"
#include "kernels/warp_trace.hpp"

namespace tessera::row_spgemm::tracing {

constexpr int kTaskBytes = 16, kWordBytes = 8;

struct Addresses {
  std::uint64_t sorted, tasks, offsets, lengths, summary, a_offsets, a_cols, a_values, rows_of_b,
      words_of_b, b_cols, b_values, c_cols, c_values;
};

/// A launch's trace, and the barriers of each of its thread blocks, of all warps. [thread blocks]
struct TracedLaunch {
  std::shared_ptr<const LaunchTrace> trace;
  std::vector<std::int64_t> barriers;
};
TracedLaunch trace_launch(std::shared_ptr<const Product> product, Batch batch, const Addresses& at);

}  // namespace tessera::row_spgemm::tracing
