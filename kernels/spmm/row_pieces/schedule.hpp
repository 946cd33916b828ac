// The schedule of the kernels over row parts: the lanes of a unit, the unit and the columns of C of
// every warp, and where the sums of split rows lie. The device code, the emulation, the work
// description and the warp trace read it.
//
// A unit is what a group of lanes takes at a time: a row part, or a share of consecutive row parts.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/host_device.hpp"

namespace tessera::row_pieces {

/// The way of a unit's nonzeros to its lanes.
enum class NonzeroDelivery {
  kBroadcastLoads,  // all lanes load the same four
  kWarpShuffles,    // each lane of a warp loads another one and shuffles it to the others
  kSharedMemory,    // through shared memory, kStagedNonzeros at a time
  kLoadsPerGroup,   // each group of lanes loads its own
};

constexpr int kStagedNonzeros = 32;  // of a warp: one a lane, before they are shuffled or shared
constexpr int kStagedBytes = 8 * kStagedNonzeros;  // their column indices, then their values
constexpr int kMaxThreads = 256;                   // of a thread block
constexpr int kNarrowUnroll = 4;                   // rows of B in flight without wide loads

/// The lanes that take a unit and the work of each.
struct UnitShape {
  int lanes = 32;  // of a warp, side by side along a row of B
  int values = 4;  // columns of C of a lane
  int groups = 1;  // of lanes, which take the nonzeros of a row part in turn
  int unroll = 8;  // rows of B in flight
  int warps = 8;   // of a thread block
  NonzeroDelivery delivery = NonzeroDelivery::kBroadcastLoads;
  bool streams = false;  // a unit is a share of row parts

  constexpr int threads() const { return 32 * warps; }
  constexpr int columns() const { return lanes * values; }
  constexpr int unit_lanes() const { return lanes * groups; }
  constexpr int units_per_warp() const { return 32 / unit_lanes(); }
  constexpr int units_per_block() const { return warps * units_per_warp(); }
  /// Nonzeros of a unit in one pass of its loop.
  constexpr int nonzeros_per_step() const { return unroll * groups; }
};

/// A unit and the chunk of columns of C that it is multiplied for.
struct UnitItem {
  std::uint32_t unit, chunk;
};

/// The item of the lanes from thread `thread` on. All units of one chunk of columns come before
/// those of the next, so that the part of B gathered at a time is narrower than B.
TESSERA_HOST_DEVICE constexpr UnitItem item_of(std::uint32_t thread_block, std::uint32_t thread,
                                               std::uint32_t threads_per_block,
                                               std::uint32_t unit_lanes,
                                               std::uint32_t blocks_of_units) {
  return {thread_block % blocks_of_units * (threads_per_block / unit_lanes) + thread / unit_lanes,
          thread_block / blocks_of_units};
}

/// The nonzero with which a unit's loop over nonzeros [first, ...) begins. Broadcast loads begin at
/// a multiple of four (Sputnik's reverse offset memory alignment).
TESSERA_HOST_DEVICE constexpr std::uint32_t first_loaded(NonzeroDelivery delivery,
                                                         std::uint32_t first) {
  return delivery == NonzeroDelivery::kBroadcastLoads ? first & ~3u : first;
}

/// Floats before the sums of a slot in the slots, which are [chunks][num_slots][columns]. Value v
/// of lane l is at v * lanes + l of them.
TESSERA_HOST_DEVICE constexpr std::int64_t slot_offset(std::int64_t chunk, std::int64_t num_slots,
                                                       std::uint32_t slot, int columns) {
  return (chunk * num_slots + slot) * columns;
}

/// The launch that multiplies `num_units` units by a B of n columns.
struct Schedule {
  UnitShape shape;
  std::int64_t num_units, n;

  constexpr std::int64_t blocks_of_units() const {
    return (num_units + shape.units_per_block() - 1) / shape.units_per_block();
  }
  constexpr std::int64_t chunks() const { return (n + shape.columns() - 1) / shape.columns(); }
  constexpr std::int64_t thread_blocks() const { return blocks_of_units() * chunks(); }

  /// The first item of a warp; units_per_warp() follow each other.
  constexpr UnitItem item_of(std::int64_t thread_block, int warp) const {
    return row_pieces::item_of(
        static_cast<std::uint32_t>(thread_block), static_cast<std::uint32_t>(32 * warp),
        static_cast<std::uint32_t>(shape.threads()), static_cast<std::uint32_t>(shape.unit_lanes()),
        static_cast<std::uint32_t>(blocks_of_units()));
  }
  constexpr std::int64_t first_col(std::int64_t chunk) const { return chunk * shape.columns(); }
  /// Columns of C of a chunk.
  constexpr std::int64_t cols_of(std::int64_t chunk) const {
    return std::min<std::int64_t>(shape.columns(), n - first_col(chunk));
  }
  /// Shared memory of a thread block.
  constexpr std::int64_t shared_bytes() const {
    return shape.delivery == NonzeroDelivery::kSharedMemory
               ? std::int64_t{kStagedBytes} * shape.warps
               : 0;
  }
};

// The launch that clears rows of C before: a warp for each row.
constexpr int kClearRows = 8;  // of a thread block
constexpr int kClearThreads = 32 * kClearRows;
constexpr int kClearRegisters = 16;  // of a thread, as the hardware allocates them
constexpr std::int64_t clearing_blocks(std::int64_t rows) {
  return (rows + kClearRows - 1) / kClearRows;
}
/// Index of a warp's row in the list of rows to clear.
TESSERA_HOST_DEVICE constexpr std::uint32_t cleared_index(std::uint32_t thread_block,
                                                          std::uint32_t warp) {
  return thread_block * kClearRows + warp;
}

}  // namespace tessera::row_pieces
