// tile_spgemm's schedule: the work of each thread block, warp and lane, its portions and its shared
// memory. Device code, the host's analysis (analysis.hpp) and the warp traces all read it. See
// kernels/spgemm/tile/tile_spgemm.cpp for the method.
//
// The launches are, in this order: fill_tiles() for A and for B, make_tasks(), count_cells(), a
// prefix sum over the rows of C, and make_sums().
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/host_device.hpp"
#include "kernels/spgemm/shared/bitmap_tiles.hpp"

namespace tessera::tile_spgemm {

using spgemm::kSide;
using spgemm::Tile;

// Arithmetic of the tensor cores.

/// The number formats in which an MMA reads the values of A and B.
enum class TileArithmetic { kFp16, kTf32, kTf32x3 };

/// The number of tile pairs that one MMA multiplies, side by side along its depth.
constexpr int pairs_of_mma(TileArithmetic arithmetic) {
  return arithmetic == TileArithmetic::kFp16 ? 2 : 1;
}

/// The number of MMAs for one group of pairs_of_mma() pairs.
constexpr int mmas_of_group(TileArithmetic arithmetic) {
  return arithmetic == TileArithmetic::kTf32x3 ? 2 : 1;
}

/// Bytes of a stored value of A or B.
constexpr int value_bytes(TileArithmetic arithmetic) {
  return arithmetic == TileArithmetic::kFp16 ? 2 : 4;
}

/// The depth index in an MMA of an inner index of its pair. FP16 fragments hold neighbouring depth
/// indices in one register; TF32 fragments hold indices four apart, so that these are neighbours in
/// the tile.
constexpr int place_in_depth(TileArithmetic arithmetic, int pair, int inner) {
  return arithmetic == TileArithmetic::kFp16 ? kSide * pair + inner : inner % 2 * 4 + inner / 2;
}

// Thread blocks and warps.

constexpr int kWarpSize = 32;
constexpr int kThreads = 128;  // of a thread block
constexpr int kWarps = kThreads / kWarpSize;

/// The number of rounds that `count` items take, `at_once` of them in each.
template <class T>
TESSERA_HOST_DEVICE constexpr T rounds(T count, T at_once) {
  return (count + at_once - 1) / at_once;
}

/// Static shared memory is allocated in units of 16 bytes.
constexpr std::int64_t aligned_shared(std::int64_t bytes) { return (bytes + 15) / 16 * 16; }

// Tile columns and their slots.

/// Tile columns whose marks, with the number of marks before them, share a slot of 8 bytes.
constexpr int kColsOfSlot = 32;
constexpr int kSlotBytes = 8;

TESSERA_HOST_DEVICE constexpr std::int32_t slots_of(std::int32_t cols) {
  return (cols + kColsOfSlot - 1) / kColsOfSlot;
}

/// The first tile column of the slot that holds this one.
TESSERA_HOST_DEVICE constexpr std::int32_t slot_begin(std::int32_t tile_col) {
  return tile_col / kColsOfSlot * kColsOfSlot;
}

/// The tiles of a tile row.
struct alignas(8) TileRow {
  std::uint32_t begin;
  std::int32_t count;
};

/// The number of tile rows, or tile columns, of a matrix with `length` rows or columns.
constexpr std::int32_t tiles_across(std::int32_t length) {
  return static_cast<std::int32_t>((std::int64_t{length} + kSide - 1) / kSide);
}

// fill_tiles(): a thread block makes the tiles of one tile row of A or B.

/// Tiles whose bits and values are gathered at once, and tile columns that have slots at once.
constexpr int kTilesGathered = 512, kColsGathered = 1 << 16;

struct FillTiles {
  /// Nonzeros that a thread loads before it uses the first; they are kThreads apart.
  static constexpr int kAhead = 4;

  /// The tile row of a thread block.
  TESSERA_HOST_DEVICE static constexpr std::int32_t item_of(std::int64_t thread_block) {
    return static_cast<std::int32_t>(thread_block);
  }
  static constexpr std::int64_t thread_blocks(std::int64_t tile_rows) { return tile_rows; }

