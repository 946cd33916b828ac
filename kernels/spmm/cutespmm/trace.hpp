// The launches of cutespmm: the MMAs of a block, the work of every thread block, and the traces of
// its warps.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "kernels/spmm/cutespmm/cutespmm.hpp"
#include "kernels/work.hpp"

namespace tessera::cutespmm {

/// The bricks that an MMA multiplies: those of one brick row in one brick column, or in two.
struct BlockMma {
  int first_col = 0;  // condensed column of the block
  int brick_row = 0;
  std::array<std::uint64_t, 2> pattern = {};  // of each brick column; 0 where there is no brick
  std::array<std::int64_t, 2> first = {};     // the block's values before the brick's
};

/// Calls visit(mma) for every MMA and 8 columns of C that a block takes, in their order.
template <class Visit>
void for_each_mma(const Hrpb& a, std::int64_t block, int depth, Visit visit) {
  const int brick_cols = a.tile_cols / Hrpb::kBrickCols, halves = depth / Hrpb::kBrickCols;
  const int brick_rows = a.tile_rows / Hrpb::kBrickRows;
  const Hrpb::Block from = a.block(block);
  std::int64_t value = 0;
  for (int col = 0; col < brick_cols; col += halves) {
    std::array<BlockMma, 2> mmas;  // of each brick row
    for (int half = 0; half < halves && col + half < brick_cols; ++half) {
      for (std::int64_t i = from.col_ptr(col + half); i < from.col_ptr(col + half + 1); ++i) {
        BlockMma& mma = mmas[static_cast<std::size_t>(from.row(i))];
        mma.pattern[static_cast<std::size_t>(half)] = from.pattern(i);
        mma.first[static_cast<std::size_t>(half)] = value;
        value += std::popcount(from.pattern(i));
      }
    }
    for (int r = 0; r < brick_rows; ++r) {
      BlockMma& mma = mmas[static_cast<std::size_t>(r)];
      mma.first_col = col * Hrpb::kBrickCols, mma.brick_row = r;
      if ((mma.pattern[0] | mma.pattern[1]) != 0) visit(mma);
    }
  }
}

/// The number of condensed columns of a block.
int count_cols(const Hrpb& a, std::int64_t block);

/// Adds thread blocks, launches and arrays to `work`. The traces refer to `a`.
void describe_cute_launches(const Hrpb& a, std::int64_t n, const CuteSpmmOptions& options,
                            WorkDescription& work);

}  // namespace tessera::cutespmm
