#include "kernels/spmm/row_windows/me_tcf_kernel.hpp"

#include <algorithm>

namespace tessera::me_tcf_kernel {
namespace {

constexpr int kCols = MeTcf::kTileCols;

using row_windows::rows_of_window;
using window_tasks::Tasks;

/// The range of a row's nonzeros of a TC block in MeTcf::values, by ascending condensed columns.
struct RowNonzeros {
  std::int64_t first, last;
};

RowNonzeros nonzeros_of(const MeTcf& a, std::int64_t block, int r) {
  const auto begin = a.tc_local_id.begin() + a.tc_offset[block];
  const auto end = a.tc_local_id.begin() + a.tc_offset[block + 1];
  const auto first = std::lower_bound(begin, end, r * kCols);
  const auto last = std::lower_bound(first, end, (r + 1) * kCols);
  return {first - a.tc_local_id.begin(), last - a.tc_local_id.begin()};
}

/// Emulates rows of C through TC blocks one after another.
class RowEmulation {
 public:
  RowEmulation(const MeTcf& a, const Precision& precision, int depth, const FusedStep& step,
               const PreparedB& b)
      : a_(a), precision_(precision), depth_(depth), step_(step), b_(b) {}

  /// Adds TC blocks [first, last) to row r of their window; `c` [n] holds zeros on entry.
  void run_row(int r, std::int64_t first, std::int64_t last, std::span<float> c) {
    RowChain chain(precision_, step_, b_, c);
    for (std::int64_t block = first; block < last; ++block) {
      const RowNonzeros row = nonzeros_of(a_, block, r);
      if (row.first == row.last && b_.part(0).all_finite()) continue;
      for (int mma_col = 0; mma_col < kCols; mma_col += depth_) {
        take_terms(block, row, mma_col);
        if (!terms_.empty()) chain.add(terms_);
      }
    }
    chain.finish();
  }

 private:
  /// Reads the row's terms of an MMA. A zero of A times a NaN or an infinity in B is a NaN: columns
  /// in which this row has no nonzero still reach it, padding does not.
  void take_terms(std::int64_t block, const RowNonzeros& row, int mma_col) {
    terms_.clear();
    for (int k = 0; k < depth_; ++k) {
      const std::int32_t col = a_.sparse_a_to_b[block * kCols + mma_col + k];
      if (col == kNoColumn) continue;
      const auto ids = a_.tc_local_id.begin();
      const auto found = std::find_if(ids + row.first, ids + row.last,
                                      [&](int id) { return id % kCols == mma_col + k; });
      if (found != ids + row.last)
        terms_.push_back({split(a_.values[found - ids], precision_), col, k});
      else if (!b_.part(0).row_is_finite(col))
        terms_.push_back({{}, col, k});
    }
  }

  const MeTcf& a_;
  const Precision& precision_;
  int depth_;
  const FusedStep& step_;
  const PreparedB& b_;
  std::vector<ChunkTerm> terms_;
};

}  // namespace

Arithmetic arithmetic(const Precision& precision, int depth) {
  return {.sum = Arithmetic::Sum::kTensorCore,
          .type = type_of(precision.conversion),
          .mma_depth = depth,
          .input_error = precision.input_error,
          .mmas_per_chunk = static_cast<int>(precision.mmas.size())};
}

std::vector<std::int64_t> terms_per_row(const MeTcf& a, int depth, const Tasks& tasks) {
  std::vector<std::int64_t> terms(static_cast<std::size_t>(a.rows()), 0);
  for (std::int64_t window = 0; window < a.num_row_windows(); ++window) {
    for (std::int64_t r = 0; r < rows_of_window(a, window); ++r) {
      std::int64_t& count = terms[window * std::int64_t{a.window_rows} + r];
      for (std::int64_t block = a.row_window_offset[window];
           block < a.row_window_offset[window + 1]; ++block) {
        const RowNonzeros row = nonzeros_of(a, block, static_cast<int>(r));
        int last = -1;  // MMA of the TC block
        for (std::int64_t k = row.first; k < row.last; ++k) {
          const int mma = a.tc_local_id[k] % kCols / depth;
          if (mma != last) ++count;
          last = mma;
        }
      }
    }
  }
  row_windows::add_split_terms(a, tasks, terms);
  return terms;
}

DenseMatrix emulate(const MeTcf& a, const Precision& precision, int depth, const Tasks& tasks,
                    const DenseMatrix& b, const Generation& generation) {
  const FusedStep& step = generation.step(type_of(precision.conversion));
  const PreparedB prepared(b, precision);
  return row_windows::emulate_tasks(
      a, tasks, b.cols, [&] { return RowEmulation(a, precision, depth, step, prepared); });
}

WorkDescription describe(const std::string& kernel, const MeTcf& a, int depth, std::int64_t n,
                         const Storage& storage) {
  return row_windows::describe_tiles(kernel, a, n, depth == 4 ? "m16n8k4" : "m16n8k8",
                                     2 * 16 * 8 * depth, storage);
}

}  // namespace tessera::me_tcf_kernel
