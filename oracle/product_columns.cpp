#include "oracle/product_columns.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "formats/base/parallel.hpp"
#include "formats/base/vector_clones.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kPartRows = 4096;   // the data per row fits the L1 and L2 caches
constexpr std::int64_t kMaxRowParts = 32;  // each part visits all columns
constexpr std::int64_t kPartProducts = std::int64_t{1} << 22;
constexpr std::int32_t kCopied = 16;  // products written at once, needed or not
constexpr std::int64_t kAhead = 8;    // factors whose products are prefetched

/// Writes the products of some factors contiguously, and up to kCopied more.
TESSERA_VECTOR_CLONES
void lay_out(const ColumnMaker::Factor* __restrict factors, std::int64_t size,
             const std::int32_t* __restrict a_rows, const float* __restrict a_values,
             std::int32_t* __restrict rows, float* __restrict left, float* __restrict right) {
  std::size_t at = 0;
  for (std::int64_t k = 0; k < size; ++k) {
    const auto [begin, count, value] = factors[k];
    const std::int64_t ahead = factors[std::min(k + kAhead, size - 1)].begin;
    __builtin_prefetch(a_rows + ahead);
    __builtin_prefetch(a_values + ahead);
    for (std::int32_t done = 0; done < count; done += kCopied) {
      const std::size_t to = at + done;
      const std::int64_t from = begin + done;
      for (int i = 0; i < kCopied; ++i) rows[to + i] = a_rows[from + i];
      for (int i = 0; i < kCopied; ++i) left[to + i] = a_values[from + i];
      for (int i = 0; i < kCopied; ++i) right[to + i] = value;
    }
    at += count;
  }
}

/// Starts sums with their first terms; a term of -0 becomes the 0 that adding it to zero gives.
TESSERA_VECTOR_CLONES
void multiply(const float* __restrict left, const float* __restrict right, std::size_t count,
              double* __restrict terms) {
  for (std::size_t i = 0; i < count; ++i)
    terms[i] = static_cast<double>(left[i]) * static_cast<double>(right[i]) + 0.0;
}

TESSERA_VECTOR_CLONES
void start(const double* __restrict sum, std::size_t size, double* __restrict lost,
           double* __restrict magnitude) {
  for (std::size_t i = 0; i < size; ++i) {
    lost[i] = 0;
    magnitude[i] = std::fabs(sum[i]);
  }
}

/// Adds the losses to the sums. With an infinity or a NaN among the terms the plain sum is the
/// result, since the loss is NaN.
TESSERA_VECTOR_CLONES
void finish(const double* __restrict lost, std::size_t size, double* __restrict sum) {
  for (std::size_t i = 0; i < size; ++i) {
    const bool finite = std::fabs(sum[i]) <= std::numeric_limits<double>::max();
    sum[i] += finite ? lost[i] : 0.0;
  }
}

/// The numbers of rows and of further products of a column.
struct Rows {
  std::size_t found = 0, repeats = 0;
};

/// Divides products into first and further ones of their rows. An unpredictable branch is avoided:
/// every product is written to both lists and stays in one of them.
Rows find_rows(const std::int32_t* __restrict product_rows, const double* __restrict terms,
               std::size_t count, std::int32_t* __restrict place, std::int32_t* __restrict rows,
               double* __restrict first, std::int32_t* __restrict repeated) {
  std::size_t found = 0, repeats = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int32_t row = product_rows[i];
    const std::int32_t known = place[row];
    const bool is_new = known == 0;
    rows[found] = row;
    first[found] = terms[i];
    repeated[repeats] = static_cast<std::int32_t>(i);
    found += is_new;
    repeats += !is_new;
    place[row] = is_new ? static_cast<std::int32_t>(found) : known;
  }
  return {found, repeats};
}

}  // namespace

