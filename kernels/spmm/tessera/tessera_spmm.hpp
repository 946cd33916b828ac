// The options of tessera_spmm and its compiled kernels, for its host and its device half.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/base/params.hpp"
#include "formats/mosaic.hpp"
#include "kernels/overlap_param.hpp"
#include "kernels/spmm/row_windows/schedule.hpp"
#include "kernels/spmm/row_windows/split_windows.hpp"
#include "kernels/spmm/row_windows/staged_rows.hpp"
#include "kernels/spmm/row_windows/window16_tile.hpp"
#include "kernels/spmm/row_windows/window_tasks.hpp"
#include "kernels/storage.hpp"
#include "kernels/tensor_core/precision.hpp"

namespace tessera::tessera_spmm {

/// The schedule of warps that compute `groups` groups of 32 columns.
TESSERA_HOST_DEVICE constexpr row_windows::Schedule schedule_of(int groups) {
  return {.window_rows = window16_tile::kWindowRows, .groups = groups};
}

/// The rows of B that a warp has in shared memory, for `groups` groups of 32 columns of which 16
/// bytes hold `piece_cols`.
struct Ring {
  int groups, piece_cols;

  /// Lines of 128 bytes of a row.
  TESSERA_HOST_DEVICE constexpr int lines() const { return groups * 4 / piece_cols; }
  /// TC blocks whose rows the ring holds.
  TESSERA_HOST_DEVICE constexpr int stages() const {
    return piece_cols == 8 ? 4 : groups == 4 ? 2 : groups == 2 ? 3 : 4;
  }
  TESSERA_HOST_DEVICE constexpr int floats() const {
    return stages() * row_windows::stage_floats(lines());
  }
};
/// True where a warp can prefetch A into the L1, three TC blocks ahead of its loads of A, which are
/// one TC block ahead of their use: where the rows of B of a TC block take less time than such a
/// load. With rows of 512 bytes the prefetches cost more than they bring.
TESSERA_HOST_DEVICE constexpr bool can_prefetch(Ring ring) {
  return ring.piece_cols == 8 || ring.groups < 4;
}

/// A prefetch: a bitmap and the column indices of the TC block so far behind those that are loaded
/// in its turn, and so many sectors of values, from the second on behind those.
constexpr int kPrefetchedBlocks = 3, kPrefetchedSectors = 16, kSectorFloats = 8;

/// What a warp loads or prefetches behind a task's last TC block, and does not use: the columns and
/// bitmaps of so many TC blocks, and so many values.
constexpr int kBlocksAhead = 5 + kPrefetchedBlocks;
constexpr int kValuesAhead = (1 + kPrefetchedSectors) * kSectorFloats;

/// Warps of a multiprocessor that the registers of a kernel must suffice for.
TESSERA_HOST_DEVICE constexpr int resident_warps(int groups) {
  return groups == 4 ? 16 : groups == 2 ? 20 : 28;
}

/// The warps that an H200 holds at a time: tasks aim at a multiple of them. It is a constant, so
/// that results do not depend on the GPU.
constexpr std::int64_t warps_of_gpu(int groups) { return 132 * resident_warps(groups); }

/// The order of the chunks of columns of a C that is wider than a warp.
enum class ChunkOrder { kAuto, kInTurn, kNeighbours };

/// Whether A is prefetched into the L1.
enum class Prefetch { kAuto, kOn, kOff };

/// The shape of A and the bytes of its mosaic.
struct PackedSize {
  std::int64_t rows, cols, bytes;
};
inline PackedSize size_of(const Mosaic& a) { return {a.rows(), a.cols(), stats(a).bytes}; }

class TesseraSpmmOptions {
 public:
  explicit TesseraSpmmOptions(const Params& params);

  const Precision& precision() const { return precision_; }
  Storage storage() const { return storage_; }
  window_tasks::CombineMethod combine() const { return combine_; }
  Overlap overlap() const { return overlap_; }

  /// A share of tasks for each warp: one task, or short windows that follow each other.
  window_tasks::Tasks cut(const std::vector<std::uint32_t>& window_offset, std::int64_t n) const;
  /// The schedule for a B of k rows and n columns.
  row_windows::Schedule schedule(std::int64_t k, std::int64_t n) const;
  Ring ring(const row_windows::Schedule& schedule) const {
    return {schedule.groups, static_cast<int>(16 / bytes_of(storage_.b))};
  }
  /// Shared memory of a thread block, in bytes: the warps' rows of B, in whose place the sums of
  /// split windows are combined.
  std::int64_t shared_bytes(const row_windows::Schedule& schedule) const {
    return std::int64_t{sizeof(float)} * schedule.warps() * ring(schedule).floats();
  }
  /// True where the warps of a product with n columns prefetch an A of that size.
  bool prefetches(const PackedSize& a, std::int64_t n) const;

 private:
  int groups_for(std::int64_t n) const;
  window_tasks::Tasks cut_evenly(const std::vector<std::uint32_t>& window_offset, std::int64_t n,
                                 double of_warp) const;

  Storage storage_;
  Precision precision_;
  std::int64_t max_blocks_;  // TC blocks of a task; 0: by the matrix
  std::int64_t joined_;      // TC blocks of joined windows; 0: by the matrix
  int columns_;              // of a warp; 0: by the width of C
  ChunkOrder chunks_;
  Prefetch prefetch_;
  window_tasks::CombineMethod combine_;
  Overlap overlap_;
};

std::vector<ParamSpec> params();

}  // namespace tessera::tessera_spmm
