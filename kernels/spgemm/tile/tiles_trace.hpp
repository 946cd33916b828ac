// tile_spgemm's launches before its tasks: tiles made from CSR, tasks cut.
#pragma once

#include <memory>

#include "kernels/spgemm/tile/work.hpp"
#include "kernels/warp_trace.hpp"

namespace tessera::tile_spgemm::tracing {

constexpr int kWarps = kThreads / 32;
constexpr int kTileBytes = 16, kTileRowBytes = 8, kTaskBytes = 16;

/// A matrix on the device, as CSR and as tiles. Values by rows or by columns, as its side wants
/// them; those of a square are both.
struct MatrixAddresses {
  std::uint64_t offsets, cols, values, tiles, rows, by_rows, by_cols;
  std::uint64_t largest;  // magnitude
};

struct Addresses {
  MatrixAddresses a, b;  // the same where B is A
  std::uint64_t found, row_lengths, row_offsets, tasks, cells, c_cols, c_values;
};

/// Which values of a matrix fill_tiles() writes.
struct Sides {
  bool by_rows, by_cols;
};

/// Warps that clear slots and give them their ranks, as all kernels here do.
class SlotTrace {
 public:
  /// Zeros to as many words of 8 bytes, a half of each or all: by the lanes of a thread block.
  static void clear(std::int64_t words, int warp, WarpTrace& trace);
  /// Sums over the lanes of a thread block before each, with two barriers.
  static void before(WarpTrace& trace);
};

/// Throws Unsupported where a tile row spans more columns than are gathered at once.
std::shared_ptr<const LaunchTrace> trace_filling(std::shared_ptr<const Product> product,
                                                 const TiledMatrix& matrix,
                                                 const MatrixAddresses& at, Sides sides);
/// Of a warp of this thread block.
std::int64_t barriers_of_filling(const TiledMatrix& matrix, std::int64_t tile_row);
/// Shared memory of its thread blocks.
std::int64_t bytes_of_filling(const TiledMatrix& matrix);

std::shared_ptr<const LaunchTrace> trace_cutting(std::shared_ptr<const Product> product,
                                                 const Addresses& at);

}  // namespace tessera::tile_spgemm::tracing
