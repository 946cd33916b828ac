#include "reorder/row_pattern.hpp"

#include <atomic>
#include <limits>
#include <numeric>

#include "formats/base/parallel.hpp"
#include "formats/base/shared_grain.hpp"

namespace tessera {

RowPattern ColumnNumbers::number(const CsrMatrix& matrix, std::span<const std::int32_t> rows) {
  numbers_.resize(matrix.cols, 0);
  numbered_.clear();
  RowPattern pattern;
  pattern.rows = static_cast<std::int32_t>(rows.size());
  pattern.row_offsets.reserve(rows.size() + 1);
  for (const std::int32_t row : rows)
    pattern.row_offsets.push_back(pattern.row_offsets.back() + matrix.row_length(row));
  pattern.col_indices.reserve(pattern.row_offsets.back());
  for (const std::int32_t row : rows)
    for (const std::int32_t col : matrix.row_cols(row))
      pattern.col_indices.push_back(number_of(col));
  pattern.cols = static_cast<std::int32_t>(numbered_.size());
  return pattern;
}

RowPattern number_columns(const CsrMatrix& matrix, std::span<const std::int32_t> rows) {
  // One thread reads the nonzeros once, several read them three times.
  if (num_threads() == 1) return ColumnNumbers().number(matrix, rows);
  constexpr std::int32_t kNever = std::numeric_limits<std::int32_t>::max();
  const auto count = std::ssize(rows);
  const std::int64_t grain = shared_grain(count, 64, 512);
  const auto for_each_rank = [&](auto body) {
    parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) {
      for (auto rank = static_cast<std::int32_t>(begin); rank < end; ++rank) body(rank);
    });
  };
  RowPattern pattern;
  pattern.rows = static_cast<std::int32_t>(count);
  pattern.row_offsets.resize(rows.size() + 1);
  // The first row that holds each column.
  std::vector<std::int32_t> first(matrix.cols, kNever);
  for_each_rank([&](std::int32_t rank) {
    pattern.row_offsets[rank + 1] = matrix.row_length(rows[rank]);
    for (const std::int32_t col : matrix.row_cols(rows[rank])) {
      const std::atomic_ref least(first[col]);
      std::int32_t before = least.load(std::memory_order_relaxed);
      while (rank < before &&
             !least.compare_exchange_weak(before, rank, std::memory_order_relaxed)) {
      }
    }
  });
  std::partial_sum(pattern.row_offsets.begin(), pattern.row_offsets.end(),
                   pattern.row_offsets.begin());
  std::vector<std::int32_t> next(rows.size() + 1, 0);  // the first number that a row can give
  for_each_rank([&](std::int32_t rank) {
    for (const std::int32_t col : matrix.row_cols(rows[rank])) next[rank + 1] += first[col] == rank;
  });
  std::partial_sum(next.begin(), next.end(), next.begin());
  pattern.cols = next.back();
  std::vector<std::int32_t> numbers(matrix.cols);
  for_each_rank([&](std::int32_t rank) {
    std::int32_t number = next[rank];
    for (const std::int32_t col : matrix.row_cols(rows[rank]))
      if (first[col] == rank) numbers[col] = number++;
  });
  pattern.col_indices.resize(pattern.row_offsets.back());
  for_each_rank([&](std::int32_t rank) {
    auto to = pattern.col_indices.begin() + pattern.row_offsets[rank];
    for (const std::int32_t col : matrix.row_cols(rows[rank])) *to++ = numbers[col];
  });
  return pattern;
}

}  // namespace tessera
