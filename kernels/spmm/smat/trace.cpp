// The launch of each rung: its work and, for the simulator, the trace of its warps in the order of
// the source.

#include "kernels/spmm/smat/trace.hpp"

#include <algorithm>
#include <bit>
#include <optional>

#include "formats/base/check.hpp"

namespace tessera::smat {
namespace {

/// The work of a warp: rows and columns of C, and the tiles for them.
struct Share {
  std::span<const Tile> tiles;
  std::int64_t first_tile;
  std::int64_t strip;
  std::int64_t first_row, rows;
  std::int64_t col, cols;
};

/// The cut of C among the warps of a rung.
class Shares {
 public:
  Shares(const Tiles& tiles, const SmatOptions& options, std::int64_t n)
      : tiles_(tiles), n_(n), cols_(options.cols_of_warp(n, tiles.height())) {}

  std::int64_t thread_blocks() const { return smat::thread_blocks(tiles_.num_strips(), n_, cols_); }
  int cols() const { return cols_; }  // of a warp

  /// The share of a warp, or nothing for a warp without work.
  std::optional<Share> of_warp(std::int64_t thread_block, int warp) const {
    const WarpItem item = item_of(thread_block, static_cast<std::uint32_t>(warp), n_, cols_);
    if (item.strip >= tiles_.num_strips()) return {};
    return Share{.tiles = tiles_.of_strip(item.strip),
                 .first_tile = tiles_.strip_offset()[item.strip],
                 .strip = item.strip,
                 .first_row = tiles_.first_row(item.strip),
                 .rows = tiles_.num_rows(item.strip),
                 .col = item.first_col,
                 .cols = std::min<std::int64_t>(cols_, n_ - item.first_col)};
  }

 private:
  const Tiles& tiles_;
  std::int64_t n_;
  int cols_;
};

/// The addresses of the arrays of a product. A is stored as fragments or as cells.
struct TraceAddresses {
  TraceAddresses(const Bcsr& a, const Tiles& tiles, const SmatOptions& options, std::int64_t n,
                 AddressSpace& space) {
    const auto count = static_cast<std::int64_t>(tiles.all().size());
    strip_offset = space.add("strip_offset", 8 * (tiles.num_strips() + 1));
    rows_of_b = space.add("rows_of_b", 8 * count);
    a_tile_bytes = kDepth * tiles.height() * (options.by_blocks() ? 2 : 4);
    a_tiles = space.add(options.by_blocks() ? "fragments" : "cells", a_tile_bytes * count);
    b = space.add("b", 4 * n * a.cols());
    c = space.add("c", 4 * n * a.rows());
  }

  std::uint64_t strip_offset, rows_of_b, a_tiles, b, c;
  std::int64_t a_tile_bytes;  // bytes of one
};

/// Instructions of a warp besides memory instructions and MMAs, counted in machine code (CUDA 13.0,
/// sm_90a, aligned operands) where they repeat for every tile.
struct InstructionCounts {
  static constexpr int kIdle = 30;    // a warp without a strip
  static constexpr int kFinish = 60;  // after its tiles, until the first store
  static constexpr int kDeeper = 4;   // of a tile, more with more than two stages
  int start;                          // before its tiles
  int tile;                           // for each
  int per_copy;                       // of a tile, for a copy of rows of B
  int per_group;                      // of a tile, for the operands of 32 columns, or of eight
  int per_cols;                       // of a tile, for four columns at once (CUDA cores)
  int store;                          // for 8 rows and 32 columns; on CUDA cores for the strip
};
/// The same for warps of eight columns; their strips have 16 rows.
constexpr InstructionCounts instructions_of_eight_cols(Rung rung) {
  switch (rung) {
    case Rung::kB:
      return {75, 116, 0, 0, 31, 54};
    case Rung::kT:
      return {75, 48, 0, 30, 0, 16};
    case Rung::kBt:
      return {75, 45, 0, 23, 0, 16};
    case Rung::kCbt:
      break;
  }
  return {150, 66, 4, 7, 0, 16};
}
constexpr InstructionCounts instructions_of(Rung rung, int height, int cols) {
  if (cols == kBlockCols) return instructions_of_eight_cols(rung);
  const bool high = height > kMmaRows;
  switch (rung) {
    case Rung::kB:
      return {75, 118, 0, 0, high ? 72 : 40, high ? 288 : 139};
    case Rung::kT:
      return {75, 40, 0, high ? 55 : 45, 0, 48};
    case Rung::kBt:
      // The compiler unrolls the loop over tiles where they have few columns.
      if (cols == kGroupCols) return {75, 64, 0, high ? 18 : 19, 0, 48};
      return {75, high ? 69 : 51, 0, high ? 18 : 24, 0, 48};
    case Rung::kCbt:
      break;
  }
  return {150, high ? 58 : 60, 5, high ? 6 : 4, 0, 48};
}

class SmatTrace final : public LaunchTrace {
 public:
  SmatTrace(std::shared_ptr<const Tiles> tiles, const SmatOptions& options, std::int64_t n,
            const TraceAddresses& at)
      : options_(options),
        tiles_(std::move(tiles)),
        shares_(*tiles_, options, n),
        n_(n),
        cols_(shares_.cols()),
        at_(at),
        instructions_(instructions_of(options.rung, tiles_->height(), cols_)) {}

  bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
            WarpTrace& trace) const override {
    const auto share = shares_.of_warp(thread_block, warp);
    if (!share) {
      trace.issue(InstructionCounts::kIdle);
      return false;
    }
    const auto tiles = std::ssize(share->tiles);
    if (cursor.step == 0) begin(*share, trace);
    if (cursor.step < tiles) add_tile(*share, cursor.step, trace);
    if (++cursor.step < tiles) return true;
    store(*share, trace);
    return false;
  }

 private:
  static constexpr int kDivision = 150;  // cycles that a 64-bit division waits for itself
  // The stages have the scoreboards below kMaxStages.
  static constexpr int kRowsBoard = kMaxStages, kDataBoard = kMaxStages + 1;

  bool staged() const { return options_.rung == Rung::kCbt; }
  int parts() const { return tiles_->height() / kMmaRows; }
  /// A warp has eight columns, a lane one of them.
  bool has_one_mma() const { return cols_ == kBlockCols; }
  /// MMAs of a tile for 32 columns, or for eight.
  int mmas_of_group() const { return mmas_of_tile(std::min(cols_, kGroupCols), tiles_->height()); }

  void begin(const Share& share, WarpTrace& trace) const {
    trace.issue(instructions_.start);
    trace.pause(kDivision);
    trace.load(kRowsBoard);
    trace.touch(at_.strip_offset + 8 * share.strip, 16);
    trace.wait(kRowsBoard);
    if (!staged() || share.tiles.empty()) return;
    load_rows_of_b(share, 0, trace);
    for (int s = 0; s + 1 < options_.stages; ++s) copy(share, s, trace);
  }

  void load_rows_of_b(const Share& share, std::int64_t tile, WarpTrace& trace) const {
    trace.load(kRowsBoard);
    trace.touch(at_.rows_of_b + 8 * (share.first_tile + tile), 8);
  }

  void add_tile(const Share& share, std::int64_t tile, WarpTrace& trace) const {
    if (staged())
      multiply_stage(share, tile, trace);
    else if (options_.on_tensor_cores())
      multiply_direct(share, tile, trace);
    else
      multiply_columns(share, tile, trace);
  }

  /// Copies a tile to its stage and loads the columns of the next.
  void copy(const Share& share, std::int64_t tile, WarpTrace& trace) const {
    const std::int64_t count = std::ssize(share.tiles);
    if (tile < count) {
      const int board = static_cast<int>(tile % options_.stages);
      trace.wait(kRowsBoard);
      const int at_once = 128 / cols_;  // rows of one instruction
      trace.issue(instructions_.tile + instructions_.per_copy * kDepth / at_once);
      for (int k = 0; k < kDepth; k += at_once) {
        const int copies = n_ % 4 == 0 ? 1 : 4;  // a lane's four columns, at once or one by one
        for (int i = 0; i < copies; ++i)
          copy_rows(share, share.tiles[tile], k, at_once, board, trace);
      }
      copy_fragments(share, tile, board, trace);
    }
    load_rows_of_b(share, std::min(tile + 1, count - 1), trace);
  }

