#include "formats/entry_rows.hpp"

#include <algorithm>

#include "formats/base/parallel.hpp"

namespace tessera {

std::vector<std::int32_t> entry_rows(const CsrMatrix& matrix) {
  constexpr std::int64_t kRowGrain = 1 << 14;
  std::vector<std::int32_t> rows(static_cast<std::size_t>(matrix.nnz()));
  parallel_for(matrix.rows, kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      std::fill(rows.begin() + matrix.row_offsets[row], rows.begin() + matrix.row_offsets[row + 1],
                static_cast<std::int32_t>(row));
  });
  return rows;
}

}  // namespace tessera
