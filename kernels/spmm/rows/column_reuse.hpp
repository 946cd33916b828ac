// How often a row of B is fetched from DRAM, by the columns of it that are gathered at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/base/matrix.hpp"

namespace tessera::rows_spmm {

/// The reuse times of A's columns: how many nonzeros, in the order of the rows, lie between a
/// nonzero and the one before it in the same column.
///
/// Windows of t nonzeros have on average as many distinct columns as the shares of nonzeros whose
/// reuse time is longer than 0, 1, ..., t - 1 add up to, and a cache that holds so many rows of B
/// misses the nonzeros whose reuse time is longer than t (Xiang, Ding, Luo and Bao, "HOTL: a higher
/// order theory of locality", ASPLOS 2013).
class ColumnReuse {
 public:
  explicit ColumnReuse(const CsrMatrix& a);

  /// The share of nonzeros whose row of B a cache of `cache_bytes` misses, in [0, 1], where rows of
  /// B and C take `b_bytes` and `c_bytes` each and rows of C are written to the same cache.
  double misses(double cache_bytes, double b_bytes, double c_bytes) const;

 private:
  /// Buckets of the histogram for each doubling of the time.
  static constexpr int kPerDoubling = 4;

  std::int64_t nnz_;
  double rows_per_nonzero_;
  std::vector<std::int64_t> times_;  // [buckets] the nonzeros whose reuse time is in the bucket
};

/// The columns of C that a product of n columns multiplies at a time for all rows: n, at most 512,
/// or fewer where that saves more of DRAM's time than it costs. `b_bytes` and `c_bytes` are those
/// of an element.
std::int64_t gathered_columns(const CsrMatrix& a, std::int64_t n, std::int64_t b_bytes,
                              std::int64_t c_bytes);

}  // namespace tessera::rows_spmm