  void copy_rows(const Share& share, const Tile& tile, int k, int rows, int board,
                 WarpTrace& trace) const {
    const std::uint32_t needed = tile.cols & (((1u << rows) - 1) << k);
    if (needed == 0) {
      trace.issue(1);  // zeros to shared memory
    } else if (n_ % 4 == 0) {
      const std::int64_t pitch = 4 * stage_pitch(cols_);
      trace.async_copy(board);
      for_each_row_of_b(share, tile, needed, [&](int row, std::uint64_t from) {
        trace.copy_to_shared(from, 4 * share.cols,
                             place_in_stage(board, row_in_stage(row, cols_) * pitch));
      });
    } else {
      trace.load(board);
      for_each_row_of_b(share, tile, needed,
                        [&](int, std::uint64_t from) { trace.touch(from, 4 * share.cols); });
    }
  }

  /// 8 bytes a lane, through the L1, for eight rows of A; 16 for sixteen.
  void copy_fragments(const Share& share, std::int64_t tile, int board, WarpTrace& trace) const {
    const std::uint64_t from = at_.a_tiles + at_.a_tile_bytes * (share.first_tile + tile);
    if (parts() == 1) {
      trace.load(board);
      trace.touch(from, at_.a_tile_bytes);
    } else {
      const std::int64_t behind_b = 4 * kDepth * stage_pitch(cols_);
      trace.async_copy(board);
      trace.copy_to_shared(from, at_.a_tile_bytes, place_in_stage(board, behind_b));
    }
  }

  std::uint64_t place_in_stage(int stage, std::int64_t byte) const {
    return stage * stage_bytes(cols_, tiles_->height()) + byte;
  }

  void multiply_stage(const Share& share, std::int64_t tile, WarpTrace& trace) const {
    trace.wait(static_cast<int>(tile % options_.stages));
    if (options_.stages > 2) trace.issue(InstructionCounts::kDeeper);
    copy(share, tile + options_.stages - 1, trace);
    trace.shared(2 * parts());
    constexpr int kLoads = 4;
    const int wavefronts = has_one_mma() ? 1 : 4;  // of a load
    for (int col = 0; col < cols_; col += kGroupCols) {
      trace.shared(kLoads * wavefronts);
      trace.issue(instructions_.per_group + kLoads - 1);
      trace.mma(mmas_of_group());
    }
  }

  void multiply_direct(const Share& share, std::int64_t tile, WarpTrace& trace) const {
    load_rows_of_b(share, tile, trace);
    load_a(share, tile, trace);
    trace.wait(kRowsBoard);
    trace.issue(instructions_.tile);
    for (std::int64_t col = 0; col < cols_; col += kGroupCols)
      load_rows(share, share.tiles[tile], col, trace);
    trace.wait(kDataBoard);
    for (std::int64_t col = 0; col < cols_; col += kGroupCols) {
      trace.issue(instructions_.per_group);
      trace.mma(mmas_of_group());
    }
  }

  /// Fragments at once, cells by two.
  void load_a(const Share& share, std::int64_t tile, WarpTrace& trace) const {
    const int loads = options_.by_blocks() ? 1 : 2 * parts();
    for (int i = 0; i < loads; ++i) {
      trace.load(kDataBoard);
      const std::int64_t part = at_.a_tile_bytes / loads;
      trace.touch(at_.a_tiles + at_.a_tile_bytes * (share.first_tile + tile) + part * i, part);
    }
  }

