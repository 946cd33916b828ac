// The kernel of dtc_spmm: TC blocks of A are scattered into shared memory by their local ids while
// the TC block before is multiplied; rows of B are copied to shared memory or loaded to registers.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include "kernels/spmm/dtc_spmm/compiled.cuh"
#include "kernels/spmm/dtc_spmm/dtc_spmm.hpp"
#include "kernels/spmm/row_windows/staged_rows.cuh"
#include "kernels/spmm/row_windows/task_kernel.cuh"
#include "kernels/spmm/row_windows/window16_store.cuh"

namespace tessera::dtc_spmm {

using row_windows::KernelArguments;
using row_windows::TaskItem;
using window16_tile::Accumulators;
using window16_tile::kTileCols;
using window_tasks::Task;

/// A variant as a type: nvcc 13.0 does not compile a __global__ function whose template argument is
/// the value itself.
template <Variant kValue>
struct Compiled {
  static constexpr bool kAligned = kValue.aligned;
  static constexpr int kDepth = kValue.depth, kGroups = kValue.groups, kTeam = kValue.team;
  static constexpr Fetch kFetch = kValue.fetch;
  static constexpr int kWidth = width_of(kFetch);
  TESSERA_HOST_DEVICE static constexpr row_windows::Schedule schedule() {
    return schedule_of(kGroups, kTeam);
  }
  static_assert(kFetch != Fetch::kFloat || !kAligned, "single floats need no alignment");
};

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
template <class V>
class StagedRows {
 public:
  __device__ StagedRows(const KernelArguments& arguments, const Task& task, std::int64_t first_col,
                        int lane, float* stages)
      : copier_(arguments.view.sparse_a_to_b, arguments.b_fp32(), arguments.view.n, first_col,
                lane),
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
                                     (lane_ % 4 + 4 * half) * row_windows::row_pitch(V::kGroups) +
                                     group * window16_tile::kWarpCols,
                                 lane_, b[half]);
  }

 private:
  static constexpr int kStageFloats = row_windows::stage_floats(V::kGroups);
  using Copier = row_windows::RowCopier<V::kAligned, V::kGroups, CopyCache::kL2>;

  __device__ void copy(int stage) {
    copier_.copy(rows_, shared_address(stages_ + stage * kStageFloats));
  }

  Copier copier_;
  float* stages_;
  std::uint32_t end_;
  int lane_, stage_ = 0;
  typename Copier::Rows rows_;
};

/// Rows of B, loaded from the L2 to the lanes when they are multiplied; their indices are loaded
/// one TC block ahead.
template <class V>
class LoadedRows {
 public:
  __device__ LoadedRows(const KernelArguments& arguments, const Task& task, std::int64_t first_col,
                        int lane, float*)
      : ids_(arguments.view.sparse_a_to_b + lane % 4),
        b_(arguments.b_fp32() + first_col),
        n_(arguments.view.n),
        cols_(arguments.view.n - first_col),
        end_(task.last - 1),
        lane_(lane) {
    load_row_ids(task.first);
  }

  __device__ void advance(std::uint32_t tile) {
    for (int half = 0; half < 2; ++half) load_row(half);
    load_row_ids(min(tile + 1, end_));
  }
  __device__ void read(int group, float (&b)[2][4]) const {
    for (int half = 0; half < 2; ++half)
      for (int j = 0; j < 4; ++j) b[half][j] = loaded_[group][half][j];
  }

 private:
  static constexpr int kWidth = V::kWidth;

  __device__ void load_row_ids(std::uint32_t tile) {
    for (int half = 0; half < 2; ++half)
      row_[half] = load_ahead(ids_ + std::uint64_t{tile} * kTileCols + 4 * half);
  }

  __device__ void load_row(int half) {
    using Vector =
        std::conditional_t<kWidth == 4, float4, std::conditional_t<kWidth == 2, float2, float>>;
    const float* row = b_ + static_cast<std::int64_t>(max(row_[half], 0)) * n_;
    const std::int64_t cols = row_[half] < 0 ? 0 : cols_;
#pragma unroll
    for (int group = 0; group < V::kGroups; ++group) {
#pragma unroll
      for (int part = 0; part < 4 / kWidth; ++part) {
        const int col =
            group * window16_tile::kWarpCols + window16_tile::first_col<kWidth>(part, lane_ / 4);
        Vector vector = {};
        if (col < cols) vector = __ldg(reinterpret_cast<const Vector*>(row + col));
        float* to = &loaded_[group][half][kWidth * part];
        if constexpr (kWidth == 1)
          to[0] = vector;
        else
          to[0] = vector.x, to[1] = vector.y;
        if constexpr (kWidth == 4) to[2] = vector.z, to[3] = vector.w;
      }
    }
  }

