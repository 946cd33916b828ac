// One warp per row window, all columns of C: no shared memory, no barrier and no communication
// between warps. Rows of B are loaded from the L2 to registers by 16 bytes a lane; those of the
// next TC block are being loaded while one is multiplied.
//
// The layout of the operands is Acc-SpMM's (section 3.4); the schedule follows the row-split
// kernels of the CUDA cores (Yang, Buluc and Owens, Euro-Par 2018). Departures: any N, M and K;
// operands rounded to nearest; every pass multiplies 128 columns, even where C has fewer left.

#include "kernels/spmm/row_windows/warps_spmm.hpp"

#include <algorithm>

#include "formats/base/registry.hpp"
#include "kernels/spmm/row_windows/bit_tcf_kernel.hpp"

namespace tessera {
namespace {

using namespace warps_spmm;
using window_tile::kTileCols;
using window_tile::kWarpCols;

constexpr int kMmas = kPassCols / window_tile::kMmaCols;
constexpr std::int64_t kZeroBytes = 4 * kPassCols;

/// A warp multiplies its window's TC blocks one after another, in the order of the machine code and
/// in passes of 128 columns.
class WarpsTrace final : public BitTcfTrace {
 public:
  WarpsTrace(const BitTcf& a, std::int64_t n, const BitTcfAddresses& at, std::uint64_t zeros)
      : BitTcfTrace(a, n, at), zeros_(zeros) {}

  bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
            WarpTrace& trace) const override {
    const std::int64_t window =
        window_of(static_cast<std::uint32_t>(thread_block), static_cast<std::uint32_t>(warp));
    if (window >= a_.num_row_windows()) {
      trace.issue(InstructionCounts::kIdle);
      return false;
    }
    const std::int64_t first = a_.row_window_offset[window],
                       last = a_.row_window_offset[window + 1];
    const std::int64_t col = first_col(cursor.part);
    if (cursor.step == 0) begin(window, cursor.part, trace);
    if (cursor.step == 0 && first < last) start(first, last, col, trace);
    const std::int64_t tile = first + cursor.step++;
    if (tile + 1 < last) {
      advance(tile, last, col, trace);
      return true;
    }
    if (first < last) multiply_last(trace);
    store_all(window, col, trace);
    cursor = {.step = 0, .part = cursor.part + 1};
    return cursor.part < num_passes(n_);
  }

 private:
  /// Instructions of a warp, memory instructions and MMAs included, counted in machine code for
  /// aligned operands (CUDA 13.0, sm_90a). An H200 executes within 0.1 % of their sum.
  struct InstructionCounts {
    static constexpr int kIdle = 10, kWarp = 48, kPass = 22;
    static constexpr int kFirstTile = 133, kSecondTile = 5;  // before the loop
    static constexpr int kTile = 194, kLastTile = 105, kStore = 84;
  };
  static constexpr int kIndexLoads = 4, kElementLoads = 2, kRowLoads = 2 * kGroups;
  static constexpr int kExtentBoard = 0, kIndexBoard = 1, kDataBoard = 2;

  void begin(std::int64_t window, std::int64_t pass, WarpTrace& trace) const {
    if (pass == 0) {
      trace.issue(InstructionCounts::kWarp - 2);
      trace.pause(kSpecialRegisterCycles);
      load_extent(window, kExtentBoard, trace);
      trace.wait(kExtentBoard);
    }
    trace.issue(InstructionCounts::kPass);
  }

  /// Loads the first TC block's operands and the second's indices.
  void start(std::int64_t first, std::int64_t last, std::int64_t col, WarpTrace& trace) const {
    load_index(first, trace);
    const int others = InstructionCounts::kFirstTile - kIndexLoads - kElementLoads - kRowLoads;
    trace.wait(kIndexBoard);
    trace.issue(others);
    trace.pause(kPopulationCounts);
    load_elements(first, trace);
    load_rows(first, col, trace);
    if (first + 1 == last) return;
    load_index(first + 1, trace);
    trace.issue(InstructionCounts::kSecondTile - kIndexLoads);
  }

  /// Multiplies a TC block, loads the next one's operands and the indices of the one after that.
  /// The first two MMAs are issued before the others' operands are converted.
  void advance(std::int64_t tile, std::int64_t last, std::int64_t col, WarpTrace& trace) const {
    const int others = InstructionCounts::kTile - kMmas - kIndexLoads - kElementLoads - kRowLoads;
    trace.wait(kIndexBoard);
    trace.issue(others / 3);
    trace.pause(kPopulationCounts);
    trace.wait(kDataBoard);
    trace.mma(2);
    load_elements(tile + 1, trace);
    trace.issue(others - others / 3);
    load_rows(tile + 1, col, trace);
    load_index(std::min(tile + 2, last - 1), trace);
    trace.mma(kMmas - 2);
  }

