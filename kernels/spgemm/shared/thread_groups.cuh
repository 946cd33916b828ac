// Groups of threads (a warp or a thread block), and the ranks of marks in a bitmap in shared
// memory.
#pragma once

#include <cstdint>

namespace tessera::spgemm {

constexpr unsigned kAllLanes = ~0u;

__device__ inline int lane_of_warp() { return static_cast<int>(threadIdx.x) % 32; }
__device__ inline unsigned lanes_before() { return (1u << lane_of_warp()) - 1; }

/// The inclusive prefix sum over the lanes of a warp, or over each kWidth lanes.
template <int kWidth = 32>
__device__ int sum_up_to(int value) {
  const int lane = lane_of_warp() % kWidth;
#pragma unroll
  for (int step = 1; step < kWidth; step *= 2) {
    const int below = __shfl_up_sync(kAllLanes, value, step, kWidth);
    if (lane >= step) value += below;
  }
  return value;
}

/// A warp, or a thread block.
template <int kLanes_>
struct Group {
  static constexpr int kLanes = kLanes_;
  static_assert(kLanes % 32 == 0);
  static constexpr bool kIsBlock = kLanes > 32;
  static constexpr int kWarps = kLanes / 32;

  static __device__ int lane() { return static_cast<int>(threadIdx.x) % kLanes; }
  static __device__ int warp() { return kIsBlock ? static_cast<int>(threadIdx.x) / 32 : 0; }

  static __device__ void sync() {
    if constexpr (kIsBlock)
      __syncthreads();
    else
      __syncwarp();
  }

  /// Returns the exclusive prefix sum over the group's lanes and sets the total. `scratch` [kWarps]
  /// is shared memory of the group; only a thread block uses it.
  static __device__ int before(int value, int& total, int* scratch) {
    const int sum = sum_up_to(value);
    total = __shfl_sync(kAllLanes, sum, 31);
    int others = 0;
    if constexpr (kIsBlock) {
      if (lane_of_warp() == 0) scratch[warp()] = total;
      __syncthreads();
      total = 0;
#pragma unroll
      for (int w = 0; w < kWarps; ++w) {
        if (w < warp()) others += scratch[w];
        total += scratch[w];
      }
      __syncthreads();
    }
    return others + sum - value;
  }
};

/// Reads a value that other threads may be changing.
template <class T>
__device__ T peek(const T* at) {
  return *static_cast<const volatile T*>(at);
}

__device__ inline std::uint32_t bits_before(std::int32_t at) {
  return (1u << (static_cast<std::uint32_t>(at) % 32)) - 1;
}

/// The marks of 32 columns and, with a rank, the number of marks in all slots before.
template <bool kWithRank>
struct Slot;
template <>
struct Slot<false> {
  std::uint32_t marks;
};
template <>
struct alignas(8) Slot<true> {
  std::uint32_t marks;
  std::int32_t rank;
};

template <bool kWithRank>
__device__ void mark_in(Slot<kWithRank>& slot, std::uint32_t marks) {
  if ((peek(&slot.marks) & marks) != marks) atomicOr(&slot.marks, marks);
}

__device__ inline int rank_in(const Slot<true>& slot, std::int32_t at) {
  return slot.rank + __popc(slot.marks & bits_before(at));
}

/// Ranks the slots, and calls visit(slot, marks, rank) in one lane per slot; lanes past the last
/// slot call it without marks. Returns the number of all marks.
template <class Group, class Visit>
__device__ int rank_slots(Slot<true>* slots, int size, int* scratch, Visit visit) {
  int ranked = 0;
  for (int first = 0; first < size; first += Group::kLanes) {
    const int at = first + Group::lane();
    const std::uint32_t marks = at < size ? slots[at].marks : 0;
    int all = 0;
    const int rank = ranked + Group::before(__popc(marks), all, scratch);
    if (at < size) slots[at].rank = rank;
    visit(at, marks, rank);
    ranked += all;
  }
  return ranked;
}

}  // namespace tessera::spgemm
