// The host half that the kernels over vectors of V x 1 (ME-BCRS, SR-BCRS) share: their tasks, the
// emulation of their chains of MMAs, their work description and its trace.
//
// Operands are swapped (C^T = B^T A^T): a TC block of A, at most 8 rows of `depth` vectors, is the
// right operand of an MMA, 16 columns of B at as many rows the left one. Two MMAs make 32 columns,
// of which lane 4g + t has four (window_tile.hpp). The device half is vector_tiles.cuh.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "formats/me_bcrs.hpp"
#include "formats/sr_bcrs.hpp"
#include "kernels/spmm/row_windows/window_tasks.hpp"
#include "kernels/spmm/vector_tiles/schedule.hpp"
#include "kernels/spmm_kernel.hpp"
#include "kernels/tensor_core/precision.hpp"

namespace tessera::vector_tiles {

/// A packed matrix as vectors. It refers to the packed matrix.
struct Vectors {
  explicit Vectors(const MeBcrs& a);
  explicit Vectors(const SrBcrs& a);

  std::int32_t rows, cols;
  std::int64_t nnz;
  int vector_rows;  // V, at most 8
  int depth;        // vectors of a TC block; the last of a window may have fewer
  std::vector<std::uint32_t> window_offset;   // [windows + 1] first vector
  std::vector<std::uint32_t> tc_offset;       // [windows + 1] first TC block
  std::span<const std::int32_t> col_indices;  // [vectors] column of A, or kNoColumn
  std::span<const float> values;              // [vectors * vector_rows] by TC block, then by row

  std::int64_t num_windows() const { return std::ssize(window_offset) - 1; }
  int rows_of_window(std::int64_t window) const {
    return static_cast<int>(
        std::min<std::int64_t>(vector_rows, rows - window * std::int64_t{vector_rows}));
  }
  /// Vectors of the TC block that begins with vector `first`, in a task that ends before `last`.
  int width(std::uint32_t first, std::uint32_t last) const {
    return static_cast<int>(std::min(static_cast<std::uint32_t>(depth), last - first));
  }
  /// The value of vector k of the TC block that begins with vector `first`, row `row` of the
  /// window.
  float cell(std::uint32_t first, int width, int row, int k) const {
    return values[static_cast<std::size_t>(std::int64_t{first} * vector_rows) +
                  static_cast<std::size_t>(row * width + k)];
  }
  /// TC blocks of a task.
  std::int64_t blocks_of(const window_tasks::Task& task) const {
    return (std::int64_t{task.last} - task.first + depth - 1) / depth;
  }

 private:
  template <class Packed>
  Vectors(const Packed& a, int depth);  // all but window_offset
};

/// Tasks, counted in vectors, of whole TC blocks and at most `max_vectors` vectors; 0: whole
/// windows.
window_tasks::Tasks cut(const Vectors& a, std::int64_t max_vectors);

/// Terms of the sum of each row: the TC blocks in which it has a nonzero, and the parts of its
/// window where that is split. [rows]
std::vector<std::int64_t> terms_per_row(const Vectors& a, const window_tasks::Tasks& tasks);

/// C = A B: a chain of MMAs for each task; the parts of a window are added in their order.
DenseMatrix emulate(const Vectors& a, const window_tasks::Tasks& tasks, const Precision& precision,
                    const FusedStep& step, const DenseMatrix& b);

/// The launch of a product: what the host half and the device half share.
struct Plan {
  Schedule schedule;
  bool atomic = false;  // parts of a split window are added to C in any order
  window_tasks::Tasks tasks = {};

  Operand operand() const { return schedule.instance.operand; }
  int groups() const { return schedule.instance.groups; }
};

/// The work of the launches that bring B into the workspace, where there is one, and of the
/// product.
WorkDescription describe_work(const std::string& kernel, const PackedMatrix& packed, Vectors a,
                              Plan plan, std::int64_t n);

}  // namespace tessera::vector_tiles
