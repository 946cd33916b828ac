// The columns of C = A B, one after the other, for the parts of C that threads take.
//
// A column is made in two steps that suit a processor better than adding one product at a time to
// an accumulator per row: the products are laid out in the order of A's columns, whole runs at
// once, and then told apart into those that are the first of their row and the others. The sums
// stand behind each other, as many as the column has elements.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/base/matrix.hpp"

namespace tessera {

/// Rows and columns of C that are made together.
struct Part {
  std::int64_t row_begin, row_end;
  std::int64_t col_begin, col_end;
};

/// Cuts C up, by nothing but the patterns of A and B; by rows, then by columns.
std::vector<Part> cut_up(const CsrMatrix& a, const CsrMatrix& b);

/// The part of one column of C, its rows in the order in which products met them.
struct Column {
  std::size_t size = 0;
  std::vector<std::int32_t> rows;      // [size] counted from the part's first
  std::vector<double> sum, magnitude;  // [size] in fp64, compensated (spmm_oracle.cpp)
  std::vector<float> fp32;             // [size] chains of fused multiply-adds from zero
};

/// Makes the columns of a part. It keeps its memory from one part to the next: 16 bytes for each
/// element of B that meets the part's rows of A, 8 for each of theirs, 8 for each column of A.
class ColumnMaker {
 public:
  enum class Wanted { kPattern, kTruth, kFp32, kTruthAndFp32 };

  void load(const CsrMatrix& a, const CsrMatrix& b, const Part& part, Wanted wanted);

  /// The columns of the part outside [begin(), end()) are empty.
  std::int64_t begin() const { return part_.col_begin; }
  std::int64_t end() const { return part_.col_end; }

  /// Column j of the part that was loaded last, of those in between; until the next call.
  const Column& make(std::int64_t j);

  /// Where a row, counted from the part's first, is in that column; -1 when it is not.
  std::int32_t place(std::int32_t row) const { return place_[row] - 1; }

  /// An element of B, with the column of A it is multiplied by.
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
  std::int64_t k_begin_ = 0, k_end_ = 0;  // the columns of A its rows are in
  std::vector<std::int64_t> a_offsets_;   // [cols of A + 2]
  std::vector<std::int32_t> a_rows_;      // [nonzeros of A's rows, and some more] by columns
  std::vector<float> a_values_;           // likewise
  std::vector<std::int64_t> b_offsets_;   // [columns + 2]
  std::vector<Factor> b_factors_;         // by columns, each in the order of A's columns

  // The products of a column, and room for some more.
  std::vector<std::int32_t> rows_;
  std::vector<float> left_, right_;
  std::vector<double> terms_;           // left * right: exact
  std::vector<std::int32_t> repeated_;  // the products that are not the first of their row

  std::vector<std::int32_t> place_;  // [rows] in column_, counted from 1; 0 for none
  std::vector<double> lost_;         // sum + lost is the running total
  Column column_;
};

}  // namespace tessera
