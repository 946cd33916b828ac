// The mask M and the result C, cells of a row, and steps of lanes through rows of B. All kernels of
// row_spgemm under a mask use them. See kernels/spgemm/row/masked.hpp.
#pragma once

#include <climits>
#include <cstdint>

#include "kernels/spgemm/row/mask_words.cuh"
#include "kernels/spgemm/row/masked.hpp"
#include "kernels/spgemm/row/tasks.cuh"

namespace tessera::row_spgemm {

/// M, and C, whose structure is M's.
struct MaskedOutput {
  std::int64_t nonzeros;
  const std::int64_t* offsets;  // [rows + 1]: of M
  const std::int32_t* cols;     // [nonzeros]: of M
  std::int64_t* c_offsets;      // [rows + 1]; nullptr: C has its structure already
  std::int32_t* c_cols;         // [nonzeros]
  float* values;                // [nonzeros]: of C
  float alpha;

  __device__ float scaled(float sum) const { return alpha == 1 ? sum : alpha * sum; }

  /// Gives C the column of a cell.
  __device__ void set_col(std::int64_t cell, std::int32_t col) const {
    if (c_offsets != nullptr) c_cols[cell] = col;
  }
};

/// Consecutive cells of a row of M.
struct MaskedCells {
  MaskedCells() = default;
  __device__ MaskedCells(const MaskedOutput& output, std::int64_t first, int count, bool is_window)
      : first(first), count(count), is_window(is_window) {
    if (count == 0) return;
    first_col = __ldg(output.cols + first);
    last_col = __ldg(output.cols + first + count - 1);
  }

  std::int64_t first = 0;
  int count = 0;
  bool is_window = false;  // the row has others
  std::int32_t first_col = 0, last_col = 0;
};

/// Every stride-th of a row's nonzeros of A.
struct NonzerosOfRow {
  std::int32_t begin = 0, stride = 1, count = 0;
};

/// The part of a row of B between two columns, or two words, inclusive. at(place in B) returns the
/// column or the word there.
template <class At>
__device__ void cut_row_of_b(At at, std::int32_t first, std::int32_t last, std::int32_t& begin,
                             std::int32_t& length) {
  const auto first_from = [&](std::int32_t from, std::int32_t end, std::int32_t least) {
    while (from < end) {
      const std::int32_t middle = from + (end - from) / 2;
      if (at(middle) < least)
        from = middle + 1;
      else
        end = middle;
    }
    return from;
  };
  const std::int32_t end = begin + length;
  begin = first_from(begin, end, first);
  length = last == INT_MAX ? end - begin : first_from(begin, end, last + 1) - begin;
}

/// The steps of kLanes lanes through the rows of B of kLanes nonzeros of A, each lane's own one of
/// which is given: kLanes places of one row of B a step, in the order of the nonzeros. All lanes of
/// the warp call each function.
template <int kLanes>
class StepsOfRows {
 public:
  __device__ StepsOfRows(std::int32_t begin, std::int32_t length, float value)
      : begin_(begin), length_(length), value_(value) {
    constexpr unsigned kOfRow = kLanes == 32 ? kAllLanes : (1u << (kLanes % 32)) - 1;
    const int first_lane = lane_of_warp() / kLanes * kLanes;
    left_ = __ballot_sync(kAllLanes, length > 0) >> first_lane & kOfRow;
  }

  __device__ bool is_at_end() const {
    return !__any_sync(kAllLanes, left_ != 0 || offset_ < length_now_);
  }

  /// Sets the places in B of the next kSteps steps, -1 for none, and their values of A.
  template <int kSteps>
  __device__ void next(std::int32_t (&places)[kSteps], float (&values)[kSteps]) {
    const int lane = lane_of_warp() % kLanes;
    if (kLanes == kWarpLanes && length_now_ - offset_ >= kSteps * kWarpLanes) {
#pragma unroll
      for (int u = 0; u < kSteps; ++u) {
        places[u] = begin_now_ + offset_ + u * kWarpLanes + lane;
        values[u] = value_now_;
      }
      offset_ += kSteps * kWarpLanes;
      return;
    }
#pragma unroll
    for (int u = 0; u < kSteps; ++u) {
      if (offset_ >= length_now_) {
        row_ = __ffs(static_cast<int>(left_)) - 1;
        left_ &= left_ - 1;
        offset_ = 0;
      }
      const int from = max(row_, 0);
      begin_now_ = __shfl_sync(kAllLanes, begin_, from, kLanes);
      value_now_ = __shfl_sync(kAllLanes, value_, from, kLanes);
      length_now_ = __shfl_sync(kAllLanes, length_, from, kLanes);
      if (row_ < 0) length_now_ = 0;
      places[u] = offset_ + lane < length_now_ ? begin_now_ + offset_ + lane : -1;
      values[u] = value_now_;
      offset_ += kLanes;
    }
  }

 private:
  std::int32_t begin_, length_;
  float value_;
  unsigned left_;  // bit i: the row of B of lane i is ahead
  int row_ = -1;   // the lane of the present one, -1 past the last
  int offset_ = 0;
  std::int32_t begin_now_ = 0, length_now_ = 0;
  float value_now_ = 0;
};

}  // namespace tessera::row_spgemm
