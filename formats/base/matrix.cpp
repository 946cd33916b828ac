#include "formats/base/matrix.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "formats/base/check.hpp"
#include "formats/base/extents.hpp"
#include "formats/base/hash.hpp"
#include "formats/base/or_out_of_memory.hpp"
#include "formats/base/parallel.hpp"
#include "formats/base/random.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kRowGrain = 1 << 14;
constexpr std::int64_t kValueGrain = 1 << 20;

std::vector<float> filled(std::int64_t rows, std::int64_t cols, float fill) {
  const std::int64_t count = element_count(rows, cols);
  return or_out_of_memory([&] { return std::vector<float>(static_cast<std::size_t>(count), fill); },
                          [&] {
                            return fmt::format(
                                "this machine has too little memory for a dense matrix of {} x {}",
                                rows, cols);
                          });
}

}  // namespace

DenseMatrix::DenseMatrix(std::int64_t rows, std::int64_t cols, float fill)
    : rows(rows), cols(cols), values(filled(rows, cols, fill)) {}

void validate(const CsrMatrix& matrix) {
  require(matrix.rows >= 0 && matrix.cols >= 0, "a matrix cannot be {} x {}", matrix.rows,
          matrix.cols);
  require(matrix.row_offsets.size() == static_cast<std::size_t>(matrix.rows) + 1,
          "{} rows need {} row offsets, not {}", matrix.rows, matrix.rows + 1LL,
          matrix.row_offsets.size());
  require(matrix.row_offsets[0] == 0, "row offsets start at {}, not 0", matrix.row_offsets[0]);
  const std::int64_t nnz = matrix.nnz();
  require(static_cast<std::int64_t>(matrix.col_indices.size()) == nnz &&
              static_cast<std::int64_t>(matrix.values.size()) == nnz,
          "the last row offset is {}, but there are {} column indices and {} values", nnz,
          matrix.col_indices.size(), matrix.values.size());
  parallel_for(matrix.rows, kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t first = matrix.row_offsets[row];
      const std::int64_t last = matrix.row_offsets[row + 1];
      require(first <= last && first >= 0 && last <= nnz,
              "row {} runs from offset {} to {} of {} nonzeros", row, first, last, nnz);
      for (std::int64_t k = first; k < last; ++k) {
        const std::int32_t col = matrix.col_indices[k];
        require(col >= 0 && col < matrix.cols, "row {} holds column {}, outside [0, {})", row, col,
                matrix.cols);
        require(k == first || matrix.col_indices[k - 1] < col,
                "row {}: column {} follows column {}; they must ascend", row, col,
                k == first ? -1 : matrix.col_indices[k - 1]);
      }
    }
  });
}

bool operator==(const CsrMatrix& a, const CsrMatrix& b) {
  return a.rows == b.rows && a.cols == b.cols && std::ranges::equal(a.row_offsets, b.row_offsets) &&
         std::ranges::equal(a.col_indices, b.col_indices) && a.values.size() == b.values.size() &&
         (a.values.empty() ||
          std::memcmp(a.values.data(), b.values.data(), a.values.size() * sizeof(float)) == 0);
}

std::string content_hash(const CsrMatrix& matrix) {
  Hasher hasher;
  hasher.add("tessera csr 1");
  hasher.add_value(matrix.rows);
  hasher.add_value(matrix.cols);
  hasher.add_bytes(std::as_bytes(std::span(matrix.row_offsets.data(), matrix.row_offsets.size())));
  hasher.add_bytes(std::as_bytes(std::span(matrix.col_indices.data(), matrix.col_indices.size())));
  hasher.add_bytes(std::as_bytes(std::span(matrix.values.data(), matrix.values.size())));
  return hasher.hex128();
}

bool is_pattern(const CsrMatrix& matrix) {
  return std::ranges::all_of(matrix.values, [](float v) { return v == 1.0f; });
}

CsrMatrix transpose(const CsrMatrix& matrix) {
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(matrix.cols) + 1, 0);
  for (const std::int32_t col : matrix.col_indices) ++offsets[col + 1];
  std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
  std::vector<std::int64_t> next(offsets.begin(), offsets.end() - 1);
  std::vector<std::int32_t> rows(matrix.col_indices.size());
  std::vector<float> values(matrix.col_indices.size());
  for (std::int32_t row = 0; row < matrix.rows; ++row) {
    for (std::int64_t k = matrix.row_offsets[row]; k < matrix.row_offsets[row + 1]; ++k) {
      const std::int64_t place = next[matrix.col_indices[k]]++;
      rows[place] = row;
      values[place] = matrix.values[k];
    }
  }
  return {matrix.cols, matrix.rows, std::move(offsets), std::move(rows), std::move(values)};
}

DenseMatrix random_dense(std::int64_t rows, std::int64_t cols, std::uint64_t seed) {
  DenseMatrix dense(rows, cols);
  parallel_for(rows * cols, kValueGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) dense.values[i] = random_signed(seed, i);
  });
  return dense;
}

}  // namespace tessera
