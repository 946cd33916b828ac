#include "oracle/spgemm_oracle.hpp"

#include <algorithm>
#include <atomic>
#include <numeric>

#include "formats/base/check.hpp"
#include "formats/base/parallel.hpp"
#include "formats/base/scratch_pool.hpp"
#include "oracle/error_meter.hpp"
#include "oracle/product_columns.hpp"

namespace tessera {
namespace {

using Wanted = ColumnMaker::Wanted;

constexpr std::size_t kAhead = 8;                 // rows of C that are prefetched
constexpr std::int64_t kChunkNonzeros = 1 << 17;  // nonzeros of C transposed at once
constexpr std::int64_t kChunkOfRow = 32;

/// Visits the elements of A B with their places in compressed sparse rows. Calls
/// prepare(row offsets), then visit(place, j, column, i) for every element, number i of column j.
template <class Prepare, class Visit>
void make_rows(const CsrMatrix& a, const CsrMatrix& b, Wanted wanted, Prepare prepare,
               Visit visit) {
  require(b.rows == a.cols, "A is {} x {}, but B is {} x {}", a.rows, a.cols, b.rows, b.cols);
  const std::vector<Part> parts = cut_up(a, b);
  std::vector<std::vector<std::int64_t>> next(parts.size());  // by part, [rows]
  ScratchPool<ColumnMaker> pool;
  const auto for_each_part = [&](Wanted what, auto take) {
    parallel_for(std::ssize(parts), 1, [&](std::int64_t p, std::int64_t) {
      pool.use([&](ColumnMaker& maker) {
        maker.load(a, b, parts[p], what);
        for (std::int64_t j = maker.begin(); j < maker.end(); ++j)
          take(next[p], maker.make(j), static_cast<std::int32_t>(j));
      });
    });
  };
  for (std::size_t p = 0; p < parts.size(); ++p)
    next[p].resize(parts[p].row_end - parts[p].row_begin, 0);
  for_each_part(Wanted::kPattern, [](auto& lengths, const Column& column, std::int32_t) {
    for (std::size_t i = 0; i < column.size; ++i) ++lengths[column.rows[i]];
  });

  std::vector<std::int64_t> offsets(static_cast<std::size_t>(a.rows) + 1, 0);
  for (std::size_t p = 0; p < parts.size(); ++p)
    for (std::int64_t i = parts[p].row_begin; i < parts[p].row_end; ++i)
      offsets[i + 1] += next[p][i - parts[p].row_begin];
  std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
  prepare(offsets);
  for (std::size_t p = 0; p < parts.size(); ++p)
    for (std::int64_t i = parts[p].row_begin; i < parts[p].row_end; ++i) {
      const std::int64_t length = next[p][i - parts[p].row_begin];
      next[p][i - parts[p].row_begin] = offsets[i];
      offsets[i] += length;
    }
  for_each_part(wanted, [&](auto& places, const Column& column, std::int32_t j) {
    for (std::size_t i = 0; i < column.size; ++i) visit(places[column.rows[i]]++, j, column, i);
  });
}

/// Compares a part of C with the truth, column by column. C is transposed in chunks of columns that
/// fit the L1 and L2 caches.
class PartComparison {
 public:
  /// The truth is empty outside of the columns [begin, end).
  PartComparison(const CsrMatrix& c, const ErrorBound& bound, const Part& part, std::int64_t begin,
                 std::int64_t end, PanelMeter& meter)
      : c_(c),
        bound_(bound),
        row_begin_(part.row_begin),
        end_(end),
        chunk_end_(begin),
        meter_(meter) {
    std::int64_t nonzeros = 0;
    for (std::int64_t i = part.row_begin; i < part.row_end; ++i) {
      const Row row{place_in_row(i, begin), place_in_row(i, end)};
      for (auto k = place_in_row(i, part.col_begin); k < row.next; ++k)
        add_extra(i, c.col_indices[k], c.values[k]);
      for (auto k = row.end; k < place_in_row(i, part.col_end); ++k)
        add_extra(i, c.col_indices[k], c.values[k]);
      nonzeros += row.end - row.next;
      rows_.push_back(row);
    }
    // A chunk fits the cache but has at least some elements of each row.
    const std::int64_t wanted = std::max(kChunkNonzeros, kChunkOfRow * std::ssize(rows_));
    chunk_ = std::max<std::int64_t>((end - begin) * wanted / std::max(nonzeros, wanted), 1);
    computed_.resize(rows_.size());
  }

  /// Compares column j; call it for all columns of [begin, end) in order.
  void compare(const ColumnMaker& maker, const Column& column, std::int64_t j, bool against_fp32) {
    if (j == chunk_end_) turn_into_columns(j);
    std::fill_n(computed_.data(), column.size, 0.0f);
    const std::int64_t first = offsets_[j - chunk_begin_], last = offsets_[j - chunk_begin_ + 1];
    std::size_t found = 0;
    for (std::int64_t k = first; k < last; ++k) {
      const std::int32_t place = maker.place(entries_[k].row);
      if (place >= 0) {
        computed_[place] = entries_[k].value;
        ++found;
      } else {
        add_extra(row_begin_ + entries_[k].row, j, entries_[k].value);
      }
    }
    missing_ += static_cast<std::int64_t>(column.size - found);
    measure(column, j, against_fp32);
  }

  std::int64_t missing() const { return missing_; }
  std::int64_t extra() const { return extra_; }

 private:
  struct Row {
    std::int64_t next, end;  // places in C
  };
  struct Entry {
    std::int32_t row;  // counted from the part's first
    float value;
  };

