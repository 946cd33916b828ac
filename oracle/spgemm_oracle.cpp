#include "oracle/spgemm_oracle.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>
#include <span>

#include "formats/base/check.hpp"
#include "formats/base/parallel.hpp"
#include "oracle/error_meter.hpp"
#include "formats/base/scratch_pool.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kGrain = 64;  // columns or rows of C per piece of work

/// An element's sum in fp64: TwoSum keeps what each addition loses (spmm_oracle.cpp).
struct CompensatedSum {
  double sum = 0, lost = 0, magnitude = 0;

  void add(float a, float b) {
    const double term = static_cast<double>(a) * b;
    const double total = sum + term;
    const double term_part = total - sum;
    lost += (sum - (total - term_part)) + (term - term_part);
    sum = total;
    magnitude += std::fabs(term);
  }
  double result() const { return std::isfinite(sum) ? sum + lost : sum; }
};

struct Fp32Sum {
  float sum = 0;

  void add(float a, float b) { sum = std::fma(a, b, sum); }
};

/// One column of C while it is made.
template <class Sum>
struct Column {
  std::vector<Sum> sums;           // [rows] only those in `touched` mean anything
  std::vector<std::uint8_t> used;  // [rows] whether a row is in `touched`; all zero in between
  std::vector<std::int32_t> touched;

  /// Sums up column j of A B, from the rows of the transposes. `touched` is in no order: going to
  /// rows afterwards, column by column, makes the columns of each row ascend all the same.
  void make(const CsrMatrix& a_transposed, const CsrMatrix& b_transposed, std::int64_t j) {
    sums.resize(a_transposed.cols);
    used.resize(a_transposed.cols, 0);
    touched.clear();
    const auto b_rows = b_transposed.row_cols(j);
    const auto b_values = b_transposed.row_values(j);
    for (std::size_t k = 0; k < b_rows.size(); ++k) {
      const auto a_rows = a_transposed.row_cols(b_rows[k]);
      const auto a_values = a_transposed.row_values(b_rows[k]);
      for (std::size_t i = 0; i < a_rows.size(); ++i) {
        const std::int32_t row = a_rows[i];
        if (used[row] == 0) {
          used[row] = 1;
          touched.push_back(row);
          sums[row] = {};
        }
        sums[row].add(a_values[i], b_values[k]);
      }
    }
    for (const std::int32_t row : touched) used[row] = 0;
  }
};

/// The columns of a piece, put behind each other until all lengths are known.
template <class Sum>
struct Piece {
  std::vector<std::int32_t> rows;
  std::vector<Sum> sums;
  std::vector<std::int64_t> lengths;  // of its columns
};

/// Calls visit(place, column, sum) for every element of A B, `place` being where it stands in
/// compressed sparse rows; those are given to `prepare` as offsets before.
template <class Sum, class Prepare, class Visit>
void for_each_element(const CsrMatrix& a, const CsrMatrix& b, Prepare prepare, Visit visit) {
  require(b.rows == a.cols, "A is {} x {}, but B is {} x {}", a.rows, a.cols, b.rows, b.cols);
  const CsrMatrix a_transposed = transpose(a), b_transposed = transpose(b);
  std::vector<Piece<Sum>> pieces((b.cols + kGrain - 1) / kGrain);
  ScratchPool<Column<Sum>> pool;
  parallel_for(b.cols, kGrain, [&](std::int64_t begin, std::int64_t end) {
    pool.use([&](Column<Sum>& column) {
      Piece<Sum>& piece = pieces[begin / kGrain];
      for (std::int64_t j = begin; j < end; ++j) {
        column.make(a_transposed, b_transposed, j);
        piece.lengths.push_back(std::ssize(column.touched));
        for (const std::int32_t row : column.touched) {
          piece.rows.push_back(row);
          piece.sums.push_back(column.sums[row]);
        }
      }
    });
  });

  std::vector<std::int64_t> offsets(static_cast<std::size_t>(a.rows) + 1, 0);
  for (const auto& piece : pieces)
    for (const std::int32_t row : piece.rows) ++offsets[row + 1];
  std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
  prepare(offsets);
  std::vector<std::int64_t> next(offsets.begin(), offsets.end() - 1);
  std::int32_t j = 0;
  for (auto& piece : pieces) {
    std::size_t k = 0;
    for (const std::int64_t length : piece.lengths) {
      for (const std::size_t end = k + length; k < end; ++k)
        visit(next[piece.rows[k]]++, j, piece.sums[k]);
      ++j;
    }
    piece = {};  // its memory is needed no more
  }
}

