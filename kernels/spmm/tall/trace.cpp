#include "kernels/spmm/tall/trace.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/spmm/row_windows/split_windows.hpp"
#include "kernels/spmm/row_windows/split_windows_trace.hpp"

namespace tessera::tall_spmm {
namespace {

/// Instructions of a warp besides those of memory, counted in machine code (CUDA 13.0, sm_90a) for
/// aligned operands.
struct InstructionCounts {
  // Of a thread block: until its first barrier, the second one and its first turn.
  static constexpr int kStart = 52, kFirstRecords = 17, kFirstTiles = 102;
  static constexpr int kTurnStart = 16, kExtent = 24;  // of a turn: before and behind its barrier
  static constexpr int kFullTile = 28, kStep = 10;     // MMAs of a full tile, each of another
  static constexpr int kCloseMmas = 5;
  static constexpr int kCopyRows = 44, kCopySomeRows = 59;
  static constexpr int kFetch = 32;  // of a record and turns
  static constexpr int kExpand = 33, kExpandMore = 45;
  static constexpr int kTurnEnd = 14;
  static constexpr int kStoreRow = 17;                       // of each half of a warp's rows
  static constexpr int kStoreFp32 = 29, kStoreRounded = 38;  // and for 16 bytes a lane of it
};

/// Stores of a thread that clear a tile.
constexpr int kClearing = kTileBytes / (16 * kThreads);
/// Wavefronts of a warp's access to shared memory by 16 bytes a lane.
constexpr int kWideWavefronts = 4;
/// Of a warp's part of an MMA: a quarter of what it reads of A and B.
constexpr int kMmaWavefronts =
    kStepDepth * kElementBytes * (kWindowRows + kCols) / (kWarps * tessera::kLineBytes);
constexpr int kSumVectors = kCols / 8;  // of 16 bytes, of a lane

struct TraceAddresses {
  std::uint64_t b, c, first_turn, turns, records, nonzeros, slots;

  TraceAddresses(const TallTiles& a, std::int64_t n, const Storage& storage, const Plan& plan,
                 AddressSpace& memory)
      : b(memory.add("b", static_cast<std::int64_t>(bytes_of(storage.b)) * n * a.cols())),
        c(memory.add("c", static_cast<std::int64_t>(bytes_of(storage.c)) * n * a.rows())),
        first_turn(memory.add("first_turn", 4 * std::ssize(plan.first_turn))),
        turns(memory.add("turns", static_cast<std::int64_t>(sizeof(Turn)) *
                                      (std::ssize(plan.turns) + 2 * kTurns))),
        records(memory.add("records",
                           static_cast<std::int64_t>(sizeof(TileRecord)) * (a.num_tiles() + 1))),
        nonzeros(memory.add("nonzeros", 4 * a.nnz())),
        slots(memory.add("slots", chunks_of(n) * kWarps * plan.tasks.slots *
                                      window_tasks::slot_bytes(kSumVectors))) {}
};

class TallTrace final : public LaunchTrace {
 public:
  TallTrace(const TallTiles& a, std::vector<TileExtent> extents, std::int64_t n,
            const Storage& storage, Plan plan, AddressSpace& memory)
      : a_(a),
        extents_(std::move(extents)),
        n_(n),
        c_bytes_(static_cast<int>(bytes_of(storage.c))),
        plan_(std::move(plan)),
        parts_(parts_of_warps(plan_.tasks)),
        at_(a, n, storage, plan_, memory) {}

  bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
            WarpTrace& trace) const override {
    const Share mine(*this, thread_block, warp);
    if (cursor.step == 0) begin(mine, trace);
    if (cursor.step < mine.count) multiply(mine, cursor.step, trace);
    return ++cursor.step < mine.count;
  }

 private:
  // A board for the copies of each stage.
  static constexpr int kNonzeroBoard = kStages, kStartBoard = kStages + 1, kSlotBoard = kStages + 2,
                       kElementBoard = kStages + 3;

  /// The turns of a thread block, and the columns of B and C.
  struct Share {
    std::int64_t worker, first, count, chunk, col, cols;
    int warp;

    Share(const TallTrace& of, std::int64_t thread_block, int warp_of_block) : warp(warp_of_block) {
      worker = thread_block / chunks_of(of.n_);
      first = of.plan_.first_turn[worker], count = of.plan_.first_turn[worker + 1] - first;
      chunk = thread_block % chunks_of(of.n_);
      col = chunk * kCols, cols = std::min<std::int64_t>(kCols, of.n_ - col);
    }
  };

