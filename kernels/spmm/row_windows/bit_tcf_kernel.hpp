// The host half that the kernels over BitTCF share: their arithmetic, the emulation of a window,
// and the memory instructions of their traces.
//
// The kernels differ in their schedule, and in how rows of B reach the MMAs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/spmm/row_windows/window_tiles.hpp"

namespace tessera {

/// Emulates rows of C through TC blocks one after another.
class WindowEmulation {
 public:
  WindowEmulation(const BitTcf& a, const Precision& precision, const FusedStep& step,
                  const PreparedB& b)
      : a_(a), precision_(precision), step_(step), b_(b) {}

  /// Adds TC blocks [first, last) to row r of their window; `c` [n] holds zeros on entry.
  void run_row(int r, std::int64_t first, std::int64_t last, std::span<float> c);

 private:
  /// Reads the terms of row r of the window in a TC block.
  void take_terms(std::int64_t block, int r);

  const BitTcf& a_;
  const Precision& precision_;
  const FusedStep& step_;
  const PreparedB& b_;
  std::vector<ChunkTerm> terms_;
};

/// A kernel whose rows of C are one chain of MMAs each, through the window's TC blocks in order.
class BitTcfKernel : public SpmmKernel {
 public:
  explicit BitTcfKernel(Precision precision) : precision_(std::move(precision)) {}

  std::string format() const override { return BitTcf::kFormat; }
  Arithmetic arithmetic() const override;
  std::vector<std::int64_t> terms_per_row(const PackedMatrix& packed) const override;
  DenseMatrix emulate(const PackedMatrix& packed, const DenseMatrix& b,
                      const Generation& generation) const override;

 protected:
  const Precision& precision() const { return precision_; }

  /// C [rows x n], the parts of a split window added in order.
  DenseMatrix emulate_tasks(const BitTcf& a, const window_tasks::Tasks& tasks, const DenseMatrix& b,
                            const Generation& generation) const;

  /// The work description without thread blocks and launches.
  WorkDescription describe(const std::string& kernel, const BitTcf& a, std::int64_t n) const;

 private:
  Precision precision_;
};

using row_windows::count_active_cols;
using row_windows::rows_of_window;

/// The addresses of a product's arrays.
struct BitTcfAddresses {
  BitTcfAddresses(const BitTcf& a, std::int64_t n, AddressSpace& space, bool has_bitmaps = true);

  std::uint64_t row_window_offset, tc_offset, sparse_a_to_b, tc_local_bit, values, b, c;
};

/// A trace with the memory instructions of window_tile.cuh, each one instruction of the warp. An
/// instruction of no active lane touches nothing and only takes an issue slot.
class BitTcfTrace : public LaunchTrace {
 protected:
  BitTcfTrace(const BitTcf& a, std::int64_t n, const BitTcfAddresses& at) : a_(a), n_(n), at_(at) {}

  // Cycles until the ranks of two elements are known: population counts run in a queued unit.
  static constexpr int kPopulationCounts = 20;

  /// Loads the extent of a window: two loads.
  void load_extent(std::int64_t window, int board, WarpTrace& trace) const;

  /// Loads the values of four condensed columns: of each row, those from its first to its last.
  /// Returns false, and appends nothing, where there are none.
  bool load_values(std::int64_t tile, int half, int board, WarpTrace& trace) const;

  /// Calls visit(k, address of column `col`) for the rows of B of four condensed columns, without
  /// padding.
  template <class Visit>
  void for_each_row_of_b(std::int64_t tile, int half, std::int64_t col, Visit visit) const {
    const std::int32_t* rows = &a_.sparse_a_to_b[tile * BitTcf::kTileCols + 4 * half];
    for (int k = 0; k < 4 && rows[k] != kNoColumn; ++k)
      visit(k, at_.b + 4 * (static_cast<std::uint64_t>(rows[k]) * n_ + col));
  }

  /// Touches columns [col, col + cols) of four rows of B; false where all four are padding.
  bool touch_b(std::int64_t tile, int half, std::int64_t col, std::int64_t cols,
               WarpTrace& trace) const;

  /// Adds the wavefronts of the last load, which brought rows of B to the lanes that multiply them:
  /// of any eight lanes, each pair reads another row, so that every sector takes its own wavefront.
  void add_fragment_wavefronts(WarpTrace& trace) const;

  /// Stores 16 bytes of two rows a lane, by `instructions` for each row where rows are aligned.
  void store(std::int64_t window, std::int64_t col, std::int64_t cols, int instructions,
             WarpTrace& trace) const;

  /// Adds four values of two rows a lane in the L2, for those rows that C has.
  void add(std::int64_t window, std::int64_t col, std::int64_t cols, WarpTrace& trace) const;

  /// Touches columns [col, col + cols) of the lanes' rows 2t + j of the window.
  void touch_c(std::int64_t window, int j, std::int64_t col, std::int64_t cols,
               WarpTrace& trace) const;

  /// True when any of four condensed columns of the TC block is not padding, which is at the end.
  bool has_cols(std::int64_t tile, int half) const {
    return a_.sparse_a_to_b[tile * BitTcf::kTileCols + 4 * half] != kNoColumn;
  }

  const BitTcf& a_;
  std::int64_t n_;
  BitTcfAddresses at_;
};

}  // namespace tessera
