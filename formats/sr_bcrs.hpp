// SR-BCRS (Magicube, Li et al., SC 2022): vectors of V rows by one column that hold a nonzero,
// stored whole; a row window's vectors are padded to a multiple of the stride, the MMA's depth, and
// each stride of them is stored row-major so that fragments load without a transpose.
//
// Padding is the paper's: kNoColumn for a column, +0 for its values. The rows of the last window
// beyond A are +0. Departure: explicit zeros of A, which a vector cannot tell from its other zeros,
// are listed (explicit_zeros.hpp). The footprint is 4 (2 windows + (1 + V) vectors) bytes, with the
// padded vectors.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/format.hpp"

namespace tessera {

struct SrBcrs final : PackedMatrix {
  static constexpr const char* kFormat = "sr_bcrs";

  using PackedMatrix::PackedMatrix;

  int vector_rows = 0;                       // V: height of a vector and of a row window
  int stride = 0;                            // vectors stored together
  std::vector<std::uint32_t> row_begin;      // [num_row_windows] first vector of a window
  std::vector<std::uint32_t> row_end;        // [num_row_windows] one past the last without padding;
                                             // with it, the window ends at a multiple of the stride
  std::vector<std::int32_t> col_indices;     // [num_vectors] column of A, or kNoColumn
  std::vector<float> values;                 // [num_vectors / stride * V * stride] row `row` of
                                             // vector v at cell(v / stride, row, v % stride)
  std::vector<std::int64_t> explicit_zeros;  // [explicit zeros of A] ascending places in values

  std::int64_t num_row_windows() const { return std::ssize(row_begin); }
  std::int64_t num_vectors() const { return std::ssize(col_indices); }  // padding included
  /// The number of TC blocks of the window, each of V rows and `stride` vectors. The first has
  /// number row_begin / stride.
  std::int64_t tc_blocks(std::int64_t window) const {
    return (std::int64_t{row_end[window]} - row_begin[window] + stride - 1) / stride;
  }
  std::int64_t cell(std::int64_t tc_block, int row, int col) const {
    return (tc_block * vector_rows + row) * stride + col;
  }

  CsrMatrix unpack() const override;
  std::vector<ArrayInfo> arrays() const override;
  TileInfo tiles() const override;
  std::string locate(std::int32_t row) const override;
};

}  // namespace tessera