  std::int64_t place_in_row(std::int64_t i, std::int64_t col) const {
    const auto cols = c_.row_cols(i);
    if (cols.empty() || cols.front() >= col) return c_.row_offsets[i];
    if (cols.back() < col) return c_.row_offsets[i + 1];
    return c_.row_offsets[i] + (std::ranges::lower_bound(cols, col) - cols.begin());
  }

  /// Prefetches a row: rows are far apart in memory, where the hardware does not prefetch.
  void prefetch(const Row& row) const {
    for (std::int64_t k = row.next; k < std::min(row.next + 64, row.end); k += 16) {
      __builtin_prefetch(c_.col_indices.data() + k);
      __builtin_prefetch(c_.values.data() + k);
    }
  }

  void turn_into_columns(std::int64_t begin) {
    chunk_begin_ = begin;
    chunk_end_ = std::min(begin + chunk_, end_);
    offsets_.assign(chunk_end_ - chunk_begin_ + 2, 0);
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (i + kAhead < rows_.size()) prefetch(rows_[i + kAhead]);
      for (std::int64_t k = rows_[i].next; k < rows_[i].end && c_.col_indices[k] < chunk_end_; ++k)
        ++offsets_[c_.col_indices[k] - chunk_begin_ + 2];
    }
    std::partial_sum(offsets_.begin(), offsets_.end(), offsets_.begin());
    entries_.resize(offsets_.back());
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      std::int64_t k = rows_[i].next;
      for (; k < rows_[i].end && c_.col_indices[k] < chunk_end_; ++k)
        entries_[offsets_[c_.col_indices[k] - chunk_begin_ + 1]++] = {static_cast<std::int32_t>(i),
                                                                      c_.values[k]};
      rows_[i].next = k;
    }
  }

  void measure(const Column& column, std::int64_t j, bool against_fp32) {
    for (std::size_t i = 0; i < column.size;) {
      ElementBatch& batch = meter_.batch();
      const auto at = static_cast<std::size_t>(batch.size);
      const std::size_t count = std::min(column.size - i, ElementBatch::kCapacity - at);
      std::copy_n(column.sum.data() + i, count, batch.truth + at);
      std::copy_n(column.magnitude.data() + i, count, batch.magnitude + at);
      std::copy_n(computed_.data() + i, count, batch.computed + at);
      if (against_fp32) std::copy_n(column.fp32.data() + i, count, batch.fp32 + at);
      std::fill_n(batch.col + at, count, j);
      for (std::size_t e = 0; e < count; ++e) {
        const std::int64_t row = row_begin_ + column.rows[i + e];
        batch.row[at + e] = row;
        batch.relative[at + e] = bound_.relative[row];
        batch.absolute[at + e] = bound_.absolute[row];
      }
      meter_.added(static_cast<int>(count));
      i += count;
    }
  }

  void add_extra(std::int64_t row, std::int64_t col, float value) {
    ++extra_;
    meter_.add({.row = row,
                .col = col,
                .relative = bound_.relative[row],
                .absolute = bound_.absolute[row],
                .computed = value});
  }

  const CsrMatrix& c_;
  const ErrorBound& bound_;
  const std::int64_t row_begin_, end_;
  std::int64_t chunk_ = 1;                    // columns transposed at once
  std::int64_t chunk_begin_ = 0, chunk_end_;  // the columns of the current chunk
  PanelMeter& meter_;
  std::vector<Row> rows_;              // [rows] the parts not transposed yet
  std::vector<std::int64_t> offsets_;  // [columns of the chunk + 2]
  std::vector<Entry> entries_;         // by columns
  std::vector<float> computed_;        // [rows] of the truth's elements of one column
  std::int64_t missing_ = 0, extra_ = 0;
};

}  // namespace

TrueSparse spgemm_fp64(const CsrMatrix& a, const CsrMatrix& b) {
  TrueSparse truth{a.rows, b.cols, {}, {}, {}, {}};
  const auto prepare = [&](const std::vector<std::int64_t>& offsets) {
    truth.row_offsets = offsets;
    truth.col_indices.resize(offsets.back());
    truth.product.resize(offsets.back());
    truth.magnitude.resize(offsets.back());
  };
  make_rows(a, b, Wanted::kTruth, prepare,
            [&](std::int64_t place, std::int32_t j, const Column& column, std::size_t i) {
              truth.col_indices[place] = j;
              truth.product[place] = column.sum[i];
              truth.magnitude[place] = column.magnitude[i];
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
  make_rows(a, b, Wanted::kFp32, prepare,
            [&](std::int64_t place, std::int32_t j, const Column& column, std::size_t i) {
              cols[place] = j;
              values[place] = column.fp32[i];
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
  const std::vector<Part> parts = cut_up(a, b);
  std::atomic<std::int64_t> missing{0}, extra{0};
  ScratchPool<ColumnMaker> pool;
  const auto visit = [&](std::int64_t p, PanelMeter& meter) {
    const Part& part = parts[p];
    pool.use([&](ColumnMaker& maker) {
      maker.load(a, b, part, against_fp32 ? Wanted::kTruthAndFp32 : Wanted::kTruth);
      PartComparison comparison(c, bound, part, maker.begin(), maker.end(), meter);
      for (std::int64_t j = maker.begin(); j < maker.end(); ++j)
        comparison.compare(maker, maker.make(j), j, against_fp32);
      missing += comparison.missing();
      extra += comparison.extra();
    });
  };
  const ProductNorms norms{frobenius_norm(a.values), frobenius_norm(b.values)};
  return {measure_errors(std::ssize(parts), norms, {against_fp32, bound.largest}, visit), missing,
          extra};
}

}  // namespace tessera
