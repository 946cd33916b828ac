// Types that the warp traces of tile_spgemm's launches share: a warp that appends to its trace and
// the arrays that it touches. It also declares the traces of the launches.
#pragma once

#include <memory>

#include "kernels/spgemm/tile/analysis.hpp"
#include "kernels/spgemm/tile/counted.hpp"
#include "kernels/warp_trace.hpp"

namespace tessera::tile_spgemm::tracing {

constexpr int kTileBytes = sizeof(Tile), kTileRowBytes = sizeof(TileRow), kTaskBytes = sizeof(Task);

/// A matrix on the device, as CSR and as tiles. A needs values by rows, B by columns; a square
/// matrix that is both has both orders.
struct MatrixAddresses {
  std::uint64_t tile(std::int64_t at) const { return element(tiles, at, kTileBytes); }
  std::uint64_t col_of_tile(std::int64_t at) const { return tile(at) + 12; }
  std::uint64_t row(std::int64_t at) const { return element(rows, at, kTileRowBytes); }

  std::uint64_t offsets, cols, values, tiles, rows, by_rows, by_cols;
  std::uint64_t largest;  // magnitude
};

struct ArrayAddresses {
  std::uint64_t task(std::int64_t number) const { return element(tasks, number, kTaskBytes); }
  /// The cells of a task, or the lengths of a tile row, in each of its rows.
  std::uint64_t cells_of(std::int64_t number) const { return element(cells, kSide * number, 4); }
  std::uint64_t lengths_of(std::int64_t row) const { return element(row_lengths, kSide * row, 4); }

  MatrixAddresses a, b;  // the same where B is A
  std::uint64_t found, row_lengths, row_offsets, tasks, cells, c_cols, c_values;
};

/// The orders of values that fill_tiles() writes.
struct ValueOrders {
  bool by_rows, by_cols;
};

/// A warp of a thread block, and the trace that it appends to.
struct Warp {
  WarpTrace& trace;
  int number;

  int first_thread() const { return kWarpSize * number; }

  void issue(int instructions) { trace.issue(instructions); }
  void wait(int board) { trace.wait(board); }
  void barrier() { trace.barrier(); }
  void shared(int wavefronts, int times = 1) {
    for (int i = 0; i < times; ++i) trace.shared(wavefronts);
  }
  void load(int board, std::uint64_t address, std::int64_t bytes) {
    trace.load(board);
    trace.touch(address, bytes);
  }
  void load_and_wait(int board, std::uint64_t address, std::int64_t bytes) {
    load(board, address, bytes);
    wait(board);
  }
  void store(std::uint64_t address, std::int64_t bytes) {
    trace.store();
    trace.touch(address, bytes);
  }
  void add_atomically(int additions, std::uint64_t address, std::int64_t bytes) {
    trace.atomic(additions);
    trace.touch(address, bytes);
  }

  /// The thread block clears words of 8 bytes, or their halves.
  void clear(std::int64_t words) {
    issue(CountedSlots::kClear);
    for (std::int64_t at = first_thread(); at < words; at += kThreads) {
      issue(CountedSlots::kClearRound);
      shared(words - at > kWarpSize / 2 ? 2 : 1);
    }
  }
  /// A prefix sum over the threads of the thread block; it has kPrefixSumBarriers.
  void prefix_sum() {
    issue(CountedSlots::kPrefixSum);
    shared(1, 6);  // shuffles
    shared(1);
    barrier();
    shared(1);
    barrier();
  }
  static constexpr int kPrefixSumBarriers = 2;
};

/// A launch over tasks. On the device a thread block takes one task after another; here it has one,
/// in the order in which they are taken. The time that the device needs to start a thread block
/// stands for the atomic addition that requests the next task.
class TaskLaunch : public LaunchTrace {
 public:
  /// The barriers of each warp of a thread block.
  virtual std::int64_t barriers(std::int64_t thread_block) const = 0;
};

/// fill_tiles(). Throws Unsupported where a tile row spans more columns than are gathered at once.
std::shared_ptr<const LaunchTrace> trace_fill_tiles(std::shared_ptr<const ProductAnalysis> product,
                                                    const TiledMatrix& matrix,
                                                    const MatrixAddresses& at, ValueOrders orders);
/// The barriers of each warp of the thread block with this tile row.
std::int64_t barriers_of_filling(const TiledMatrix& matrix, std::int64_t tile_row);

std::shared_ptr<const LaunchTrace> trace_make_tasks(std::shared_ptr<const ProductAnalysis> product,
                                                    const ArrayAddresses& at);
std::shared_ptr<const TaskLaunch> trace_count_cells(std::shared_ptr<const ProductAnalysis> product,
                                                    const ArrayAddresses& at);
/// make_sums() for short tile rows of A.
std::shared_ptr<const TaskLaunch> trace_make_sums(std::shared_ptr<const ProductAnalysis> product,
                                                  const ArrayAddresses& at);

}  // namespace tessera::tile_spgemm::tracing
