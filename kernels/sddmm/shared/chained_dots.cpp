#include "kernels/sddmm/shared/chained_dots.hpp"

#include <algorithm>

#include "formats/base/parallel.hpp"

namespace tessera::sddmm {
namespace {

/// The column at each depth of each MMA, in the order of the chain.
struct Columns {
  std::vector<ChunkTerm> terms;    // without values, those that have a column
  std::vector<std::size_t> first;  // [mmas + 1]

  Columns(const ChainOrder& order, std::int64_t k) : first{0} {
    for (std::int64_t mma = 0; mma < order.mmas; ++mma) {
      for (int slot = 0; slot < order.depth; ++slot)
        if (const std::int64_t column = order.column_of(mma, slot); column < k)
          terms.push_back({{}, column, slot});
      first.push_back(terms.size());
    }
  }
};

/// The rows of Y of some nonzeros, as the columns of a matrix.
DenseMatrix gathered(const DenseMatrix& y, std::span<const std::int32_t> cols) {
  DenseMatrix columns(y.cols, std::ssize(cols));
  for (std::size_t j = 0; j < cols.size(); ++j) {
    const std::span<const float> row = y.row(cols[j]);
    for (std::int64_t k = 0; k < y.cols; ++k)
      columns.at(k, static_cast<std::int64_t>(j)) = row[static_cast<std::size_t>(k)];
  }
  return columns;
}

}  // namespace

std::vector<float> chained_dots(const CsrMatrix& a, const DenseMatrix& x, const DenseMatrix& y,
                                const SddmmOptions& options, const Precision& precision,
                                const Generation& generation, const ChainOrder& order) {
  constexpr std::size_t kAtOnce = 256;  // nonzeros of a row
  const StoredOperands stored(x, y, options.storage.b);
  const FusedStep& step = generation.step(type_of(precision.conversion));
  const Columns columns(order, x.cols);
  std::vector<float> s(static_cast<std::size_t>(a.nnz()), 0.0f);
  parallel_for(a.rows, 16, [&](std::int64_t begin, std::int64_t end) {
    std::vector<ChunkTerm> terms = columns.terms;
    for (std::int64_t row = begin; row < end; ++row) {
      if (a.row_length(row) == 0) continue;
      for (ChunkTerm& term : terms) term.value = split(stored.x.at(row, term.b_row), precision);
      const std::span<const std::int32_t> cols = a.row_cols(row);
      const std::span<float> of_row(s.data() + a.row_offsets[row], cols.size());
      for (std::size_t at = 0; at < cols.size(); at += kAtOnce) {
        const std::size_t count = std::min(kAtOnce, cols.size() - at);
        const PreparedB prepared(gathered(stored.y, cols.subspan(at, count)), precision);
        RowChain chain(precision, step, prepared, of_row.subspan(at, count));
        for (std::size_t mma = 0; mma + 1 < columns.first.size(); ++mma)
          chain.add(std::span<const ChunkTerm>(terms).subspan(
              columns.first[mma], columns.first[mma + 1] - columns.first[mma]));
        chain.finish();
      }
      for (std::size_t j = 0; j < cols.size(); ++j)
        of_row[j] = finished(options, of_row[j], a.row_values(row)[j]);
    }
  });
  return s;
}

}  // namespace tessera::sddmm