  const std::int32_t* ids_;
  const float* b_;
  std::int64_t n_, cols_;  // of B; from the warp's first column to the edge
  std::uint32_t end_;
  int lane_;
  std::int32_t row_[2];
  float loaded_[V::kGroups][2][4];
};

/// sums += the task's TC blocks, of which there is at least one, times their rows of B.
template <class V>
__device__ void multiply_task(const KernelArguments& arguments, bool double_buffer,
                              const Task& task, std::int64_t first_col, int lane, float* tiles,
                              float* stages, Accumulators<V::kGroups>& sums) {
  using Rows = std::conditional_t<V::kFetch == Fetch::kStaged, StagedRows<V>, LoadedRows<V>>;
  const int thread = V::kTeam == 1 ? lane : static_cast<int>(threadIdx.x);
  const bool has_cols = V::kTeam == 1 || first_col < arguments.view.n;
  TileScatter<V::kTeam> scatter(arguments, task, thread);
  for (int i = 0; i < kTiles - 1; ++i) scatter.clear(tiles + i * kTileElements);
  row_windows::synchronize_team<V::kTeam>();
  if (double_buffer) scatter.copy(tiles);
  Rows rows(arguments, task, first_col, lane, stages);
  close_group();

  int here = 0;
  for (std::uint32_t tile = task.first; tile < task.last; ++tile) {
    const int next = here + 1 == kTiles ? 0 : here + 1, after = next + 1 == kTiles ? 0 : next + 1;
    if (!double_buffer) {
      scatter.copy(tiles + here * kTileElements);
      close_group();
    }
    wait_groups<0>();
    row_windows::synchronize_team<V::kTeam>();  // all copies are complete, the tile and the stage
                                                // before are free
    scatter.clear(tiles + after * kTileElements);
    if (double_buffer && tile + 1 < task.last) scatter.copy(tiles + next * kTileElements);
    rows.advance(tile);
    close_group();
    if (has_cols) {
      const window16_tile::TileOperand<V::kDepth> operand(tiles + here * kTileElements, lane);
#pragma unroll
      for (int group = 0; group < V::kGroups; ++group) {
        float b[2][4];
        rows.read(group, b);
        window16_tile::multiply(operand, b, group, sums);
      }
    }
    here = next;
  }
}

/// Warps of a multiprocessor that the registers must suffice for: 64 sums a lane leave fewer.
template <class V>
constexpr int kResidentWarps = V::kGroups == 4 ? 12 : 16;

template <class V>
__global__ void __launch_bounds__(V::schedule().threads(),
                                  kResidentWarps<V> / V::schedule().warps())
    run(KernelArguments arguments, bool double_buffer) {
  extern __shared__ __align__(16) float memory[];
  constexpr SharedMemory kMemory{.schedule = V::schedule(),
                                 .has_stages = V::kFetch == Fetch::kStaged};
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  float* tiles = memory + kMemory.tiles_of(V::kTeam == 1 ? warp : 0);
  float* stages = memory + kMemory.stages_begin() + kMemory.stages_of(warp);
  row_windows::for_each_task<V, true>(arguments, [&](const TaskItem& item, const Task& task) {
    const std::int64_t first_col = V::schedule().first_col(item.chunk);
    Accumulators<V::kGroups> sums = {};
    if (task.first < task.last)
      multiply_task<V>(arguments, double_buffer, task, first_col, lane, tiles, stages, sums);
    if (first_col < arguments.view.n)
      window16_tile::store_task<V::kWidth, V::kAligned>(arguments, item, task, first_col, lane,
                                                        sums);
  });
}

/// The compiled kernel of a variant with MMAs of kDepth condensed columns; null for none.
template <int kDepth>
Kernel find_kernel(const Variant& wanted) {
  static constexpr auto kVariants = list_variants(kDepth);
  Kernel found = nullptr;
  [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
    ((kVariants[kIndex] == wanted ? static_cast<void>(found = run<Compiled<kVariants[kIndex]>>)
                                  : static_cast<void>(0)),
     ...);
  }
  (std::make_index_sequence<kVariants.size()>());
  return found;
}

}  // namespace tessera::dtc_spmm
