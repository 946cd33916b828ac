// Building a packed matrix from parts of its row windows: while one part is built, the scratch
// memory is that of this part, and not some ten bytes for every nonzero of the matrix. The memory
// of a matrix that is in a file, as in the cache, is given back part by part: it and the packed
// matrix are never there whole at once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <tuple>
#include <vector>

#include "formats/base/row_parts.hpp"

namespace tessera {

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
