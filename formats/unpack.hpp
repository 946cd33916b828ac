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

/// The matrix whose nonzeros for_each_nonzero enumerates: for_each_nonzero(window, visit) calls
/// visit(row, col, value) for those of one window, the columns of a row ascending, the rows in any
/// order. It runs twice per window, to count and to fill; windows run in parallel.
template <class ForEachNonzero>
CsrMatrix unpack_windows(const PackedMatrix& packed, std::int64_t windows,
                         ForEachNonzero for_each_nonzero) {
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(packed.rows()) + 1, 0);
  const auto for_each_window = [&](auto visit) {
    parallel_for(windows, kWindowGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t window = begin; window < end; ++window) for_each_nonzero(window, visit);
    });
  };
  for_each_window([&](std::int64_t row, std::int32_t, float) { ++offsets[row + 1]; });
  std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
  assert(offsets.back() == packed.nnz());

  std::vector<std::int64_t> next(offsets.begin(), offsets.end() - 1);
  std::vector<std::int32_t> cols(static_cast<std::size_t>(packed.nnz()));
  std::vector<float> values(static_cast<std::size_t>(packed.nnz()));
  for_each_window([&](std::int64_t row, std::int32_t col, float value) {
    cols[next[row]] = col;
    values[next[row]++] = value;
  });
  return {packed.rows(), packed.cols(), std::move(offsets), std::move(cols), std::move(values)};
}

}  // namespace tessera
