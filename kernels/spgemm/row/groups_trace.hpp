// What the warps of one launch of row_spgemm do for tasks of one class, for the simulator.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/spgemm/row/walk.hpp"
#include "kernels/warp_trace.hpp"

namespace tessera::row_spgemm::tracing {

constexpr int kTaskBytes = 32, kSortedTaskBytes = 16, kWordBytes = 8, kRowOfBBytes = 16,
              kRangeOfBBytes = 8;

/// To find the class of a task that is not small.
constexpr int class_instructions(bool is_sum) { return is_sum ? 40 : 32; }

/// Where the arrays begin.
struct Addresses {
  std::uint64_t a_offsets, a_cols, a_values, b_offsets, b_cols, b_values, rows_of_b, ranges_of_b,
      words_of_b, slice_counts, slice_words, summary, whole_tasks, tasks, sorted, lengths, offsets,
      c_offsets, c_cols, c_values;
};
/// A launch's trace, and the barriers of each of its thread blocks, of all warps. [thread blocks]
struct TracedLaunch {
  std::shared_ptr<const LaunchTrace> trace;
  std::vector<std::int64_t> barriers;
};
TracedLaunch trace_groups(std::shared_ptr<const Product> product, Batch batch, const Addresses& at);
/// The same for tasks with a product in each lane.
TracedLaunch trace_small(std::shared_ptr<const Product> product, Batch batch, const Addresses& at);

}  // namespace tessera::row_spgemm::tracing