  bool is_aligned() const { return n_ % (16 / kElementBytes) == 0; }

  /// The tile of a turn, counted over all thread blocks; behind the last one the first tile.
  std::int64_t tile_at(std::int64_t turn) const {
    return turn < std::ssize(plan_.turns) ? plan_.turns[turn].tile : 0;
  }
  const TileExtent& extent_at(std::int64_t turn) const { return extents_[tile_at(turn)]; }

  /// The nonzeros of a tile that store or load `i` of a warp takes: from `first` of the tile on.
  struct Lanes {
    std::int64_t first, count;
  };
  static Lanes lanes_of(const TileExtent& tile, int warp, std::int64_t i) {
    const std::int64_t first = i * kThreads + 32 * warp;
    return {first, std::clamp<std::int64_t>(tile.nonzeros - first, 0, 32)};
  }

  /// The wavefronts of stores of two bytes to the cells of these nonzeros: a bank takes one of its
  /// words at a time.
  int cell_wavefronts(const TileExtent& tile, const Lanes& lanes) const {
    std::array<std::array<std::uint32_t, 32>, 32> words;
    std::array<int, 32> count = {};
    int most = 0;
    for (std::int64_t i = 0; i < lanes.count; ++i) {
      const int place = a_.places[tile.first + lanes.first + i];
      const std::uint32_t word =
          expanded_byte(static_cast<std::uint32_t>(TallTiles::row_of(place)),
                        static_cast<std::uint32_t>(TallTiles::col_of(place))) /
          4;
      auto& of_bank = words[word % 32];
      int& found = count[word % 32];
      if (std::find(of_bank.begin(), of_bank.begin() + found, word) != of_bank.begin() + found)
        continue;
      of_bank[static_cast<std::size_t>(found++)] = word;
      most = std::max(most, found);
    }
    return most;
  }

  /// Instructions that access shared memory one behind another.
  static void access_shared(int instructions, int wavefronts, WarpTrace& trace) {
    if (instructions > 1) trace.issue(instructions - 1);
    trace.shared(std::max(wavefronts, 1));
  }

  void begin(const Share& mine, WarpTrace& trace) const {
    trace.issue(InstructionCounts::kStart);
    trace.pause(kSpecialRegisterCycles);
    trace.load(kStartBoard);
    trace.touch(element(at_.first_turn, mine.worker, 4), 8);
    trace.wait(kStartBoard);
    if (32 * mine.warp < kTurns) {
      trace.async_copy(kStartBoard);
      copy_turns(mine.first + 32 * mine.warp, trace);
    }
    access_shared(kExpandedTiles * kClearing, kExpandedTiles * kClearing * kWideWavefronts, trace);
    trace.wait(kStartBoard);
    trace.barrier();
    trace.issue(InstructionCounts::kFirstRecords);
    access_shared(kStages, kStages, trace);
    for (int i = 0; i < kStages; ++i) fetch_record(mine, i, kStartBoard, trace);
    trace.wait(kStartBoard);
    trace.barrier();
    trace.issue(InstructionCounts::kFirstTiles);
    access_shared(2, 2, trace);
    load_nonzeros(mine, 0, trace);
    for (int i = 0; i < kStages - 1; ++i) {
      if (i < mine.count) copy_rows(mine, i, trace);
      if (i == kStages - 2) fetch_record(mine, kStages, i, trace);
    }
    expand(mine, 0, 0, trace);
    load_nonzeros(mine, 1, trace);
  }

