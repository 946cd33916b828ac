// What the kernels over vectors of V x 1 (ME-BCRS, SR-BCRS) have in common on the host: the layout
// of their stages, their tasks, the emulation of their chains of MMAs, their work and its trace.
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
#include "kernels/spmm/row_windows/window_tile.hpp"
#include "kernels/spmm_kernel.hpp"
#include "kernels/tensor_core/precision.hpp"

namespace tessera::vector_tiles {

constexpr int kWarps = 4;  // per thread block
constexpr int kThreads = 32 * kWarps;
constexpr int kGroupCols = window_tile::kWarpCols;
constexpr int kMaxStages = 4;

/// What the MMAs multiply, and what the rows of B are made of where they are gathered from.
enum class Operand {
  kTf32,      // B as it is
  kFp16AsIs,  // B as it is, rounded to FP16 after its rows have come
  kFp16,      // B in FP16, from a workspace
  kInt8,      // B in INT8, from a workspace
};

/// Bytes of an element of the rows that are gathered.
constexpr int b_bytes(Operand operand) {
  return operand == Operand::kInt8 ? 1 : operand == Operand::kFp16 ? 2 : 4;
}
/// Bytes of a value of A.
constexpr int a_bytes(Operand operand) {
  return operand == Operand::kInt8 ? 1 : operand == Operand::kTf32 ? 4 : 2;
}
constexpr bool has_workspace(Operand operand) {
  return operand == Operand::kFp16 || operand == Operand::kInt8;
}

/// Columns of the rows that are gathered: whole sectors in a workspace.
constexpr std::int64_t gathered_cols(Operand operand, std::int64_t n) {
  if (!has_workspace(operand)) return n;
  const std::int64_t whole = 32 / b_bytes(operand);
  return (n + whole - 1) / whole * whole;
}

/// Bytes from one row of a stage to the next: whole sectors, for what cp.async takes apart it reads
/// twice, and so that four rows one after another have the same columns in different banks.
constexpr int row_pitch(Operand operand, int groups) {
  return (groups * kGroupCols * b_bytes(operand) + 127) / 128 * 128 + 32;
}
constexpr int stage_bytes(Operand operand, int depth, int groups) {
  return depth * row_pitch(operand, groups);
}

/// Which row of a stage vector k of a TC block has, where a register of an operand holds `pack`
/// values along the depth: of the rows that lanes 4g + t read at once, pack t + i, it makes rows
/// one after another.
constexpr int row_in_stage(int k, int pack) {
  const int of_four = 4 * pack;
  return k / of_four * of_four + k % pack * 4 + k % of_four / pack;
}

/// A packed matrix as vectors. Refers to it.
struct Vectors {
  explicit Vectors(const MeBcrs& a);
  explicit Vectors(const SrBcrs& a);

  std::int32_t rows, cols;
  std::int64_t nnz;
  int vector_rows;                           // V, at most 8
  int depth;                                 // vectors of a TC block; a window's last may have less
  std::vector<std::uint32_t> window_offset;  // [windows + 1] first vector
  std::vector<std::uint32_t> tc_offset;      // [windows + 1] first TC block
  std::span<const std::int32_t> col_indices;  // [vectors] column of A, or kNoColumn
  std::span<const float> values;              // [vectors * vector_rows] by TC block, then by row

  std::int64_t num_windows() const { return std::ssize(window_offset) - 1; }
  int rows_of_window(std::int64_t window) const {
    return static_cast<int>(
        std::min<std::int64_t>(vector_rows, rows - window * std::int64_t{vector_rows}));
  }
  /// Of the TC block from vector `first` on, in a task that ends with `last`.
  int width(std::uint32_t first, std::uint32_t last) const {
    return static_cast<int>(std::min(static_cast<std::uint32_t>(depth), last - first));
  }
  /// Vector k of the TC block, row `row` of the window.
  float cell(std::uint32_t first, int width, int row, int k) const {
    return values[static_cast<std::size_t>(std::int64_t{first} * vector_rows) +
                  static_cast<std::size_t>(row * width + k)];
  }
  std::int64_t blocks_of(const window_tasks::Task& task) const {
    return (std::int64_t{task.last} - task.first + depth - 1) / depth;
  }

 private:
  template <class Packed>
  Vectors(const Packed& a, int depth);  // all but window_offset
};

/// Tasks in vectors, of whole TC blocks and no more than `max_vectors`; 0: whole windows.
window_tasks::Tasks cut(const Vectors& a, std::int64_t max_vectors);

/// TC blocks in which a row has a nonzero, and the parts of its window where that is split.
std::vector<std::int64_t> terms_per_row(const Vectors& a, const window_tasks::Tasks& tasks);

/// A chain of MMAs for each task; the parts of a window are added in their order.
DenseMatrix emulate(const Vectors& a, const window_tasks::Tasks& tasks, const Precision& precision,
                    const FusedStep& step, const DenseMatrix& b);

/// How a product is done.
struct Plan {
  Operand operand = Operand::kTf32;
  bool staged = true;   // rows of B through shared memory
  bool mapped = true;   // a lane's four columns are next to each other
  bool atomic = false;  // parts of a window are added to C in any order
  int groups = 1;       // of 32 columns, of a warp
  int stages = 0;
  window_tasks::Tasks tasks = {};

  std::int64_t num_chunks(std::int64_t n) const {
    return (n + groups * kGroupCols - 1) / (groups * kGroupCols);
  }
  std::int64_t shared_bytes(int depth) const {
    return staged ? std::int64_t{kWarps} * stages * stage_bytes(operand, depth, groups) : 0;
  }
  /// Of a thread that multiplies, in eights; as compiled for sm_90a with aligned operands.
  int registers(int depth) const;
};

/// Groups of 32 columns of a warp: as `columns` says; 0: by the width of C.
constexpr int groups_for(std::int64_t n, int columns) {
  if (columns != 0) return columns / kGroupCols;
  return n <= 32 ? 1 : n <= 64 ? 2 : 4;
}

/// Stages that keep enough bytes on their way with few of them; `asked`: 0, or as many.
constexpr int stages_for(int asked, Operand operand, int depth, int groups) {
  if (asked != 0) return asked;
  return stage_bytes(operand, depth, groups) >= 4096 ? 2 : 3;
}

/// The launches that bring B into the workspace, of which there are none without, and the product.
WorkDescription describe_work(const std::string& kernel, const PackedMatrix& packed, Vectors a,
                              Plan plan, std::int64_t n);

/// How rows of B are converted: a warp takes several at a time where they are short.
struct ConversionShape {
  static constexpr int kConversionWarps = 8;  // per thread block
  int lanes;                                  // of a row: a power of two
  std::int64_t warps;

  ConversionShape(std::int64_t rows, std::int64_t padded_cols);
  int rows_of_warp() const { return 32 / lanes; }
  std::int64_t thread_blocks() const { return (warps + kConversionWarps - 1) / kConversionWarps; }
};

}  // namespace tessera::vector_tiles
