// Building a packed matrix from parts of its row windows: while one part is built, the scratch
// memory is that of this part, and not some ten bytes for every nonzero of the matrix. The memory
// of a matrix that is in a file, as in the cache, is given back part by part: it and the packed
// matrix are never there whole at once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <tuple>
#include <vector>

#include "formats/base/matrix.hpp"
#include "formats/base/pages.hpp"

namespace tessera {

/// About so many nonzeros has a part: all of them up to 2^24, and else a sixty-fourth, so that the
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

/// Builds the rows of a matrix in windows of `height` by build(rows), which returns a
/// std::unique_ptr<Packed>, and joins what it returns. Packed::kOffsets and Packed::kArrays name
/// its members: the arrays of offsets into others, which begin with 0, and those others. Parts have
/// about `part_nonzeros` nonzeros; 0: by the matrix.
template <class Packed, class Build>
std::unique_ptr<Packed> build_in_parts(const CsrMatrix& matrix, int height, Build build,
                                       std::int64_t part_nonzeros = 0) {
  if (part_nonzeros == 0) part_nonzeros = nonzeros_of_part(matrix.nnz());
  if (matrix.nnz() <= part_nonzeros) return build(matrix);
  auto all = std::make_unique<Packed>(matrix.rows, matrix.cols, matrix.nnz());
  const auto for_each = [](const auto& members, auto visit) {
    std::apply([&](auto... member) { (visit(member), ...); }, members);
  };
  for_each(Packed::kOffsets, [&](auto member) { ((*all).*member).assign(1, 0); });
  for (std::int32_t begin = 0, end = 0; begin < matrix.rows; begin = end) {
    do {
      end = static_cast<std::int32_t>(
          std::min<std::int64_t>(std::int64_t{end} + height, matrix.rows));
    } while (end < matrix.rows &&
             matrix.row_offsets[end] - matrix.row_offsets[begin] < part_nonzeros);
    const std::unique_ptr<Packed> part = build(rows_between(matrix, begin, end));
    give_back_rows(matrix, begin, end);
    // An array that grew while it is full would be there twice. The memory behind its end is not
    // touched, and so not taken.
    const auto reserve = [&](auto& to, const auto& from) {
      if (begin > 0) return;
      const auto nonzeros = static_cast<double>(matrix.row_offsets[end]);
      const double parts = 1.1 * static_cast<double>(matrix.nnz()) / nonzeros;
      to.reserve(static_cast<std::size_t>(parts * static_cast<double>(from.size())) + 1);
    };
    for_each(Packed::kOffsets, [&](auto member) {
      auto& to = (*all).*member;
      const auto& from = (*part).*member;
      reserve(to, from);
      const auto base = to.back();
      for (std::size_t i = 1; i < from.size(); ++i) to.push_back(base + from[i]);
    });
    for_each(Packed::kArrays, [&](auto member) {
      auto& to = (*all).*member;
      const auto& from = (*part).*member;
      reserve(to, from);
      to.insert(to.end(), from.begin(), from.end());
    });
  }
  return all;
}

}  // namespace tessera
