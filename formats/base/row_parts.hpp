// Parts of a large matrix: consecutive rows, taken one part after another.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "formats/base/matrix.hpp"
#include "formats/base/pages.hpp"

namespace tessera {

/// The nonzeros of a part, about: all of them up to 2^24, and else a sixty-fourth, so that the
/// scratch memory is a small share of the matrix; at least 2^21, enough for every thread of a host,
/// and at most 2^24, whose scratch memory is a third of a gigabyte.
constexpr std::int64_t nonzeros_of_part(std::int64_t nonzeros) {
  constexpr std::int64_t kWhole = std::int64_t{1} << 24, kLeast = std::int64_t{1} << 21;
  return nonzeros <= kWhole ? nonzeros : std::clamp(nonzeros / 64, kLeast, kWhole);
}

/// Rows [begin, end) of a matrix, which shares their columns and values.
inline CsrMatrix rows_between(const CsrMatrix& matrix, std::int32_t begin, std::int32_t end) {
  const std::int64_t first = matrix.row_offsets[begin];
  const auto nonzeros = static_cast<std::size_t>(matrix.row_offsets[end] - first);
  std::vector<std::int64_t> offsets(matrix.row_offsets.begin() + begin,
                                    matrix.row_offsets.begin() + end + 1);
  for (std::int64_t& offset : offsets) offset -= first;
  const auto owner = std::make_shared<const CsrMatrix>(matrix);
  return {end - begin, matrix.cols, std::move(offsets),
          Array<std::int32_t>(std::span(matrix.col_indices.data() + first, nonzeros), owner),
          Array<float>(std::span(matrix.values.data() + first, nonzeros), owner)};
}

/// Says that the nonzeros of rows [begin, end) are not read soon.
inline void give_back_rows(const CsrMatrix& matrix, std::int32_t begin, std::int32_t end) {
  const std::int64_t first = matrix.row_offsets[begin];
  const auto nonzeros = static_cast<std::size_t>(matrix.row_offsets[end] - first);
  give_back_pages(std::as_bytes(std::span(matrix.col_indices.data() + first, nonzeros)));
  give_back_pages(std::as_bytes(std::span(matrix.values.data() + first, nonzeros)));
}

}  // namespace tessera