  /// Rows 2t + i, where a lane loads 16 bytes of four rows; any two of eight lanes share a sector.
  /// Of eight columns a lane loads one.
  void load_rows(const Share& share, const Tile& tile, std::int64_t col, WarpTrace& trace) const {
    constexpr std::uint32_t kRows[4] = {0x0055, 0x00aa, 0x5500, 0xaa00};
    const std::int64_t cols = std::clamp<std::int64_t>(share.cols - col, 0, kGroupCols);
    const int loads = n_ % 4 == 0 || has_one_mma() ? 1 : 4;
    for (const std::uint32_t rows : kRows) {
      for (int i = 0; i < loads; ++i) {
        trace.load(kDataBoard);
        if (cols == 0) continue;
        for (std::uint32_t left = tile.cols & rows; left != 0; left &= left - 1)
          trace.touch(address_of_b(tile, std::countr_zero(left), share.col + col), 4 * cols);
        if (const int sectors = trace.touched_sectors(); sectors > 0) trace.wavefronts(sectors);
      }
    }
  }

  /// Four columns of A after four: their rows of B, and A's cells of a row at once.
  void multiply_columns(const Share& share, std::int64_t tile, WarpTrace& trace) const {
    load_rows_of_b(share, tile, trace);
    trace.wait(kRowsBoard);
    trace.issue(instructions_.tile);
    const Tile& of = share.tiles[tile];
    const std::uint64_t cells = at_.a_tiles + at_.a_tile_bytes * (share.first_tile + tile);
    for (int k = 0; k < kDepth; k += kColsAtOnce) {
      const std::uint32_t needed = cols_at_once(of.cols, k);
      if (needed == 0) continue;
      for_each_row_of_b(share, of, needed << k, [&](int, std::uint64_t from) {
        trace.load(kDataBoard);
        trace.touch(from, 4 * share.cols);
      });
      for (int first = 0; first < tiles_->height(); first += rows_at_once(cols_)) {
        trace.load(kDataBoard);
        for (std::int64_t row = first; row < first + rows_at_once(cols_); ++row)
          trace.touch(cells + 4 * (row * kDepth + k), 4 * kColsAtOnce);
      }
      trace.wait(kDataBoard);
      // A load that nobody needs is an instruction, too.
      trace.issue(instructions_.per_cols + kColsAtOnce - std::popcount(needed));
    }
  }

  std::uint64_t address_of_b(const Tile& tile, int k, std::int64_t col) const {
    return at_.b + 4 * ((std::int64_t{tile.b_row} + k) * n_ + col);
  }

  /// Calls visit(k, address of the warp's first column) for the rows k of `rows`.
  template <class Visit>
  void for_each_row_of_b(const Share& share, const Tile& tile, std::uint32_t rows,
                         Visit visit) const {
    for (; rows != 0; rows &= rows - 1) {
      const int k = std::countr_zero(rows);
      visit(k, address_of_b(tile, k, share.col));
    }
  }

  void store(const Share& share, WarpTrace& trace) const {
    trace.issue(InstructionCounts::kFinish);
    if (options_.on_tensor_cores() && !share.tiles.empty()) trace.wait_mma();
    if (!options_.on_tensor_cores()) {
      trace.issue(instructions_.store);
      for (std::int64_t first = 0; first < share.rows; first += rows_at_once(cols_)) {
        trace.store();
        for (std::int64_t row = first; row < std::min(first + rows_at_once(cols_), share.rows);
             ++row)
          touch_c(share, row, 0, share.cols, trace);
      }
      return;
    }
    const int groups = (cols_ + kGroupCols - 1) / kGroupCols;
    trace.issue(instructions_.store * groups * parts());
    for (std::int64_t col = 0; col < share.cols; col += kGroupCols)
      for (std::int64_t first = 0; first < share.rows; first += kMmaRows)
        store_part(share, first, col, trace);
  }