  /// Dynamic shared memory: the slots.
  static constexpr std::int64_t slot_bytes(std::int32_t tile_cols) {
    return std::int64_t{kSlotBytes} * slots_of(std::min(tile_cols, kColsGathered));
  }
  /// All shared memory: a bitmap and a first value for each tile, a sum for each warp, the slots.
  static constexpr std::int64_t shared_bytes(std::int32_t tile_cols) {
    return aligned_shared((8 + 4) * kTilesGathered + 4 * kWarps) + slot_bytes(tile_cols);
  }
};

// Tasks: the tile columns [first_col, end_col) of a tile row of C.

/// The longest tile row of A that counts as short. Its values stay in shared memory, and 64 bits
/// tell which of its tiles are paired for a tile of C.
constexpr int kShortRow = 64;

/// Tiles of a longer tile row of A whose pairs are listed together; no MMA combines two batches.
constexpr int kTilesOfBatch = 512;

/// Tile columns of C that a task of count_cells() handles at once, and at most one of make_sums().
constexpr int kColsAtOnce = 1 << 13;

struct alignas(16) Task {
  std::int32_t tile_row, first_col, end_col;
  std::uint32_t slice : 16;          // its number among the slices of the tile row
  std::uint32_t is_sliced : 1;       // the tile row has other slices
  std::uint32_t slots_at_once : 15;  // slots whose pairs can probably be listed at once
};

/// Pairs of tiles that a thread block lists at once.
TESSERA_HOST_DEVICE constexpr int pairs_listed(bool is_long) { return is_long ? 2048 : 1024; }

/// An upper limit on slices, in addition to one task for each tile row of C.
inline std::int64_t most_slices(std::int64_t tile_rows, std::int64_t tile_cols) {
  constexpr std::int64_t kMostSlices = 1 << 16;
  return std::min(kMostSlices, rounds<std::int64_t>(tile_cols, kColsOfSlot) * tile_rows);
}

/// The pairs of a task at which its tile row is cut. There must be more tasks than the device holds
/// at once; the number of pairs is unknown here, but the number of products can be estimated.
inline long long pairs_of_task(std::int64_t nonzeros_of_a, std::int64_t nonzeros_of_b,
                               std::int64_t rows_of_b) {
  const double products = static_cast<double>(nonzeros_of_a) * static_cast<double>(nonzeros_of_b) /
                          static_cast<double>(std::max(rows_of_b, std::int64_t{1}));
  constexpr double kProductsOfPair = 16, kTasks = 8192;
  return static_cast<long long>(std::clamp(products / kProductsOfPair / kTasks, 1024.0, 8192.0));
}

/// The width in slots of the slices of a tile row of C that spans `slots`; the whole span where it
/// is not cut. `pairs` may count empty products, too.
TESSERA_HOST_DEVICE constexpr std::int32_t slots_of_slice(std::int32_t slots, long long pairs,
                                                          long long most_pairs) {
  constexpr long long kMostOfRow = 1024;
  const long long fit = slots < kMostOfRow ? slots : kMostOfRow;
  const long long full = (pairs + most_pairs - 1) / most_pairs, wanted = full < fit ? full : fit;
  return wanted > 1 ? static_cast<std::int32_t>((slots + wanted - 1) / wanted) : slots;
}

/// The slots whose pairs can be listed at once if the pairs of the tile row are spread evenly.
TESSERA_HOST_DEVICE constexpr std::int32_t slots_at_once(std::int32_t slots, long long pairs,
                                                         std::int32_t tiles_of_a) {
  constexpr long long kMost = kColsAtOnce / kColsOfSlot;
  const long long listed =
      pairs == 0 ? 1 : slots * static_cast<long long>(pairs_listed(tiles_of_a > kShortRow)) / pairs;
  return static_cast<std::int32_t>(listed < 1 ? 1 : listed < kMost ? listed : kMost);
}

/// The slices of a tile row of C. They begin where slots do.
struct TileRowCut {
  /// Columns of C's tiles lie in [first_col, end_col).
  TESSERA_HOST_DEVICE constexpr TileRowCut(std::int32_t first_col, std::int32_t end_col_,
                                           long long pairs, long long most_pairs)
      : begin(slot_begin(first_col)),
        end_col(end_col_),
        slots(slots_of(end_col_ - begin)),
        width(slots_of_slice(slots, pairs, most_pairs)) {}

  TESSERA_HOST_DEVICE constexpr bool is_cut() const { return width < slots; }
  TESSERA_HOST_DEVICE constexpr void keep_whole() { width = slots; }
  TESSERA_HOST_DEVICE constexpr int slices() const {
    return width == 0 ? 1 : (slots + width - 1) / width;
  }
  /// Slices after the first one, where the tile row is cut.
  TESSERA_HOST_DEVICE constexpr int further_slices() const {
    return (slots + width - 1) / width - 1;
  }

  /// Writes a slice, one of slices(), to the task of the tile row.
  TESSERA_HOST_DEVICE constexpr void place(Task& task, int slice, int slices) const {
    task.slice = static_cast<std::uint32_t>(slice) & 0xffff;
    task.first_col = begin + slice * width * kColsOfSlot;
    task.end_col = slice + 1 < slices ? task.first_col + width * kColsOfSlot : end_col;
  }

  std::int32_t begin, end_col;  // tile columns
  std::int32_t slots, width;    // of the tile row and of a slice
};

// make_tasks(): a warp cuts one tile row of C into tasks.

struct MakeTasks {
  /// Tiles of A for which a lane has loads in flight; they are kWarpSize apart.
  static constexpr int kAhead = 4;