  void multiply(const Share& mine, std::int64_t i, WarpTrace& trace) const {
    const TileExtent& tile = extent_at(mine.first + i);
    // Unaligned rows are not copied asynchronously, records are from the second turn's copies on.
    if (is_aligned() || (mine.warp == 0 && i > 0)) trace.wait(board_of(i));
    trace.issue(InstructionCounts::kTurnStart);
    // The fence before wgmma orders loads, too: it waits for the nonzeros of the next tile.
    if (lanes_of(extent_at(mine.first + i + 1), mine.warp, 0).count > 0) trace.wait(kNonzeroBoard);
    trace.barrier();
    trace.issue(InstructionCounts::kExtent);
    access_shared(2, 2, trace);
    trace.issue(tile.steps() == kSteps ? InstructionCounts::kFullTile
                                       : InstructionCounts::kStep * tile.steps());
    trace.async_mma(tile.steps(), kMmaWavefronts * tile.steps());
    trace.issue(InstructionCounts::kCloseMmas);
    if (i + kStages - 1 < mine.count) copy_rows(mine, i + kStages - 1, trace);
    trace.issue(InstructionCounts::kFetch);
    fetch_record(mine, i + kStages + 1, board_of(i + kStages - 1), trace);
    if (constexpr int kHalf = kTurns / 2; mine.warp == 0 && i % kHalf == 0 && i > 0) {
      trace.async_copy(board_of(i + kStages - 1));
      copy_turns(mine.first + i + kHalf, trace);
    }
    trace.issue(kClearing);
    expand(mine, i + 1, kClearing * kWideWavefronts, trace);
    load_nonzeros(mine, i + 2, trace);
    trace.issue(InstructionCounts::kTurnEnd);
    trace.wait_mma();
    if (plan_.turns[mine.first + i].is_last()) finish(mine, plan_.turns[mine.first + i], trace);
  }

  static int board_of(std::int64_t i) { return static_cast<int>(i % kStages); }

  /// Half of the turns in shared memory, from turn `first` on.
  void copy_turns(std::int64_t first, WarpTrace& trace) const {
    constexpr int kBytes = sizeof(Turn);
    trace.copy_to_shared(element(at_.turns, first, kBytes), kBytes * (kTurns / 2), 0);
  }

  void fetch_record(const Share& mine, std::int64_t i, int board, WarpTrace& trace) const {
    if (mine.warp != 0) return trace.issue(1);
    constexpr int kBytes = sizeof(TileRecord);
    trace.load(board);
    trace.touch(element(at_.records, tile_at(mine.first + i), kBytes), kBytes);
  }

  /// Copies the rows of B of the tile of turn `i`, of which half a warp has eight. Their 16-byte
  /// pieces change places within 32 bytes, too, which takes no sector apart.
  void copy_rows(const Share& mine, std::int64_t i, WarpTrace& trace) const {
    constexpr int kRows = 8;
    const TileExtent& tile = extent_at(mine.first + i);
    trace.issue(tile.columns == kTileCols ? InstructionCounts::kCopyRows
                                          : InstructionCounts::kCopySomeRows);
    access_shared(2, 2, trace);
    for (int r = 0; r < kRows; ++r) {
      const auto for_each_row = [&](auto visit) {
        for (int half = 0; half < 2; ++half) {
          const int k = kRows * (2 * mine.warp + half) + r;
          if (k >= tile.columns) continue;
          const std::int64_t row = a_.tile_cols[tile_at(mine.first + i) * kTileCols + k];
          visit(k, element(at_.b, row * n_ + mine.col, kElementBytes));
        }
      };
      const std::int64_t bytes = kElementBytes * mine.cols;
      if (is_aligned()) {
        trace.async_copy(board_of(i));
        for_each_row([&](int k, std::uint64_t from) {
          trace.copy_to_shared(from, bytes, static_cast<std::uint64_t>(k * kLineBytes));
        });
        trace.wavefronts(kWideWavefronts);  // where nothing is copied, zeros are written
        continue;
      }
      for (int element = 0; element < 16 / kElementBytes; ++element) {
        trace.load(kElementBoard);
        for_each_row([&](int, std::uint64_t from) { trace.touch(from, bytes); });
      }
      trace.wait(kElementBoard);
      trace.shared(kWideWavefronts);
    }
  }

  void load_nonzeros(const Share& mine, std::int64_t i, WarpTrace& trace) const {
    load_nonzeros(mine, i, 0, trace);
  }
  /// Each lane loads kLoaded nonzeros, from `first` times as many on. Predicated instructions
  /// without one are issued.
  void load_nonzeros(const Share& mine, std::int64_t i, std::int64_t first,
                     WarpTrace& trace) const {
    const TileExtent& tile = extent_at(mine.first + i);
    for (std::int64_t k = first * kLoaded; k < (first + 1) * kLoaded; ++k) {
      const Lanes lanes = lanes_of(tile, mine.warp, k);
      if (lanes.count == 0) {
        trace.issue(1);
        continue;
      }
      trace.load(kNonzeroBoard);
      trace.touch(element(at_.nonzeros, tile.first + lanes.first, 4), 4 * lanes.count);
    }
  }

