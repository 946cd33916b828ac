// The schedule of dasp: the layout of a chunk, the task of every warp, the long rows of every warp
// of the second launch, and the compiled instances. The packing, the device code, the emulation,
// the work description and the warp traces read it.
//
// A chunk is the A operand of an MMA: eight slots of eight places, slot g in the g-th column of
// m16n8k8. Lane 4g + t holds places 2t and 2t + 1 of slot g, and the chunk is stored in the order
// of the lanes. The product of slot g is on the diagonal: lane 4g + g / 2 has it for two columns of
// B.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/host_device.hpp"

namespace tessera::dasp {

constexpr int kWarps = 4;  // of a thread block
constexpr int kThreads = 32 * kWarps;
constexpr int kMaxCols = 8;            // columns of B
constexpr int kSlots = 8, kDepth = 8;  // of a chunk
constexpr int kPlaces = kSlots * kDepth;
constexpr int kLanePlaces = kPlaces / 32;  // of a lane
constexpr int kShortRow = kDepth / 2;      // most nonzeros of a short row: a slot has two such rows
constexpr int kShortMmas = 2;              // MMAs of a chunk of short rows, for one of other rows

/// The index in a chunk of a place of a lane.
TESSERA_HOST_DEVICE constexpr int place_of_lane(int lane, int i) { return kLanePlaces * lane + i; }
/// The index in a chunk of place `place` of a slot.
constexpr int place_of(int slot, int place) {
  return place_of_lane(4 * slot + place / kLanePlaces, place % kLanePlaces);
}

/// The compiled instance for a number of columns of B. With operands that are not aligned to
/// 16 bytes, single elements of B are loaded.
struct Instance {
  int cols;
  int mmas;       // of a chunk, two columns each
  int vector;     // aligned columns of a row of B that one load takes
  int registers;  // of a thread, as the hardware allocates them, with aligned operands (sm_90a)
};
constexpr std::array<Instance, kMaxCols> kInstances{{{1, 1, 1, 48},
                                                     {2, 1, 2, 56},
                                                     {3, 2, 1, 56},
                                                     {4, 2, 4, 48},
                                                     {5, 3, 1, 64},
                                                     {6, 3, 2, 64},
                                                     {7, 4, 1, 64},
                                                     {8, 4, 4, 64}}};
/// The instance for n columns of B, or null where there is none.
constexpr const Instance* find_instance(std::int64_t n) {
  for (const Instance& instance : kInstances)
    if (instance.cols == n) return &instance;
  return nullptr;
}

/// Thread blocks of the product over num_tasks tasks, one a warp.
constexpr std::int64_t thread_blocks(std::int64_t num_tasks) {
  return (num_tasks + kWarps - 1) / kWarps;
}
/// The task of a warp; it has no work where that is not below the number of tasks.
TESSERA_HOST_DEVICE constexpr std::uint32_t task_of(std::uint32_t thread_block,
                                                    std::uint32_t warp) {
  return thread_block * kWarps + warp;
}

// The second launch adds the parts of long rows: a thread for each element, kMaxCols for a row.
constexpr int kSumRows = kThreads / kMaxCols;  // long rows of a thread block
constexpr int kWarpSumRows = 32 / kMaxCols;    // long rows of a warp
constexpr int kSumRegisters = 32;              // of a thread
constexpr std::int64_t sum_blocks(std::int64_t long_rows) {
  return (long_rows + kSumRows - 1) / kSumRows;
}
/// The long row that is number `row` of a thread block.
TESSERA_HOST_DEVICE constexpr std::uint32_t long_row_of(std::uint32_t thread_block,
                                                        std::uint32_t row) {
  return thread_block * kSumRows + row;
}

}  // namespace tessera::dasp