  /// The tile row of a thread's warp; there may be none.
  TESSERA_HOST_DEVICE static constexpr std::int64_t item_of(std::int64_t thread_block,
                                                            std::int64_t thread) {
    return (thread_block * kThreads + thread) / kWarpSize;
  }
  static constexpr std::int64_t thread_blocks(std::int64_t tile_rows) {
    return rounds<std::int64_t>(tile_rows, kWarps);
  }
};

// The order of tasks in count_cells() and make_sums(): further slices, which take longest, precede
// the first slices of all tile rows. The array of tasks holds the first slices, by tile row, and
// then the others.

/// The number in the array of the task that is taken as number `taken`.
template <class T>
TESSERA_HOST_DEVICE constexpr T number_of_task(T taken, T tile_rows, T slices) {
  return taken < slices ? tile_rows + taken : taken - slices;
}

/// The number in the array of another slice of a task's tile row; `number` is the task's own.
template <class T>
TESSERA_HOST_DEVICE constexpr T number_of_slice(const Task& task, T number, int slice) {
  return slice == 0 ? static_cast<T>(task.tile_row) : number + slice - static_cast<T>(task.slice);
}

/// Columns of C that a thread block handles at once.
struct ColumnRange {
  std::int32_t first, end;
  bool are_all;  // the tile row of C has no tiles outside

  TESSERA_HOST_DEVICE constexpr std::int32_t count() const { return end - first; }
};

/// Calls visit(ColumnRange) for `cols_at_once` columns of a task at a time.
template <class Visit>
TESSERA_HOST_DEVICE constexpr void for_column_ranges(const Task& task, std::int32_t cols_at_once,
                                                     Visit visit) {
  const bool are_all = !task.is_sliced && task.end_col - task.first_col <= cols_at_once;
  for (std::int32_t first = task.first_col; first < task.end_col; first += cols_at_once) {
    const std::int32_t left = task.end_col - first;
    visit(ColumnRange{first, first + (left < cols_at_once ? left : cols_at_once), are_all});
  }
}

/// The share of each lane of a thread block in the pairs of some factors. A factor is a tile of A
/// with the tiles of B in the tile row that it selects. Each factor has the largest power of two of
/// lanes with which all factors are processed at once, but at least 8 and at most 32.
struct FactorLanes {
  static constexpr int kMostBits = 5, kLeastBits = 3;

  TESSERA_HOST_DEVICE constexpr explicit FactorLanes(int factors) : bits(kMostBits) {
    while (bits > kLeastBits && factors << bits > kThreads) --bits;
  }

  TESSERA_HOST_DEVICE constexpr int lanes() const { return 1 << bits; }  // of a factor
  TESSERA_HOST_DEVICE constexpr int factors_at_once() const { return kThreads >> bits; }
  TESSERA_HOST_DEVICE constexpr int factors_of_warp() const { return kWarpSize >> bits; }

  /// The first factor of a thread; the next ones are factors_at_once() apart.
  TESSERA_HOST_DEVICE constexpr int first_factor(int thread) const { return thread >> bits; }
  /// The first of its tiles of B for the thread; the next ones are lanes() apart.
  TESSERA_HOST_DEVICE constexpr int first_tile(int thread) const { return thread & (lanes() - 1); }

  /// A number that grows with the time at which the thread block reaches a factor's tile of B.
  constexpr std::uint32_t step_of(int factor, std::int64_t tile) const {
    return static_cast<std::uint32_t>(factor / factors_at_once()) << 16 |
           static_cast<std::uint32_t>(tile >> bits);
  }

  int bits;
};

/// The first of the sorted items [begin, end) for which is_before(item) does not hold.
template <class T, class IsBefore>
TESSERA_HOST_DEVICE constexpr T first_not_before(T begin, T end, IsBefore is_before) {
  while (begin < end) {
    const T middle = begin + (end - begin) / 2;
    if (is_before(middle))
      begin = middle + 1;
    else
      end = middle;
  }
  return begin;
}

// count_cells(): a thread block counts the cells of one task after another.

/// Factors in shared memory at once, and tiles of C whose cells are counted at once.
constexpr int kStaged = 128, kTilesCounted = 512;
constexpr int kFactorBytes = 16;

struct CountCells {
  /// Lanes [8 t, 8 t + 8) count the cells of a tile t of a round, one row of cells each.
  static constexpr int kTilesAtOnce = kThreads / kSide, kTilesOfWarp = kWarpSize / kSide;

