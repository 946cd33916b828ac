#include "kernels/spmm/row_windows/me_tcf_kernel.hpp"

#include <algorithm>

#include "formats/base/parallel.hpp"

namespace tessera::me_tcf_kernel {
namespace {

constexpr int kCols = MeTcf::kTileCols;

using window_tasks::Task;
using window_tasks::Tasks;

const Precision& precision() { return find_precision("tf32"); }

/// A row's nonzeros of a TC block: places in MeTcf::values, of ascending condensed columns.
struct Cells {
  std::int64_t first, last;
};

Cells cells_of(const MeTcf& a, std::int64_t block, int r) {
  const auto begin = a.tc_local_id.begin() + a.tc_offset[block];
  const auto end = a.tc_local_id.begin() + a.tc_offset[block + 1];
  const auto first = std::lower_bound(begin, end, r * kCols);
  const auto last = std::lower_bound(first, end, (r + 1) * kCols);
  return {first - a.tc_local_id.begin(), last - a.tc_local_id.begin()};
}

/// Rows of C going through TC blocks one after another.
class RowEmulation {
 public:
  RowEmulation(const MeTcf& a, int depth, const FusedStep& step, const PreparedB& b)
      : a_(a), depth_(depth), step_(step), b_(b) {}

  /// Row r of its window through TC blocks [first, last). `c` comes in as zeros.
  void run(int r, std::int64_t first, std::int64_t last, std::span<float> c) {
    RowChain chain(precision(), step_, b_, c);
    for (std::int64_t block = first; block < last; ++block) {
      const Cells cells = cells_of(a_, block, r);
      if (cells.first == cells.last && b_.part(0).all_finite()) continue;
      for (int mma_col = 0; mma_col < kCols; mma_col += depth_) {
        take_terms(block, cells, mma_col);
        if (!terms_.empty()) chain.add(terms_);
      }
    }
    chain.finish();
  }

 private:
  /// What the row has in an MMA. A zero of A times a NaN or an infinity in B is a NaN: columns that
  /// this row has no nonzero in still reach it, padding does not.
  void take_terms(std::int64_t block, const Cells& cells, int mma_col) {
    terms_.clear();
    for (int k = 0; k < depth_; ++k) {
      const std::int32_t col = a_.sparse_a_to_b[block * kCols + mma_col + k];
      if (col == kNoColumn) continue;
      const auto ids = a_.tc_local_id.begin();
      const auto found = std::find_if(ids + cells.first, ids + cells.last,
                                      [&](int id) { return id % kCols == mma_col + k; });
      if (found != ids + cells.last)
        terms_.push_back({split(a_.values[found - ids], precision()), col, k});
      else if (!b_.part(0).row_is_finite(col))
        terms_.push_back({{}, col, k});
    }
  }

  const MeTcf& a_;
  int depth_;
  const FusedStep& step_;
  const PreparedB& b_;
  std::vector<ChunkTerm> terms_;
};

}  // namespace

Arithmetic arithmetic(int depth) {
  return {.sum = Arithmetic::Sum::kTensorCore,
          .type = MmaType::kTf32,
          .mma_depth = depth,
          .input_error = precision().input_error};
}

std::vector<std::int64_t> terms_per_row(const MeTcf& a, int depth, const Tasks& tasks) {
  std::vector<std::int64_t> terms(static_cast<std::size_t>(a.rows()), 0);
  for (const Task& task : tasks.tasks) {
    for (std::int64_t r = 0; r < rows_of_window(a, task.window); ++r) {
      std::int64_t& count = terms[task.window * std::int64_t{a.window_rows} + r];
      if (task.split != 0) ++count;
      for (std::int64_t block = task.first; block < task.last; ++block) {
        const Cells cells = cells_of(a, block, static_cast<int>(r));
        int last = -1;  // MMA of the TC block
        for (std::int64_t k = cells.first; k < cells.last; ++k) {
          const int mma = a.tc_local_id[k] % kCols / depth;
          if (mma != last) ++count;
          last = mma;
        }
      }
    }
  }
  return terms;
}

DenseMatrix emulate(const MeTcf& a, int depth, const Tasks& tasks, const DenseMatrix& b,
                    const Generation& generation) {
  const FusedStep& step = generation.step(MmaType::kTf32);
  const PreparedB prepared(b, precision());
  DenseMatrix c(a.rows(), b.cols);
  parallel_for(std::ssize(tasks.tasks), 16, [&](std::int64_t begin, std::int64_t end) {
    RowEmulation rows(a, depth, step, prepared);
    std::vector<float> part(static_cast<std::size_t>(b.cols));
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t window = tasks.tasks[i].window, parts = tasks.parts_from(i);
      for (int r = 0; parts > 0 && r < rows_of_window(a, window); ++r) {
        const std::span<float> row = c.row(window * a.window_rows + r);
        rows.run(r, tasks.tasks[i].first, tasks.tasks[i].last, row);
        for (std::int64_t p = 1; p < parts; ++p) {
          std::ranges::fill(part, 0.0f);
          rows.run(r, tasks.tasks[i + p].first, tasks.tasks[i + p].last, part);
          for (std::size_t j = 0; j < part.size(); ++j) row[j] = add_on_gpu(row[j], part[j]);
        }
      }
    }
  });
  return c;
}

WorkDescription describe(const std::string& kernel, const MeTcf& a, int depth, std::int64_t n) {
  WorkDescription work{.kernel = kernel,
                       .mma_type = "tf32",
                       .mma_shape = depth == 4 ? "m16n8k4" : "m16n8k8",
                       .flops_per_mma = 2 * 16 * 8 * depth};
  work.b_rows_bytes = 4 * n * count_distinct(a.sparse_a_to_b, a.cols());
  work.c_bytes = 4 * n * a.rows();
  work.useful_flops = 2 * a.nnz() * n;
  return work;
}

std::int64_t count_active_cols(const MeTcf& a, std::int64_t first, std::int64_t last) {
  return std::count_if(a.sparse_a_to_b.begin() + first * kCols,
                       a.sparse_a_to_b.begin() + last * kCols,
                       [](std::int32_t col) { return col != kNoColumn; });
}

std::int64_t rows_of_window(const MeTcf& a, std::int64_t window) {
  return std::min<std::int64_t>(a.window_rows, a.rows() - window * a.window_rows);
}

}  // namespace tessera::me_tcf_kernel
