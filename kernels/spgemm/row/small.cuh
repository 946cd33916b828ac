// Rows of C with few products, one product per lane. A lane compares its column with those of its
// neighbours to find the products to add to its own and the place of the sum. It needs no bitmap
// and no barrier. See kernels/spgemm/row/row_spgemm.hpp.
#pragma once

#include <climits>
#include <cstdint>

#include "kernels/spgemm/row/tasks.cuh"

namespace tessera::row_spgemm {

/// The number of this thread's task in a launch over small tasks.
template <int kLanes>
__device__ int small_task_number() {
  constexpr LaunchShape kShape = small_launch(kLanes);
  return kShape.item_of(static_cast<int>(kShape.thread_of(blockIdx.x, threadIdx.x)));
}

/// A row of C with at most kLanes products, from at most kLanes nonzeros of A, in kLanes lanes of a
/// warp. Every lane of the warp has to construct it.
template <int kLanes>
class SmallRow {
 public:
  /// `cols` [kLanes], aligned to 16 bytes, is shared memory of the row.
  template <class Value>
  __device__ SmallRow(const OperandsOf<Value>& operands, const SortedTask& task, std::int32_t* cols)
      : cols_(cols) {
    RowOfB of{0, 0, 0};
    if (lane() < task.nonzeros) {
      of_a_ = task.begin + lane();
      of = operands.rows_of_b[operands.a_cols[of_a_]];
    }
    const int sum = sum_up_to<kLanes>(of.length);
    const int total = __shfl_sync(kAllLanes, sum, kLanes - 1, kLanes);
    // Rows of B that are not empty begin at different products.
    const int start = sum - of.length;
    const bool is_some = of.length > 0;
    const unsigned starts =
        of_row(__reduce_or_sync(kAllLanes, is_some ? 1u << (first_lane() + start) : 0));
    const unsigned some = of_row(__ballot_sync(kAllLanes, is_some));
    const int from = nth_bit(some, __popc(starts & (before() << 1 | 1)));
    const std::int32_t to_place = __shfl_sync(kAllLanes, of.begin - start, from, kLanes);
    of_a_ = __shfl_sync(kAllLanes, of_a_, from, kLanes);
    if (lane() < total) {
      place_ = to_place + lane();
      col_ = __ldg(operands.b_cols + place_);
    }
    cols_[lane()] = col_;
    __syncwarp();
    same_ = lanes_where([&](std::int32_t other) { return other == col_; });
    firsts_ = of_row(__ballot_sync(kAllLanes, col_ >= 0 && (same_ & before()) == 0));
  }

  static __device__ int lane() { return lane_of_warp() % kLanes; }

  /// The number of columns of C in the row.
  __device__ int columns() const { return __popc(firsts_); }

  /// Calls store(place among the row's columns, column, sum) in one lane per column. Each sum adds
  /// its products in the order of A's columns.
  template <class Value, class Store>
  __device__ void add(const OperandsOf<Value>& operands, Store store) const {
    const Value left = col_ < 0 ? 0 : operands.a_values[of_a_];
    const Value right = col_ < 0 ? 0 : __ldg(operands.b_values + place_);
    const unsigned smaller = lanes_where([&](std::int32_t other) { return other < col_; });
    const bool is_first = (firsts_ >> lane() & 1) != 0;
    Value sum = fma(left, right, Value{0});
    unsigned others = is_first ? same_ & ~(1u << lane()) : 0;
    while (__any_sync(kAllLanes, others != 0)) {
      const int from = others == 0 ? lane() : __ffs(static_cast<int>(others)) - 1;
      const Value of_left = __shfl_sync(kAllLanes, left, from, kLanes);
      const Value of_right = __shfl_sync(kAllLanes, right, from, kLanes);
      if (others != 0) sum = fma(of_left, of_right, sum);
      others &= others - 1;
    }
    if (is_first) store(__popc(firsts_ & smaller), col_, sum);
  }

  /// Calls visit(place among the row's columns, column, number of the product in its column,
  /// products of the column, nonzero of A, place in B) in the lane of each product.
  template <class Visit>
  __device__ void each(Visit visit) const {
    const unsigned smaller = lanes_where([&](std::int32_t other) { return other < col_; });
    if (col_ >= 0)
      visit(__popc(firsts_ & smaller), col_, __popc(same_ & before()), __popc(same_), of_a_,
            place_);
  }

 private:
  static __device__ int first_lane() { return lane_of_warp() - lane(); }
  /// A mask of the warp's lanes as a mask of the row's, whose first lane is bit 0; and the row's
  /// lanes before this one.
  static __device__ unsigned of_row(unsigned mask) {
    constexpr unsigned kAll = kLanes == 32 ? kAllLanes : (1u << (kLanes % 32)) - 1;
    return mask >> first_lane() & kAll;
  }
  static __device__ unsigned before() { return (1u << lane()) - 1; }

  /// The lanes of the row whose columns fulfil a condition.
  template <class IsSo>
  __device__ unsigned lanes_where(IsSo is_so) const {
    unsigned lanes = 0;
#pragma unroll
    for (int i = 0; i < kLanes; i += 4) {
      const int4 four = *reinterpret_cast<const int4*>(cols_ + i);
      lanes |= is_so(four.x) ? 1u << i : 0;
      lanes |= is_so(four.y) ? 2u << i : 0;
      lanes |= is_so(four.z) ? 4u << i : 0;
      lanes |= is_so(four.w) ? 8u << i : 0;
    }
    return lanes;
  }

  /// The index of the n-th set bit, n from one; any index if there are fewer.
  static __device__ int nth_bit(unsigned bits, int n) {
    if ((bits & (bits + 1)) == 0) return max(n - 1, 0);
    int at = 0;
#pragma unroll
    for (int width = kLanes / 2; width > 0; width /= 2) {
      const int below = __popc(bits >> at & ((1u << width) - 1));
      if (n > below) {
        n -= below;
        at += width;
      }
    }
    return at;
  }

  std::int32_t* cols_;
  std::int32_t of_a_ = 0;   // nonzero of A of the product
  std::int32_t place_ = 0;  // nonzero of B
  std::int32_t col_ = -1;   // -1 for no product
  unsigned same_, firsts_;  // lanes of the row with this column; the first lane of each column
};

}  // namespace tessera::row_spgemm
