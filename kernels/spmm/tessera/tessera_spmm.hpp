// The options of tessera_spmm and its compiled kernels, for its host and its device half.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/base/params.hpp"
#include "formats/mosaic.hpp"
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
/// TC blocks after a task's last whose columns and bitmaps a warp loads, and does not use.
constexpr int kBlocksAhead = 4;

/// Warps of a multiprocessor that the registers of a kernel must suffice for.
TESSERA_HOST_DEVICE constexpr int resident_warps(int groups) {
  return groups == 4 ? 16 : groups == 2 ? 20 : 28;
}

/// The warps that an H200 holds at a time: tasks aim at a multiple of them. It is a constant, so
/// that results do not depend on the GPU.
constexpr std::int64_t warps_of_gpu(int groups) { return 132 * resident_warps(groups); }

class TesseraSpmmOptions {
 public:
  explicit TesseraSpmmOptions(const Params& params);

  const Precision& precision() const { return precision_; }
  Storage storage() const { return storage_; }
  window_tasks::CombineMethod combine() const { return combine_; }

  /// Tasks of one warp each.
  window_tasks::Tasks cut(const Mosaic& a, std::int64_t n) const;
  row_windows::Schedule schedule(std::int64_t n) const;
  Ring ring(const row_windows::Schedule& schedule) const {
    return {schedule.groups, static_cast<int>(16 / bytes_of(storage_.b))};
  }
  /// Shared memory of a thread block, in bytes: the warps' rows of B, in whose place the sums of
  /// split windows are combined.
  std::int64_t shared_bytes(const row_windows::Schedule& schedule) const {
    return std::int64_t{sizeof(float)} * schedule.warps() * ring(schedule).floats();
  }

 private:
  int groups_for(std::int64_t n) const;

  Storage storage_;
  Precision precision_;
  std::int64_t max_blocks_;  // TC blocks of a task; 0: by the matrix
  int columns_;              // of a warp; 0: by the width of C
  window_tasks::CombineMethod combine_;
};

std::vector<ParamSpec> params();

}  // namespace tessera::tessera_spmm