std::vector<Part> cut_up(const CsrMatrix& a, const CsrMatrix& b) {
  const std::int64_t rows = std::max(kPartRows, (a.rows + kMaxRowParts - 1) / kMaxRowParts);
  std::vector<std::int64_t> cuts((a.rows + rows - 1) / rows);
  parallel_for(a.rows, rows, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t products = 0;
    for (std::int64_t k = a.row_offsets[begin]; k < a.row_offsets[end]; ++k)
      products += b.row_length(a.col_indices[k]);
    cuts[begin / rows] = std::clamp<std::int64_t>(products / kPartProducts, 1, std::max(b.cols, 1));
  });
  std::vector<Part> parts;
  for (std::int64_t i = 0; i < std::ssize(cuts); ++i)
    for (std::int64_t cut = 0; cut < cuts[i]; ++cut)
      parts.push_back({i * rows, std::min<std::int64_t>((i + 1) * rows, a.rows),
                       b.cols * cut / cuts[i], b.cols * (cut + 1) / cuts[i]});
  return parts;
}

void ColumnMaker::load(const CsrMatrix& a, const CsrMatrix& b, const Part& part, Wanted wanted) {
  part_ = part;
  wanted_ = wanted;
  narrow(a, b);
  load_columns_of_a(a);
  load_columns_of_b(b);
  const std::size_t rows = part.row_end - part.row_begin;
  place_.assign(rows, 0);
  column_.size = 0;
  column_.rows.resize(rows + 1);  // the last entry takes products that do not stay
  column_.sum.resize(rows + 1);
  column_.magnitude.resize(rows);
  column_.fp32.resize(rows);
  lost_.resize(rows);
}

/// Restricts the part to the columns that can hold something: banded matrices leave most of B and C
/// empty.
void ColumnMaker::narrow(const CsrMatrix& a, const CsrMatrix& b) {
  k_begin_ = a.cols, k_end_ = 0;
  for (std::int64_t i = part_.row_begin; i < part_.row_end; ++i) {
    if (a.row_length(i) == 0) continue;
    k_begin_ = std::min<std::int64_t>(k_begin_, a.row_cols(i).front());
    k_end_ = std::max<std::int64_t>(k_end_, a.row_cols(i).back() + 1);
  }
  std::int64_t begin = part_.col_end, end = part_.col_begin;
  for (std::int64_t k = k_begin_; k < k_end_; ++k) {
    if (b.row_length(k) == 0) continue;
    begin = std::min<std::int64_t>(begin, b.row_cols(k).front());
    end = std::max<std::int64_t>(end, b.row_cols(k).back() + 1);
  }
  part_.col_begin = std::max(begin, part_.col_begin);
  part_.col_end = std::max(part_.col_begin, std::min(end, part_.col_end));
}

void ColumnMaker::load_columns_of_a(const CsrMatrix& a) {
  const std::int64_t first = a.row_offsets[part_.row_begin], last = a.row_offsets[part_.row_end];
  a_offsets_.assign(std::max<std::int64_t>(k_end_ - k_begin_, 0) + 2, 0);
  for (std::int64_t k = first; k < last; ++k) ++a_offsets_[a.col_indices[k] - k_begin_ + 2];
  std::partial_sum(a_offsets_.begin(), a_offsets_.end(), a_offsets_.begin());
  a_rows_.resize(last - first + kCopied);
  a_values_.resize(last - first + kCopied);
  for (std::int64_t i = part_.row_begin; i < part_.row_end; ++i)
    for (std::int64_t k = a.row_offsets[i]; k < a.row_offsets[i + 1]; ++k) {
      const std::int64_t at = a_offsets_[a.col_indices[k] - k_begin_ + 1]++;
      a_rows_[at] = static_cast<std::int32_t>(i - part_.row_begin);
      a_values_[at] = a.values[k];
    }
}