  void multiply_last(WarpTrace& trace) const {
    trace.wait(kDataBoard);
    trace.issue(InstructionCounts::kLastTile - kMmas);
    trace.mma(kMmas);
  }

  void load_index(std::int64_t tile, WarpTrace& trace) const {
    trace.load(kIndexBoard);
    trace.touch(at_.tc_offset + 4 * tile, 4);
    for (int half = 0; half < 2; ++half) {
      trace.load(kIndexBoard);
      trace.touch(at_.sparse_a_to_b + 4 * (tile * kTileCols + 4 * half), 16);
    }
    trace.load(kIndexBoard);
    trace.touch(at_.tc_local_bit + 8 * tile, 8);
  }

  void load_elements(std::int64_t tile, WarpTrace& trace) const {
    for (int half = 0; half < 2; ++half)
      if (!load_values(tile, half, kDataBoard, trace)) trace.issue(1);
  }

  /// Loads eight rows of B, four groups of 32 columns; zeros for padding.
  void load_rows(std::int64_t tile, std::int64_t col, WarpTrace& trace) const {
    const int loads = n_ % 4 == 0 ? 1 : 4;  // a lane's four columns, at once or one by one
    for (int half = 0; half < 2; ++half) {
      for (int g = 0; g < kGroups; ++g) {
        const std::int64_t cols = cols_of(g, col);
        if (cols == 0) trace.issue(loads);
        for (int i = 0; i < loads && cols > 0; ++i) {
          trace.load(kDataBoard);
          touch_b(tile, half, col + g * kWarpCols, cols, trace);
          const std::int32_t last_row = a_.sparse_a_to_b[tile * kTileCols + 4 * half + 3];
          if (last_row == kNoColumn) trace.touch(zeros_ + 4 * g * kWarpCols, 4 * kWarpCols);
          add_fragment_wavefronts(trace);
        }
      }
    }
  }

  void store_all(std::int64_t window, std::int64_t col, WarpTrace& trace) const {
    trace.wait_mma();
    trace.issue(InstructionCounts::kStore - 2 * kGroups);
    for (int g = 0; g < kGroups; ++g) {
      const std::int64_t cols = cols_of(g, col);
      if (cols > 0)
        store(window, col + g * kWarpCols, cols, 1, trace);
      else
        trace.issue(2);
    }
  }

  /// The number of columns of group g of a pass that C has.
  std::int64_t cols_of(int g, std::int64_t col) const {
    return std::clamp<std::int64_t>(n_ - col - g * kWarpCols, 0, kWarpCols);
  }

  std::uint64_t zeros_;
};

class WarpsSpmm final : public BitTcfKernel {
 public:
  WarpsSpmm() : BitTcfKernel(find_precision("tf32")) {}

  int version() const override { return 2; }

  WorkDescription work(const PackedMatrix& packed, std::int64_t n) const override {
    const auto& a = packed_as<BitTcf>(packed);
    WorkDescription work = describe("warps_spmm", a, n);
    for (std::int64_t i = 0; i < thread_blocks(a.num_row_windows()); ++i) {
      ThreadBlockWork& block = work.thread_blocks.emplace_back();
      for (std::uint32_t warp = 0; warp < kWarps; ++warp) {
        const std::int64_t window = window_of(static_cast<std::uint32_t>(i), warp);
        if (window < a.num_row_windows()) add_window(a, window, n, block);
      }
    }
    const BitTcfAddresses at(a, n, work.memory);
    const std::uint64_t zeros = work.memory.add("zeros", kZeroBytes);
    work.launches = {{.name = "multiply",
                      .thread_blocks = std::ssize(work.thread_blocks),
                      .threads_per_block = kThreads,
                      .registers_per_thread = kRegisters,
                      .trace = std::make_shared<WarpsTrace>(a, n, at, zeros)}};
    return work;
  }

 private:
  static void add_window(const BitTcf& a, std::int64_t window, std::int64_t n,
                         ThreadBlockWork& work) {
    const std::int64_t first = a.row_window_offset[window], last = a.row_window_offset[window + 1];
    const std::int64_t blocks = last - first, passes = num_passes(n);
    const std::int64_t nnz = a.tc_offset[last] - a.tc_offset[first];
    work.mma += blocks * kMmas * passes;
    // Bitmap, offset and column indices of each TC block, its nonzeros, and the window's extent.
    work.a_bytes += passes * (blocks * (8 + 4 + 4 * kTileCols) + 4 * nnz) + 8;
    work.b_bytes += 4 * count_active_cols(a, first, last) * n;
    work.c_bytes += 4 * rows_of_window(a, window) * n;
  }
};

const Register<SpmmKernel> entry{{
    .name = "warps_spmm",
    .summary =
        "BitTCF, one warp per row window and all columns of C, rows of B to registers (TF32)",
    .make = [](const Params&) { return std::make_unique<WarpsSpmm>(); },
}};

}  // namespace
}  // namespace tessera
