#include "kernels/spmm/vector_tiles/vector_tiles.hpp"

#include "formats/base/check.hpp"
#include "formats/base/parallel.hpp"

namespace tessera::vector_tiles {
namespace {

using window_tasks::Task;
using window_tasks::Tasks;

/// Rows of C, each a chain of MMAs over the TC blocks of a task.
class Chains {
 public:
  Chains(const Vectors& a, const Precision& precision, const FusedStep& step, const PreparedB& b)
      : a_(a), precision_(precision), step_(step), b_(b) {}

  /// Computes row r of the task's window in `c`, which is zero on entry.
  void run(const Task& task, int r, std::span<float> c) {
    RowChain chain(precision_, step_, b_, c);
    for (std::uint32_t first = task.first; first < task.last;
         first += static_cast<std::uint32_t>(a_.depth)) {
      take_terms(first, a_.width(first, task.last), r);
      chain.add(terms_);
    }
    chain.finish();
  }

 private:
  /// Collects the terms of row r. A vector is stored with its zeros, which are multiplied by their
  /// row of B and make NaN of values that are not finite.
  void take_terms(std::uint32_t first, int width, int r) {
    terms_.clear();
    for (int k = 0; k < width; ++k) {
      const std::int32_t col = a_.col_indices[first + static_cast<std::uint32_t>(k)];
      if (col == kNoColumn) continue;
      const float value = a_.cell(first, width, r, k);
      if (value != 0 || !b_.part(0).row_is_finite(col))
        terms_.push_back({split(value, precision_), col, k});
    }
  }

  const Vectors& a_;
  const Precision& precision_;
  const FusedStep& step_;
  const PreparedB& b_;
  std::vector<ChunkTerm> terms_;
};

}  // namespace

template <class Packed>
Vectors::Vectors(const Packed& a, int depth)
    : rows(a.rows()),
      cols(a.cols()),
      nnz(a.nnz()),
      vector_rows(a.vector_rows),
      depth(depth),
      tc_offset(1, 0),
      col_indices(a.col_indices),
      values(a.values) {
  require<Unsupported>(vector_rows <= window_tile::kWindowRows,
                       "the MMA's right operand takes vectors of at most {} rows, not of {}",
                       window_tile::kWindowRows, vector_rows);
  for (std::int64_t w = 0; w < a.num_row_windows(); ++w)
    tc_offset.push_back(tc_offset.back() + static_cast<std::uint32_t>(a.tc_blocks(w)));
}

Vectors::Vectors(const MeBcrs& a) : Vectors(a, a.tile_cols) { window_offset = a.row_window_offset; }

Vectors::Vectors(const SrBcrs& a) : Vectors(a, a.stride) {
  window_offset = a.row_begin;
  window_offset.push_back(static_cast<std::uint32_t>(a.num_vectors()));
}

Tasks cut(const Vectors& a, std::int64_t max_vectors) {
  const std::int64_t max_blocks =
      max_vectors == 0 ? 0 : std::max<std::int64_t>(1, max_vectors / a.depth);
  Tasks tasks = window_tasks::cut(a.tc_offset, max_blocks);
  for (Task& task : tasks.tasks) {
    const std::uint32_t begin = a.window_offset[task.window], block = a.tc_offset[task.window];
    const auto depth = static_cast<std::uint32_t>(a.depth);
    task.first = begin + (task.first - block) * depth;
    task.last = std::min(begin + (task.last - block) * depth, a.window_offset[task.window + 1]);
  }
  return tasks;
}

std::vector<std::int64_t> terms_per_row(const Vectors& a, const Tasks& tasks) {
  std::vector<std::int64_t> terms(static_cast<std::size_t>(a.rows), 0);
  for (const Task& task : tasks.tasks) {
    for (int r = 0; r < a.rows_of_window(task.window); ++r) {
      std::int64_t& count =
          terms[static_cast<std::size_t>(task.window * std::int64_t{a.vector_rows} + r)];
      count += task.split != 0;  // the addition of the part to the others
      for (std::uint32_t first = task.first; first < task.last;
           first += static_cast<std::uint32_t>(a.depth)) {
        const int width = a.width(first, task.last);
        bool has_nonzero = false;
        for (int k = 0; k < width; ++k) has_nonzero |= a.cell(first, width, r, k) != 0;
        count += has_nonzero;
      }
    }
  }
  return terms;
}

DenseMatrix emulate(const Vectors& a, const Tasks& tasks, const Precision& precision,
                    const FusedStep& step, const DenseMatrix& b) {
  const PreparedB prepared(b, precision);
  DenseMatrix c(a.rows, b.cols);
  parallel_for(std::ssize(tasks.tasks), 16, [&](std::int64_t begin, std::int64_t end) {
    Chains chains(a, precision, step, prepared);
    std::vector<float> part(static_cast<std::size_t>(b.cols));
    for (std::int64_t i = begin; i < end; ++i) {
      const Task& task = tasks.tasks[i];
      // The first task of a window computes all of the window.
      if (task.split != 0 && tasks.splits[task.split - 1].first_task != i) continue;
      const std::int64_t parts = task.split == 0 ? 1 : tasks.splits[task.split - 1].parts;
      for (int r = 0; r < a.rows_of_window(task.window); ++r) {
        const std::span<float> row = c.row(task.window * std::int64_t{a.vector_rows} + r);
        chains.run(task, r, row);
        for (std::int64_t p = 1; p < parts; ++p) {
          std::ranges::fill(part, 0.0f);
          chains.run(tasks.tasks[i + p], r, part);
          for (std::size_t j = 0; j < part.size(); ++j) row[j] = add_on_gpu(row[j], part[j]);
        }
      }
    }
  });
  return c;
}

}  // namespace tessera::vector_tiles