  /// Eight rows of 32 columns: rows 2t + i at once, 16 bytes a lane. Of eight columns all rows at
  /// once, 8 bytes a lane.
  void store_part(const Share& share, std::int64_t first, std::int64_t col,
                  WarpTrace& trace) const {
    const std::int64_t end = std::min(first + kMmaRows, share.rows);
    const std::int64_t cols = std::min<std::int64_t>(kGroupCols, share.cols - col);
    const int apart = has_one_mma() ? 1 : 2;
    const int stores = n_ % 4 == 0 ? 1 : has_one_mma() ? 2 : 4;
    for (std::int64_t i = 0; i < apart && first + i < end; ++i) {
      trace.store(stores);
      for (std::int64_t row = first + i; row < end; row += apart)
        touch_c(share, row, col, cols, trace);
    }
  }

  void touch_c(const Share& share, std::int64_t row, std::int64_t col, std::int64_t cols,
               WarpTrace& trace) const {
    trace.touch(at_.c + 4 * ((share.first_row + row) * n_ + share.col + col), 4 * cols);
  }

  SmatOptions options_;
  std::shared_ptr<const Tiles> tiles_;
  Shares shares_;
  std::int64_t n_;
  int cols_;  // of a warp
  TraceAddresses at_;
  InstructionCounts instructions_;
};

/// Adds the work of a warp to its thread block.
void add_share(const Tiles& tiles, const Share& share, const SmatOptions& options, int warp_cols,
               ThreadBlockWork& work) {
  const int height = tiles.height();
  work.a_bytes += 16;
  work.c_bytes += 4 * share.rows * share.cols;
  for (const Tile& tile : share.tiles) {
    const std::int64_t cols = std::popcount(tile.cols);
    work.b_bytes += 4 * cols * share.cols;
    work.a_bytes += 8;
    if (options.on_tensor_cores()) {
      work.mma += mmas_of_tile(warp_cols, height);
      work.a_bytes += kDepth * height * (options.by_blocks() ? 2 : 4);
    } else {
      work.fma += cols * height * share.cols;
      for (int k = 0; k < kDepth; k += kColsAtOnce)
        if (cols_at_once(tile.cols, k) != 0) work.a_bytes += 4 * kColsAtOnce * height;
    }
  }
}

std::int64_t count_rows_of_b(const Bcsr& a, const Tiles& tiles) {
  std::vector<std::uint8_t> needed(a.cols(), 0);
  for (const Tile& tile : tiles.all())
    for (std::uint32_t cols = tile.cols; cols != 0; cols &= cols - 1)
      needed[tile.b_row + std::countr_zero(cols)] = 1;
  return std::ranges::count(needed, 1);
}

}  // namespace

WorkDescription describe_work(const Bcsr& a, std::shared_ptr<const Tiles> tiles,
                              const SmatOptions& options, std::int64_t n) {
  WorkDescription work{.kernel = "smat"};
  if (options.on_tensor_cores()) {
    work.mma_type = "fp16";  // BF16 has the same rate
    work.mma_shape = "m16n8k16";
    work.flops_per_mma = 2 * 16 * kMmaRows * kDepth;
  }
  const Shares shares(*tiles, options, n);
  work.thread_blocks.resize(shares.thread_blocks());
  for (std::int64_t block = 0; block < shares.thread_blocks(); ++block)
    for (int warp = 0; warp < kWarps; ++warp)
      if (const auto share = shares.of_warp(block, warp))
        add_share(*tiles, *share, options, shares.cols(), work.thread_blocks[block]);
  work.footprint_bytes = stats(a).bytes;
  work.b_rows_bytes = 4 * n * count_rows_of_b(a, *tiles);
  work.c_bytes = 4 * n * a.rows();
  work.useful_flops = 2 * a.nnz() * n;
  const TraceAddresses at(a, *tiles, options, n, work.memory);
  work.launches = {
      {.name = "multiply",
       .thread_blocks = static_cast<std::int64_t>(work.thread_blocks.size()),
       .threads_per_block = kThreads,
       .registers_per_thread = kInstances[options.instance(n, tiles->height())].registers,
       .shared_bytes = options.shared_bytes(n, tiles->height()),
       .trace = std::make_shared<SmatTrace>(tiles, options, n, at)}};
  return work;
}

}  // namespace tessera::smat