/// Calls visit(column, begin, end, value) for each element of B that meets nonzeros of A,
/// a_rows_[begin, end); columns are counted from the part's first.
template <class Visit>
void ColumnMaker::for_each_factor(const CsrMatrix& b, Visit visit) const {
  for (std::int64_t k = k_begin_; k < k_end_; ++k) {
    const std::int64_t begin = a_offsets_[k - k_begin_], end = a_offsets_[k - k_begin_ + 1];
    if (begin == end) continue;
    const auto cols = b.row_cols(k);
    const float* values = b.row_values(k).data();
    auto at = cols.begin();
    if (at != cols.end() && *at < part_.col_begin)
      at = std::ranges::lower_bound(cols, part_.col_begin);
    for (; at != cols.end() && *at < part_.col_end; ++at)
      visit(*at - part_.col_begin, begin, end, values[at - cols.begin()]);
  }
}

void ColumnMaker::load_columns_of_b(const CsrMatrix& b) {
  b_offsets_.assign(part_.col_end - part_.col_begin + 2, 0);
  for_each_factor(b, [&](std::int64_t col, auto...) { ++b_offsets_[col + 2]; });
  std::partial_sum(b_offsets_.begin(), b_offsets_.end(), b_offsets_.begin());
  b_factors_.resize(b_offsets_.back());
  for_each_factor(b, [&](std::int64_t col, std::int64_t begin, std::int64_t end, float value) {
    b_factors_[b_offsets_[col + 1]++] = {begin, static_cast<std::int32_t>(end - begin), value};
  });
}

std::size_t ColumnMaker::lay_out_products(std::int64_t column) {
  const std::int64_t begin = b_offsets_[column], end = b_offsets_[column + 1];
  std::size_t count = 0;
  for (std::int64_t k = begin; k < end; ++k) count += b_factors_[k].count;
  if (count == 0) return 0;
  if (count + kCopied > rows_.size()) {
    rows_.resize(count + kCopied);
    left_.resize(count + kCopied);
    right_.resize(count + kCopied);
    terms_.resize(count + kCopied);
    repeated_.resize(count + 1);
  }
  lay_out(b_factors_.data() + begin, end - begin, a_rows_.data(), a_values_.data(), rows_.data(),
          left_.data(), right_.data());
  multiply(left_.data(), right_.data(), count, terms_.data());
  return count;
}

const Column& ColumnMaker::make(std::int64_t j) {
  for (std::size_t i = 0; i < column_.size; ++i) place_[column_.rows[i]] = 0;
  column_.size = 0;
  const std::size_t count = lay_out_products(j - part_.col_begin);
  if (count == 0) return column_;
  const Rows rows = find_rows(rows_.data(), terms_.data(), count, place_.data(),
                              column_.rows.data(), column_.sum.data(), repeated_.data());
  column_.size = rows.found;
  if (wanted_ == Wanted::kFp32 || wanted_ == Wanted::kTruthAndFp32) {
    for (std::size_t i = 0; i < rows.found; ++i)
      column_.fp32[i] = static_cast<float>(column_.sum[i]);
    for (std::size_t i = 0; i < rows.repeats; ++i) {
      const std::int32_t product = repeated_[i];
      float& fp32 = column_.fp32[place_[rows_[product]] - 1];
      fp32 = std::fma(left_[product], right_[product], fp32);
    }
  }
  if (wanted_ == Wanted::kTruth || wanted_ == Wanted::kTruthAndFp32) {
    start(column_.sum.data(), rows.found, lost_.data(), column_.magnitude.data());
    for (std::size_t i = 0; i < rows.repeats; ++i) {
      const double term = terms_[repeated_[i]];
      const std::int32_t at = place_[rows_[repeated_[i]]] - 1;
      const double sum = column_.sum[at], total = sum + term, term_part = total - sum;
      lost_[at] += (sum - (total - term_part)) + (term - term_part);
      column_.sum[at] = total;
      column_.magnitude[at] += std::fabs(term);
    }
    finish(lost_.data(), rows.found, column_.sum.data());
  }
  return column_;
}

}  // namespace tessera