  /// The slots, the factors, the cells of tiles, totals of rows, a sum for each warp, the cursor.
  static constexpr std::int64_t shared_bytes() {
    return aligned_shared(kSlotBytes * (kColsAtOnce / kColsOfSlot) + kFactorBytes * kStaged +
                          8 * kTilesCounted + 4 * kSide + 4 * kWarps + 4);
  }
};

// make_sums(): a thread block adds up one task after another, kTilesOfPass tiles of C in a pass.

constexpr int kTilesOfPass = 128;

/// The sums of a tile take about as long as this many pairs, beside its own.
constexpr int kPairsOfTile = 3;

struct MakeSums {
  /// The number of thread blocks that a multiprocessor should hold.
  static constexpr int kThreadBlocksOfMultiprocessor = 8;

  /// Pairs in a list of two for an MMA that may be empty.
  static constexpr int padding(TileArithmetic arithmetic) { return pairs_of_mma(arithmetic) - 1; }
  /// A tile's pairs, rounded up to whole MMAs.
  TESSERA_HOST_DEVICE static constexpr int padded(int pairs, int padding) {
    return (pairs + padding) & ~padding;
  }
  /// Pairs for which a list has room.
  static constexpr int list_size(TileArithmetic arithmetic, bool is_long) {
    return pairs_listed(is_long) + padding(arithmetic) * kTilesOfPass;
  }

  /// Lanes of a thread block that share a row of cells; each takes neighbouring tiles of a pass.
  static constexpr int kLanesOfRow = kThreads / kSide;
  TESSERA_HOST_DEVICE static constexpr int tiles_of_lane(int tiles) {
    return rounds(tiles, kLanesOfRow);
  }

  /// The end of the list that begins with a tile: its pairs and those of the next tiles have to fit
  /// into `list_size`. first_pair(tile) is the number of pairs in tiles before, `first` that of the
  /// first tile.
  template <class FirstPair>
  TESSERA_HOST_DEVICE static constexpr int end_of_list(int tile, int tiles, int first,
                                                       int list_size, FirstPair first_pair) {
    const int most = first + list_size;
    int begin = tile + 1, end = tiles;
    while (begin < end) {
      const int middle = (begin + end + 1) / 2;
      if (first_pair(middle) <= most)
        begin = middle;
      else
        end = middle - 1;
    }
    return begin;
  }

  /// The work before a tile, in pairs.
  TESSERA_HOST_DEVICE static constexpr int work_before(int tile, int first_pair) {
    return first_pair + kPairsOfTile * tile;
  }
  /// The first of the tiles [begin, end) before which there is at least this much work.
  template <class FirstPair>
  TESSERA_HOST_DEVICE static constexpr int tile_after(int begin, int end, int work,
                                                      FirstPair first_pair) {
    while (begin < end) {
      const int middle = (begin + end) / 2;
      if (work_before(middle, first_pair(middle)) < work)
        begin = middle + 1;
      else
        end = middle;
    }
    return begin;
  }
  /// The share of a list's work at which a warp begins.
  TESSERA_HOST_DEVICE static constexpr int share_begin(int work, int warp) {
    return work * warp / kWarps;
  }

  /// Bytes of the structure in shared memory that all tasks use; `matches_bytes` of it tell which
  /// tiles of A are paired.
  static constexpr std::int64_t fixed_bytes(TileArithmetic arithmetic, bool is_long,
                                            std::int64_t matches_bytes) {
    constexpr std::int64_t kStagedPairBytes = 16;
    return aligned_shared(
        8 * kTilesOfPass + kFactorBytes * (is_long ? kTilesOfBatch : kShortRow) +
        kStagedPairBytes * kThreads + 8 * kSide + kSlotBytes * (kColsAtOnce / kColsOfSlot) +
        matches_bytes + (4 + 2) * list_size(arithmetic, is_long) + 4 * kTilesOfPass +
        2 * kSide * kTilesOfPass + 4 * (kTilesOfPass + 1) + 2 * kSide * kWarps + 4 * kWarps);
  }
  static constexpr std::int64_t fixed_bytes_of_short_rows(TileArithmetic arithmetic) {
    return fixed_bytes(arithmetic, false, kShortRow / 8 * kTilesOfPass);
  }
  /// Bytes of a lane's two values of a tile of A.
  static constexpr int lane_bytes(TileArithmetic arithmetic) { return 2 * value_bytes(arithmetic); }
  /// Static and dynamic shared memory for short tile rows of A of at most `longest` tiles: the
  /// cursor of tasks, the fixed structure, the values of A's tiles.
  static constexpr std::int64_t shared_bytes_of_short_rows(TileArithmetic arithmetic,
                                                           std::int32_t longest) {
    return aligned_shared(4) + fixed_bytes_of_short_rows(arithmetic) +
           std::int64_t{kWarpSize} * lane_bytes(arithmetic) * longest;
  }
};

}  // namespace tessera::tile_spgemm
