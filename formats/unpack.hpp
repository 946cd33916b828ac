// Unpacking row windows to CSR, for every format whose windows share no row.
#pragma once

#include <cassert>
#include <cstdint>
#include <numeric>
#include <vector>

#include "formats/base/parallel.hpp"
#include "formats/condense.hpp"
#include "formats/format.hpp"

namespace tessera {

/// Rows [first_row, first_row + rows) of a packed matrix, those of windows [begin, end).
struct WindowsToUnpack {
  std::int64_t begin, end;
  std::int64_t first_row;
  std::int32_t rows, cols;
};

/// The rows whose nonzeros for_each_nonzero enumerates: for_each_nonzero(window, visit) calls
/// visit(row, col, value) for those of one window, the columns of a row ascending, the rows in any
/// order. It runs twice per window, to count and to fill; windows run in parallel.
template <class ForEachNonzero>
CsrMatrix unpack_rows(const WindowsToUnpack& part, const ForEachNonzero& for_each_nonzero) {
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(part.rows) + 1, 0);
  const auto for_each_window = [&](auto visit) {
    parallel_for(part.end - part.begin, kWindowGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t window = begin; window < end; ++window)
        for_each_nonzero(part.begin + window, visit);
    });
  };
  for_each_window(
      [&](std::int64_t row, std::int32_t, float) { ++offsets[row - part.first_row + 1]; });
  std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());

  std::vector<std::int64_t> next(offsets.begin(), offsets.end() - 1);
  std::vector<std::int32_t> cols(static_cast<std::size_t>(offsets.back()));
  std::vector<float> values(static_cast<std::size_t>(offsets.back()));
  for_each_window([&](std::int64_t row, std::int32_t col, float value) {
    const std::int64_t place = next[row - part.first_row]++;
    cols[place] = col;
    values[place] = value;
  });
  return {part.rows, part.cols, std::move(offsets), std::move(cols), std::move(values)};
}

/// The whole matrix.
template <class ForEachNonzero>
CsrMatrix unpack_windows(const PackedMatrix& packed, std::int64_t windows,
                         const ForEachNonzero& for_each_nonzero) {
  CsrMatrix matrix = unpack_rows({0, windows, 0, packed.rows(), packed.cols()}, for_each_nonzero);
  assert(matrix.nnz() == packed.nnz());
  return matrix;
}

}  // namespace tessera
