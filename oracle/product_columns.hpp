// The columns of C = A B, one after the other, for the parts of C that threads compute.
//
// A column is computed in two steps, which is faster than adding one product at a time to an
// accumulator per row: the products are written in the order of A's columns, whole runs at once,
// and then divided into those that are the first of their row and the others. The sums of a
// column's elements are contiguous.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/base/matrix.hpp"

namespace tessera {

/// The rows and columns of C that are computed together.
struct Part {
  std::int64_t row_begin, row_end;
  std::int64_t col_begin, col_end;
};

/// Cuts C into parts, by rows and then by columns. The cut depends only on the patterns of A and B.
std::vector<Part> cut_up(const CsrMatrix& a, const CsrMatrix& b);

/// One column of a part of C; its rows are in the order of their first products.
struct Column {
  std::size_t size = 0;
  std::vector<std::int32_t> rows;      // [size] counted from the part's first
  std::vector<double> sum, magnitude;  // [size] in fp64, compensated (spmm_oracle.cpp)
  std::vector<float> fp32;             // [size] chains of fused multiply-adds from zero
};

/// Computes the columns of a part. It keeps its memory from one part to the next: 16 bytes for each
/// element of B that meets the part's rows of A, 8 for each nonzero of these rows, 8 for each
/// column of A.
class ColumnMaker {
 public:
  enum class Wanted { kPattern, kTruth, kFp32, kTruthAndFp32 };

  void load(const CsrMatrix& a, const CsrMatrix& b, const Part& part, Wanted wanted);

  /// The columns of the part outside [begin(), end()) are empty.
  std::int64_t begin() const { return part_.col_begin; }
  std::int64_t end() const { return part_.col_end; }

  /// Column j of the loaded part, begin() <= j < end(); valid until the next call.
  const Column& make(std::int64_t j);

  /// The index of a row, counted from the part's first, in that column; -1 when it has none.
  std::int32_t place(std::int32_t row) const { return place_[row] - 1; }

  /// An element of B and the column of A that it is multiplied by.
  struct Factor {
    std::int64_t begin;  // in a_rows_
    std::int32_t count;
    float value;
  };

 private:
  void narrow(const CsrMatrix& a, const CsrMatrix& b);
  void load_columns_of_a(const CsrMatrix& a);
  void load_columns_of_b(const CsrMatrix& b);
  template <class Visit>
  void for_each_factor(const CsrMatrix& b, Visit visit) const;
  std::size_t lay_out_products(std::int64_t column);

  Wanted wanted_ = Wanted::kPattern;
  Part part_{};
  std::int64_t k_begin_ = 0, k_end_ = 0;  // the range of columns of A with nonzeros in the part
  std::vector<std::int64_t> a_offsets_;   // [cols of A + 2]
  std::vector<std::int32_t> a_rows_;      // [nonzeros of A's rows, and some more] by columns
  std::vector<float> a_values_;           // as a_rows_
  std::vector<std::int64_t> b_offsets_;   // [columns + 2]
  std::vector<Factor> b_factors_;         // by columns, each in the order of A's columns

  // The products of a column, with room for some more.
  std::vector<std::int32_t> rows_;
  std::vector<float> left_, right_;
  std::vector<double> terms_;           // left * right: exact
  std::vector<std::int32_t> repeated_;  // the products that are not the first of their row

  std::vector<std::int32_t> place_;  // [rows] index in column_, counted from 1; 0 for none
  std::vector<double> lost_;         // sum + lost is the running total
  Column column_;
};

}  // namespace tessera