  /// Writes the nonzeros of the tile of turn `i` to their cells, behind `wavefronts` of other
  /// stores.
  void expand(const Share& mine, std::int64_t i, int wavefronts, WarpTrace& trace) const {
    const TileExtent& tile = extent_at(mine.first + i);
    trace.issue(InstructionCounts::kExpand);
    for (std::int64_t first = 0; first == 0 || first * kLoaded * kThreads < tile.nonzeros;
         ++first) {
      if (first > 0) {
        trace.issue(InstructionCounts::kExpandMore);
        load_nonzeros(mine, i, first, trace);
      }
      if (lanes_of(tile, mine.warp, first * kLoaded).count > 0) trace.wait(kNonzeroBoard);
      for (std::int64_t k = first * kLoaded; k < (first + 1) * kLoaded; ++k)
        wavefronts += cell_wavefronts(tile, lanes_of(tile, mine.warp, k));
      access_shared(kLoaded, wavefronts, trace);
      wavefronts = 0;
    }
  }

  /// Stores the sums of a window, or leaves those of a part of it.
  void finish(const Share& mine, const Turn& turn, WarpTrace& trace) const {
    if (turn.split != 0) {
      const std::uint32_t first =
          parts_.splits[kWarps * (turn.split - 1) + static_cast<std::uint32_t>(mine.warp)]
              .first_task;
      if (!window_tasks::trace_combine_split_window(parts_, first + turn.part(), mine.chunk,
                                                    kSumVectors, at_.slots, kSlotBoard, trace))
        return;
    }
    // A lane's 16 bytes are four or eight columns; four lanes have 64 bytes of a row.
    const std::int64_t cols_at_once = 64 / c_bytes_;
    constexpr int kRows = kWarpRows / 2;
    for (int upper = 0; upper < 2; ++upper) {
      trace.issue(InstructionCounts::kStoreRow);
      const std::int64_t row =
          std::int64_t{turn.window} * kWindowRows + kWarpRows * mine.warp + kRows * upper;
      const std::int64_t rows = std::min<std::int64_t>(kRows, a_.rows() - row);
      for (std::int64_t col = 0; col < kCols; col += cols_at_once) {
        trace.issue(c_bytes_ == 4 ? InstructionCounts::kStoreFp32
                                  : InstructionCounts::kStoreRounded);
        store(row, rows, mine.col + col, std::min(cols_at_once, mine.cols - col), trace);
      }
    }
  }

  void store(std::int64_t row, std::int64_t rows, std::int64_t col, std::int64_t cols,
             WarpTrace& trace) const {
    if (rows <= 0 || cols <= 0) return;
    trace.store(is_aligned() ? 1 : 16 / c_bytes_);
    for (std::int64_t r = 0; r < rows; ++r)
      trace.touch(element(at_.c, (row + r) * n_ + col, c_bytes_), c_bytes_ * cols);
    trace.wavefronts(trace.touched_sectors());
  }

  const TallTiles& a_;
  std::vector<TileExtent> extents_;
  std::int64_t n_;
  int c_bytes_;
  Plan plan_;
  window_tasks::Tasks parts_;
  TraceAddresses at_;
};

}  // namespace

std::vector<TileExtent> extents_of(const TallTiles& a) {
  std::vector<TileExtent> extents;
  extents.reserve(static_cast<std::size_t>(a.num_tiles() + 1));
  for (std::int64_t tile = 0; tile < a.num_tiles(); ++tile) {
    const auto first = a.tile_cols.begin() + tile * kTileCols;
    extents.push_back({a.tile_offset[tile], a.tile_offset[tile + 1] - a.tile_offset[tile],
                       static_cast<int>(std::find(first, first + kTileCols, kNoColumn) - first)});
  }
  extents.push_back({0, 0, 0});
  return extents;
}

std::shared_ptr<const LaunchTrace> make_trace(const TallTiles& a, std::vector<TileExtent> extents,
                                              std::int64_t n, const Storage& storage, Plan plan,
                                              AddressSpace& memory) {
  return std::make_shared<TallTrace>(a, std::move(extents), n, storage, std::move(plan), memory);
}

}  // namespace tessera::tall_spmm