/// The elements of one row that are stored in C or in the truth, in ascending columns.
struct MergedRow {
  std::vector<std::int32_t> cols;
  std::vector<double> truth, magnitude;
  std::vector<float> computed, fp32;
  std::int64_t missing = 0, extra = 0;

  void merge(const TrueSparse& truth_of, const CsrMatrix* fp32_of, const CsrMatrix& c,
             std::int64_t i);
};

void MergedRow::merge(const TrueSparse& truth_of, const CsrMatrix* fp32_of, const CsrMatrix& c,
                      std::int64_t i) {
  cols.clear();
  truth.clear();
  magnitude.clear();
  computed.clear();
  fp32.clear();
  std::int64_t t = truth_of.row_offsets[i], k = c.row_offsets[i];
  const std::int64_t t_end = truth_of.row_offsets[i + 1], k_end = c.row_offsets[i + 1];
  while (t < t_end || k < k_end) {
    const bool in_truth = t < t_end && (k == k_end || truth_of.col_indices[t] <= c.col_indices[k]);
    const bool in_c = k < k_end && (t == t_end || c.col_indices[k] <= truth_of.col_indices[t]);
    missing += !in_c;
    extra += !in_truth;
    cols.push_back(in_c ? c.col_indices[k] : truth_of.col_indices[t]);
    truth.push_back(in_truth ? truth_of.product[t] : 0);
    magnitude.push_back(in_truth ? truth_of.magnitude[t] : 0);
    computed.push_back(in_c ? c.values[k] : 0);
    if (fp32_of != nullptr) fp32.push_back(in_truth ? fp32_of->values[t] : 0);
    t += in_truth;
    k += in_c;
  }
}

}  // namespace

TrueSparse spgemm_fp64(const CsrMatrix& a, const CsrMatrix& b) {
  TrueSparse truth{a.rows, b.cols, {}, {}, {}, {}};
  const auto prepare = [&](const std::vector<std::int64_t>& offsets) {
    truth.row_offsets = offsets;
    truth.col_indices.resize(offsets.back());
    truth.product.resize(offsets.back());
    truth.magnitude.resize(offsets.back());
  };
  for_each_element<CompensatedSum>(
      a, b, prepare, [&](std::int64_t place, std::int32_t column, const CompensatedSum& sum) {
        truth.col_indices[place] = column;
        truth.product[place] = sum.result();
        truth.magnitude[place] = sum.magnitude;
      });
  return truth;
}

CsrMatrix spgemm_fp32(const CsrMatrix& a, const CsrMatrix& b) {
  std::vector<std::int64_t> row_offsets;
  std::vector<std::int32_t> cols;
  std::vector<float> values;
  const auto prepare = [&](const std::vector<std::int64_t>& offsets) {
    row_offsets = offsets;
    cols.resize(offsets.back());
    values.resize(offsets.back());
  };
  for_each_element<Fp32Sum>(a, b, prepare,
                            [&](std::int64_t place, std::int32_t column, const Fp32Sum& sum) {
                              cols[place] = column;
                              values[place] = sum.sum;
                            });
  return {a.rows, b.cols, std::move(row_offsets), std::move(cols), std::move(values)};
}

SpgemmErrors compare_spgemm(const CsrMatrix& a, const CsrMatrix& b, const CsrMatrix& c,
                            const ErrorBound& bound, bool against_fp32) {
  require(b.rows == a.cols && c.rows == a.rows && c.cols == b.cols,
          "shapes do not fit: A is {} x {}, B {} x {}, C {} x {}", a.rows, a.cols, b.rows, b.cols,
          c.rows, c.cols);
  require_bound(bound, a.rows);
  validate(c);
  const TrueSparse truth = spgemm_fp64(a, b);
  const CsrMatrix fp32 = against_fp32 ? spgemm_fp32(a, b) : CsrMatrix();
  std::atomic<std::int64_t> missing{0}, extra{0};
  const auto visit = [&](std::int64_t begin, std::int64_t end, PanelMeter& meter) {
    MergedRow row;
    for (std::int64_t i = begin; i < end; ++i) {
      row.merge(truth, against_fp32 ? &fp32 : nullptr, c, i);
      meter.add({.row = i,
                 .cols = row.cols.data(),
                 .truth = row.truth,
                 .magnitude = row.magnitude,
                 .computed = row.computed,
                 .fp32 = row.fp32,
                 .relative = bound.relative[i],
                 .absolute = bound.absolute[i]});
    }
    missing += row.missing;
    extra += row.extra;
  };
  const ProductNorms norms{frobenius_norm(a.values), frobenius_norm(b.values)};
  return {measure_errors(a.rows, kGrain, norms, visit), missing, extra};
}

}  // namespace tessera
