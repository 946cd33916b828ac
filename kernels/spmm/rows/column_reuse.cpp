#include "kernels/spmm/rows/column_reuse.hpp"

#include <algorithm>
#include <cmath>

namespace tessera::rows_spmm {
namespace {

/// Bytes of the L2 of an H200 that hold rows of B and C: of its 50 MiB, lines that the far
/// partition asks for take their place twice.
constexpr double kCacheBytes = 30e6;
/// Bytes per nanosecond from the L2, of which the L1 spares some, and from DRAM.
constexpr double kL2Bytes = 10500, kDramBytes = 4100;
/// The fewest columns at a time, the most that a warp has, and how much longer a product takes with
/// half of them: each chunk loads A anew.
constexpr std::int64_t kLeastColumns = 128, kMostColumns = 512;
constexpr double kCostOfHalf = 1.05;
/// How much has to be saved, since the times are not exact.
constexpr double kLeastGain = 1.05;

}  // namespace

ColumnReuse::ColumnReuse(const CsrMatrix& a)
    : nnz_(a.nnz()), rows_per_nonzero_(a.rows / std::max(1.0, static_cast<double>(a.nnz()))) {
  std::vector<std::int64_t> last(static_cast<std::size_t>(a.cols), -1);
  for (std::int64_t i = 0; i < nnz_; ++i) {
    std::int64_t& before = last[a.col_indices[i]];
    if (before >= 0) {
      const auto bucket =
          static_cast<std::size_t>(kPerDoubling * std::log2(static_cast<double>(i - before)));
      if (bucket >= times_.size()) times_.resize(bucket + 1, 0);
      ++times_[bucket];
    }
    before = i;
  }
}

double ColumnReuse::misses(double cache_bytes, double b_bytes, double c_bytes) const {
  if (nnz_ == 0) return 0;
  const double nnz = static_cast<double>(nnz_);
  double longer = 1;  // the share of nonzeros whose reuse time is longer than `time`
  double time = 0, columns = 0;
  for (std::size_t bucket = 0; bucket < times_.size(); ++bucket) {
    const double end = std::exp2(static_cast<double>(bucket + 1) / kPerDoubling);
    columns += longer * (end - time);
    time = end;
    if (columns * b_bytes + time * rows_per_nonzero_ * c_bytes > cache_bytes) break;
    longer -= static_cast<double>(times_[bucket]) / nnz;
  }
  return std::max(longer, 0.0);
}

std::int64_t gathered_columns(const CsrMatrix& a, std::int64_t n, std::int64_t b_bytes,
                              std::int64_t c_bytes) {
  const double b = static_cast<double>(b_bytes), c = static_cast<double>(c_bytes);
  const double nnz = static_cast<double>(a.nnz());
  n = std::min(n, kMostColumns);
  if (n <= kLeastColumns || (a.cols * b + a.rows * c) * static_cast<double>(n) <= kCacheBytes)
    return n;
  const ColumnReuse reuse(a);
  // Nanoseconds for a column of C.
  const auto time_of = [&](std::int64_t columns) {
    const double width = static_cast<double>(columns);
    const double missed = reuse.misses(kCacheBytes, width * b, width * c);
    return std::max(nnz * b / kL2Bytes, (missed * nnz * b + a.rows * c) / kDramBytes);
  };
  std::int64_t best = n;
  double least = time_of(n) / kLeastGain, cost = 1;
  for (std::int64_t columns = kMostColumns / 2; columns >= kLeastColumns; columns /= 2) {
    if (columns >= n) continue;
    cost *= kCostOfHalf;
    const double time = cost * time_of(columns);
    if (time < least) best = columns, least = time;
  }
  return best;
}

}  // namespace tessera::rows_spmm
