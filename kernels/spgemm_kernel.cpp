#include "kernels/spgemm_kernel.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>
#include <utility>

#include "formats/base/check.hpp"
#include "formats/base/parallel.hpp"
#include "formats/base/scratch_pool.hpp"

namespace tessera {
namespace {

/// The row of C that is being computed: a sum for each column, and the columns that have one.
template <class Value>
class RowSums {
 public:
  template <class Matrix>
  void add(const Matrix& a, const Matrix& b, std::int64_t row) {
    sums_.resize(b.cols, Value{0});
    touched_.resize(b.cols, 0);
    for (std::int64_t k = a.row_offsets[row]; k < a.row_offsets[row + 1]; ++k) {
      const std::int32_t of_b = a.col_indices[k];
      for (std::int64_t j = b.row_offsets[of_b]; j < b.row_offsets[of_b + 1]; ++j) {
        const std::int32_t col = b.col_indices[j];
        if (touched_[col] == 0) cols_.push_back(col);
        touched_[col] = 1;
        sums_[col] = std::fma(a.values[k], b.values[j], sums_[col]);
      }
    }
  }

  /// Appends the row with ascending columns, then starts a new one.
  void move_to(std::vector<std::int32_t>& cols, std::vector<Value>& values) {
    std::ranges::sort(cols_);
    for (const std::int32_t col : cols_) {
      cols.push_back(col);
      values.push_back(std::isnan(sums_[col]) ? kNan : sums_[col]);
      sums_[col] = 0;
      touched_[col] = 0;
    }
    cols_.clear();
  }

 private:
  /// GPU arithmetic yields a single NaN pattern of each type.
  static constexpr Value kNan = [] {
    if constexpr (std::is_same_v<Value, float>)
      return std::bit_cast<float>(0x7fffffff);
    else
      return std::bit_cast<double>(0x7fffffffffffffff);
  }();

  std::vector<Value> sums_;            // [cols]
  std::vector<std::uint8_t> touched_;  // [cols]
  std::vector<std::int32_t> cols_;
};

/// A B, with sums in the type of the matrices' values.
template <class Value, class Matrix>
Matrix multiplied_rows(const Matrix& a, const Matrix& b) {
  require(a.cols == b.rows, "A has {} columns and B {} rows", a.cols, b.rows);
  constexpr std::int64_t kRowsOfPiece = 512;
  struct Piece {
    std::vector<std::int64_t> lengths;
    std::vector<std::int32_t> cols;
    std::vector<Value> values;
  };
  std::vector<Piece> pieces((a.rows + kRowsOfPiece - 1) / kRowsOfPiece);
  ScratchPool<RowSums<Value>> pool;
  parallel_for(a.rows, kRowsOfPiece, [&](std::int64_t begin, std::int64_t end) {
    Piece& piece = pieces[begin / kRowsOfPiece];
    pool.use([&](RowSums<Value>& sums) {
      for (std::int64_t row = begin; row < end; ++row) {
        sums.add(a, b, row);
        const auto before = std::ssize(piece.cols);
        sums.move_to(piece.cols, piece.values);
        piece.lengths.push_back(std::ssize(piece.cols) - before);
      }
    });
  });
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> cols;
  std::vector<Value> values;
  for (Piece& piece : pieces) {
    for (const std::int64_t length : piece.lengths) offsets.push_back(offsets.back() + length);
    cols.insert(cols.end(), piece.cols.begin(), piece.cols.end());
    values.insert(values.end(), piece.values.begin(), piece.values.end());
    piece = {};
  }
  return {a.rows, b.cols, std::move(offsets), std::move(cols), std::move(values)};
}

}  // namespace

std::vector<std::int64_t> SpgemmKernel::terms_per_row(const CsrMatrix& a, const CsrMatrix&) const {
  std::vector<std::int64_t> terms(a.rows);
  for (std::int32_t row = 0; row < a.rows; ++row)
    terms[row] = a.row_offsets[row + 1] - a.row_offsets[row];
  return terms;
}

CsrMatrix SpgemmKernel::emulate(const CsrMatrix&, const CsrMatrix&, const Generation&) const {
  throw Unsupported("the order of this kernel's sums is not known: it has no emulation");
}

CsrMatrix SpgemmKernel::emulate_masked(const CsrMatrix& a, const CsrMatrix& b,
                                       const CsrMatrix& mask, const Generation& generation) const {
  return mask_product(emulate(a, b, generation), mask);
}

WorkDescription SpgemmKernel::work(const CsrMatrix&, const CsrMatrix&) const {
  throw Unsupported("this kernel does not describe its work");
}

WorkCounts SpgemmKernel::count_work(const spgemm::ProductSketch&) const {
  throw Unsupported("this kernel publishes no counts for a cost model");
}

CsrMatrix multiply_rows(const CsrMatrix& a, const CsrMatrix& b) {
  return multiplied_rows<float>(a, b);
}

WideCsrMatrix multiply_rows(const WideCsrMatrix& a, const WideCsrMatrix& b) {
  return multiplied_rows<double>(a, b);
}

CsrMatrix mask_product(const CsrMatrix& c, const CsrMatrix& mask) {
  require(c.rows == mask.rows && c.cols == mask.cols, "C is {} x {}, and its mask {} x {}", c.rows,
          c.cols, mask.rows, mask.cols);
  std::vector<float> values(mask.nnz(), 0.0f);
  parallel_for(mask.rows, 512, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      std::int64_t at = c.row_offsets[row];
      for (std::int64_t k = mask.row_offsets[row]; k < mask.row_offsets[row + 1]; ++k) {
        const std::int32_t col = mask.col_indices[k];
        while (at < c.row_offsets[row + 1] && c.col_indices[at] < col) ++at;
        if (at < c.row_offsets[row + 1] && c.col_indices[at] == col) values[k] = c.values[at];
      }
    }
  });
  return {mask.rows, mask.cols, mask.row_offsets, mask.col_indices, std::move(values)};
}

}  // namespace tessera
