#include "formats/base/permutation.hpp"

#include <algorithm>
#include <numeric>

#include "formats/base/check.hpp"
#include "formats/base/parallel.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kRowGrain = 1 << 12;

}  // namespace

Permutation::Permutation(std::vector<std::int32_t> old_of_new)
    : old_of_new_(std::move(old_of_new)) {
  std::vector<bool> seen(old_of_new_.size(), false);
  for (std::size_t place = 0; place < old_of_new_.size(); ++place) {
    const std::int32_t old = old_of_new_[place];
    require(old >= 0 && static_cast<std::size_t>(old) < seen.size(),
            "place {} of a permutation of {} holds index {}", place, seen.size(), old);
    require(!seen[old], "index {} occurs twice in a permutation, the second time at place {}", old,
            place);
    seen[old] = true;
  }
}

Permutation Permutation::identity(std::int32_t size) {
  std::vector<std::int32_t> order(size);
  std::iota(order.begin(), order.end(), 0);
  return Permutation(std::move(order));
}

bool Permutation::is_identity() const {
  for (std::int32_t place = 0; place < size(); ++place) {
    if (old_of_new_[place] != place) return false;
  }
  return true;
}

Permutation Permutation::inverse() const {
  std::vector<std::int32_t> new_of_old(old_of_new_.size());
  for (std::int32_t place = 0; place < size(); ++place) new_of_old[old_of_new_[place]] = place;
  return Permutation(std::move(new_of_old));
}

CsrMatrix permute_rows(const CsrMatrix& matrix, const Permutation& rows) {
  require(rows.size() == matrix.rows, "a permutation of {} cannot order {} rows", rows.size(),
          matrix.rows);
  const auto old_of_new = rows.old_of_new();
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(matrix.rows) + 1, 0);
  for (std::int32_t p = 0; p < matrix.rows; ++p)
    offsets[p + 1] = offsets[p] + matrix.row_length(old_of_new[p]);
  std::vector<std::int32_t> cols(matrix.col_indices.size());
  std::vector<float> values(matrix.values.size());
  parallel_for(matrix.rows, kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p) {
      std::ranges::copy(matrix.row_cols(old_of_new[p]), cols.begin() + offsets[p]);
      std::ranges::copy(matrix.row_values(old_of_new[p]), values.begin() + offsets[p]);
    }
  });
  return {matrix.rows, matrix.cols, std::move(offsets), std::move(cols), std::move(values)};
}

CsrMatrix permute_cols(const CsrMatrix& matrix, const Permutation& cols) {
  require(cols.size() == matrix.cols, "a permutation of {} cannot order {} columns", cols.size(),
          matrix.cols);
  const Permutation new_of_old = cols.inverse();
  const auto place_of = new_of_old.old_of_new();
  std::vector<std::int32_t> indices(matrix.col_indices.size());
  std::vector<float> values(matrix.values.size());
  parallel_for(matrix.rows, kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::pair<std::int32_t, float>> row;
    for (std::int64_t i = begin; i < end; ++i) {
      row.clear();
      for (std::int64_t k = matrix.row_offsets[i]; k < matrix.row_offsets[i + 1]; ++k)
        row.emplace_back(place_of[matrix.col_indices[k]], matrix.values[k]);
      std::ranges::sort(row, {}, &std::pair<std::int32_t, float>::first);
      for (std::size_t k = 0; k < row.size(); ++k) {
        indices[matrix.row_offsets[i] + k] = row[k].first;
        values[matrix.row_offsets[i] + k] = row[k].second;
      }
    }
  });
  return {matrix.rows, matrix.cols, matrix.row_offsets, std::move(indices), std::move(values)};
}

DenseMatrix permute_rows(const DenseMatrix& dense, const Permutation& rows) {
  require(rows.size() == dense.rows, "a permutation of {} cannot order {} rows", rows.size(),
          dense.rows);
  DenseMatrix result(dense.rows, dense.cols);
  parallel_for(dense.rows, kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p)
      std::ranges::copy(dense.row(rows.old_of_new()[p]), result.row(p).begin());
  });
  return result;
}

}  // namespace tessera
