// What the kernels over BitTCF with one MMA chain per row window have in common on the host: their
// arithmetic, the emulation of a window, and how a trace touches the packed arrays.
//
// They differ in schedule: who takes which window or TC block, and how B gets to the MMAs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "formats/bit_tcf.hpp"
#include "kernels/spmm_kernel.hpp"
#include "kernels/tensor_core/precision.hpp"

namespace tessera {

/// Rows of C going through TC blocks one after another.
class WindowEmulation {
 public:
  WindowEmulation(const BitTcf& a, const Precision& precision, const FusedStep& step,
                  const PreparedB& b)
      : a_(a), precision_(precision), step_(step), b_(b) {}

  /// All rows of a window through all its TC blocks.
  void run(std::int64_t window, DenseMatrix& c);

  /// Row r of its window through TC blocks [first, last). `c` comes in as zeros.
  void run_row(int r, std::int64_t first, std::int64_t last, std::span<float> c);

 private:
  /// What row r of the window has in the TC block.
  void take_terms(std::int64_t block, int r);

  const BitTcf& a_;
  const Precision& precision_;
  const FusedStep& step_;
  const PreparedB& b_;
  std::vector<ChunkTerm> terms_;
};

/// One chain for each row, through its window's TC blocks in order.
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

  /// All of it but the thread blocks and launches.
  WorkDescription describe(const std::string& kernel, const BitTcf& a, std::int64_t n) const;

 private:
  Precision precision_;
};

/// Distinct columns of TC blocks [first, last): their rows of B are fetched once for each.
std::int64_t count_active_cols(const BitTcf& a, std::int64_t first, std::int64_t last);

/// Rows of C that a window has.
std::int64_t rows_of_window(const BitTcf& a, std::int64_t window);

/// Where the arrays of a product lie.
struct BitTcfAddresses {
  BitTcfAddresses(const BitTcf& a, std::int64_t n, AddressSpace& space, bool has_bitmaps = true);

  std::uint64_t row_window_offset, tc_offset, sparse_a_to_b, tc_local_bit, values, b, c;
};

/// A trace with the memory instructions of window_tile.cuh. Each is one of the warp, and touches
/// nothing where no lane takes part: then it only takes an issue slot.
class BitTcfTrace : public LaunchTrace {
 protected:
  BitTcfTrace(const BitTcf& a, std::int64_t n, const BitTcfAddresses& at) : a_(a), n_(n), at_(at) {}

  // Cycles that the places of two cells take: population counts, whose unit is behind a queue of
  // its own.
  static constexpr int kPopulationCounts = 20;
  // Cycles until thread and block indices are there.

  /// The extent of a window: two loads.
  void load_extent(std::int64_t window, int board, WarpTrace& trace) const;

  /// The values of four condensed columns: of each row those between its first and its last. False,
  /// and nothing is added, where there are none.
  bool load_values(std::int64_t tile, int half, int board, WarpTrace& trace) const;

  /// Calls visit(k, address of column `col`) for the rows of B of four condensed columns, as far as
  /// there are such.
  template <class Visit>
  void for_each_row_of_b(std::int64_t tile, int half, std::int64_t col, Visit visit) const {
    const std::int32_t* rows = &a_.sparse_a_to_b[tile * BitTcf::kTileCols + 4 * half];
    for (int k = 0; k < 4 && rows[k] != kNoColumn; ++k)
      visit(k, at_.b + 4 * (static_cast<std::uint64_t>(rows[k]) * n_ + col));
  }

  /// Touches columns [col, col + cols) of four rows of B; false where there are none.
  bool touch_b(std::int64_t tile, int half, std::int64_t col, std::int64_t cols,
               WarpTrace& trace) const;

  /// The last load brought rows of B straight to the lanes that multiply them: of any eight lanes
  /// each two have another row, so that every sector takes a wavefront of its own.
  void lies_as_fragments(WarpTrace& trace) const;

  /// Each lane stores 16 bytes of two rows; a quarter of the warp has a sector of four rows.
  /// `instructions` for a lane's four columns, where they are aligned.
  void store(std::int64_t window, std::int64_t col, std::int64_t cols, int instructions,
             WarpTrace& trace) const;

  /// Four values a lane are added in the L2, of the rows that there are.
  void add(std::int64_t window, std::int64_t col, std::int64_t cols, WarpTrace& trace) const;

  /// The bytes that row `j` of each lane (2t + j of the window) has in 32 columns of C.
  void touch_c(std::int64_t window, int j, std::int64_t col, std::int64_t cols,
               WarpTrace& trace) const;

  /// Whether any of four condensed columns of the TC block is there: padding is at the end.
  bool has_cols(std::int64_t tile, int half) const {
    return a_.sparse_a_to_b[tile * BitTcf::kTileCols + 4 * half] != kNoColumn;
  }

  const BitTcf& a_;
  std::int64_t n_;
  BitTcfAddresses at_;
};

}  // namespace tessera
