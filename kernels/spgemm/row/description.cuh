// The description of B for row_spgemm: the words of its rows, the lengths and the column ranges.
// See kernels/spgemm/row/row_spgemm.hpp.
#pragma once

#include <cstdint>

#include "formats/base/check.hpp"
#include "kernels/gpu_spgemm.hpp"
#include "kernels/spgemm/row/tasks.cuh"

namespace tessera::row_spgemm {

/// The description of B in a block of memory, which all rows of A share.
struct DescriptionOfB {
  DescriptionOfB(RunBlock& block, const OperandsView& operands, bool with_words = true,
                 bool with_places = false)
      : rows(block.place<RowOfB>(operands.rows_of_b_count)),
        ranges(block.place<RangeOfB>(operands.rows_of_b_count)),
        has_words(with_words),
        has_places(with_places),
        words(block.place<WordOfB>(with_words ? operands.nonzeros_of_b : 0)),
        places(block.place<std::int32_t>(with_places ? operands.nonzeros_of_b : 0)) {}

  /// Sets the pointers of the view, once the block has its memory.
  void assign(OperandsView& operands, const RunBlock& block) const {
    operands.rows_of_b = block.data<RowOfB>(rows);
    operands.ranges_of_b = block.data<RangeOfB>(ranges);
    operands.words_of_b = has_words ? block.data<WordOfB>(words) : nullptr;
    operands.places_of_b = has_places ? block.data<std::int32_t>(places) : nullptr;
  }

  std::int64_t rows, ranges;
  bool has_words, has_places;
  std::int64_t words, places;
};

/// The grid of a launch over `count` items.
inline unsigned grid_of(const LaunchShape& shape, std::int64_t count) {
  return static_cast<unsigned>(shape.thread_blocks(count));
}

/// Calls launch.operator()<lanes>(grid) for a launch over rows.
template <class Launch>
void with_lanes(std::int64_t nonzeros, std::int64_t rows, Launch launch) {
  if (rows == 0) return;
  const int lanes = lanes_for(nonzeros, rows);
  const unsigned grid = grid_of(row_launch(lanes), rows);
  if (lanes == 4) return launch.template operator()<4>(grid);
  if (lanes == 8) return launch.template operator()<8>(grid);
  if (lanes == 16) return launch.template operator()<16>(grid);
  launch.template operator()<32>(grid);
}

/// Describes the rows of B, and clears the counters, if there are any and B has rows. Does not wait
/// for the device.
inline void describe_b(const OperandsView& operands, cudaStream_t stream,
                       Counters* to_clear = nullptr) {
  with_lanes(operands.nonzeros_of_b, operands.rows_of_b_count, [&]<int kLanes>(unsigned grid) {
    describe_rows_of_b<kLanes><<<grid, kRowThreads, 0, stream>>>(operands, to_clear);
  });
  cuda_check(cudaGetLastError(), "launching row_spgemm");
}

}  // namespace tessera::row_spgemm
