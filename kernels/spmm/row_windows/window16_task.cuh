// The task of a warp or a team over TC blocks 16 rows high: TC blocks of A are scattered into
// shared memory by their local ids while the TC block before is multiplied, rows of B are copied to
// shared memory, and sums are written to C or to the slot of a split window.
#pragma once

#include <cstdint>

#include "kernels/spmm/row_windows/staged_rows.cuh"
#include "kernels/spmm/row_windows/task_kernel.cuh"
#include "kernels/spmm/row_windows/window16_memory.hpp"
#include "kernels/spmm/row_windows/window16_tile.cuh"

namespace tessera::window16_tile {

using row_windows::KernelArguments;
using row_windows::TaskItem;
using window_tasks::Task;

/// Scatters the team's TC blocks of A into shared memory, one after another. Local ids are loaded
/// one TC block ahead.
template <int kTeam>
class TileScatter {
 public:
  __device__ TileScatter(const KernelArguments& arguments, const Task& task, int thread)
      : view_(arguments.view),
        thread_(static_cast<std::uint32_t>(thread)),
        tile_(task.first),
        last_(task.last),
        first_(load_ahead(view_.tc_offset + tile_)),
        end_(load_ahead(view_.tc_offset + tile_ + 1)),
        next_end_(load_ahead(view_.tc_offset + min(tile_ + 2, last_))) {
    load_ids();
  }

  /// Clears the tiles that the first TC blocks go to and, with `ahead`, starts to copy the first.
  __device__ void begin(float* tiles, bool ahead) {
    for (int i = 0; i < kTiles - 1; ++i) clear(tiles + i * kTileElements);
    row_windows::synchronize_team<kTeam>();
    if (ahead) copy(tiles);
  }

  /// Copies the next TC block to `tile`, which holds zeros, asynchronously.
  __device__ void copy(float* tile) {
    for (int i = 0; i < kRounds; ++i)
      if (has(i))
        copy_async<4, CopyCache::kL1>(
            shared_address(tile + window16_tile::tile_position(static_cast<int>(id_[i]))),
            view_.values + index(i), true);
    if (tile_ + 1 >= last_) return;
    ++tile_;
    first_ = end_, end_ = next_end_;
    next_end_ = load_ahead(view_.tc_offset + min(tile_ + 2, last_));
    load_ids();
  }

  __device__ void clear(float* tile) const {
    for (int i = 0; i < kRounds; ++i) tile[thread_ + i * kThreads] = 0;
  }

 private:
  static constexpr std::uint32_t kThreads = 32 * kTeam;
  static constexpr int kRounds =
      kTileElements / kThreads;  // largest number of nonzeros of a thread

  __device__ std::uint64_t index(int i) const {
    return std::uint64_t{first_} + thread_ + i * kThreads;
  }
  __device__ bool has(int i) const { return thread_ + i * kThreads < end_ - first_; }

  __device__ void load_ids() {
    for (int i = 0; i < kRounds; ++i)
      if (has(i)) id_[i] = load_ahead(view_.tc_local_id + index(i));
  }

  const window_tile::View& view_;
  std::uint32_t thread_, tile_, last_;
  std::uint32_t first_, end_, next_end_;  // of its values; the end of those of the next TC block
  std::uint32_t id_[kRounds] = {};
};

/// Rows of B, copied to the warp's stages.
template <bool kAligned, int kGroups>
class StagedRows {
 public:
  __device__ StagedRows(const KernelArguments& arguments, const Task& task, std::int64_t first_col,
                        int lane, float* stages)
      : copier_(arguments.view.sparse_a_to_b, arguments.b, arguments.view.n, first_col, lane),
        stages_(stages),
        end_(task.last - 1),
        lane_(lane),
        rows_(copier_.rows(task.first)) {
    copy(0);
    rows_ = copier_.rows(min(task.first + 1, end_));
  }

  /// Starts the copies for the TC block after `tile`.
  __device__ void advance(std::uint32_t tile) {
    stage_ ^= 1;
    if (tile >= end_) return;
    copy(stage_);
    rows_ = copier_.rows(min(tile + 2, end_));
  }
  /// Reads a group's operands of the TC block of the last advance().
  __device__ void read(int group, float (&b)[2][4]) const {
    for (int half = 0; half < 2; ++half)
      window16_tile::read_vector(stages_ + (stage_ ^ 1) * kStageFloats +
                                     (lane_ % 4 + 4 * half) * row_windows::row_pitch(kGroups) +
                                     group * window16_tile::kWarpCols,
                                 lane_, b[half]);
  }

 private:
  static constexpr int kStageFloats = row_windows::stage_floats(kGroups);
  using Copier = row_windows::RowCopier<kAligned, kGroups, CopyCache::kL2>;

  __device__ void copy(int stage) {
    copier_.copy(rows_, shared_address(stages_ + stage * kStageFloats));
  }

  Copier copier_;
  float* stages_;
  std::uint32_t end_;
  int lane_, stage_ = 0;
  typename Copier::Rows rows_;
};

/// sums += the task's TC blocks times their rows of B. `scatter` and `rows` have begun with the
/// first TC block (without `double_buffer` `rows` alone), in one group of copies.
template <int kDepth, int kTeam, class Rows, int kGroups>
__device__ void multiply_tiles(const Task& task, int lane, bool has_cols, bool double_buffer,
                               float* tiles, TileScatter<kTeam>& scatter, Rows& rows,
                               float (&sums)[kGroups][2][4]) {
  int here = 0;
  for (std::uint32_t tile = task.first; tile < task.last; ++tile) {
    const int next = here + 1 == kTiles ? 0 : here + 1, after = next + 1 == kTiles ? 0 : next + 1;
    if (!double_buffer) {
      scatter.copy(tiles + here * kTileElements);
      close_group();
    }
    wait_groups<0>();
    row_windows::synchronize_team<kTeam>();  // all copies are complete, the tile and the stage
                                             // before are free
    scatter.clear(tiles + after * kTileElements);
    if (double_buffer && tile + 1 < task.last) scatter.copy(tiles + next * kTileElements);
    rows.advance(tile);
    close_group();
    if (has_cols) {
      const TileOperand<kDepth> operand(tiles + here * kTileElements, lane);
#pragma unroll
      for (int group = 0; group < kGroups / 2; ++group) {
        float b[2][4];
        rows.read(group, b);
        multiply(operand, b, group, sums);
      }
    }
    here = next;
  }
}

/// Writes the sums of a task to C, or to the slot of its split window. Lanes read kWidth columns of
/// B at once.
template <int kWidth, bool kAligned, int kGroups>
__device__ void store_task(const KernelArguments& arguments, const TaskItem& item, const Task& task,
                           std::int64_t first_col, int lane, float (&sums)[kGroups][2][4]) {
  const bool adds = task.split != 0 && arguments.atomic;
  if (task.split != 0 && !arguments.atomic &&
      !row_windows::combine_split_window(arguments, item, task, lane, sums))
    return;
  for_each_sum<kWidth>(arguments.c, arguments.view.rows, arguments.view.n, task.window, first_col,
                       lane, sums, [&](float* to, const float4& values, int cols) {
                         if (adds)
                           add_16_bytes(to, values, cols, arguments.scaling.alpha, kAligned);
                         else
                           store_16_bytes<kAligned>(to, values, cols, arguments.scaling);
                       });
}

}  // namespace tessera::window16_tile
