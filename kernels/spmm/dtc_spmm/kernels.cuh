// dtc_spmm on the device: TC blocks of A scattered into shared memory by their local ids while the
// TC block before is multiplied, rows of B by copies to shared memory or straight to registers.
#pragma once

#include <type_traits>

#include "kernels/spmm/dtc_spmm/dtc_spmm.hpp"
#include "kernels/spmm/row_windows/staged_rows.cuh"
#include "kernels/spmm/row_windows/window16_tile.cuh"
#include "kernels/spmm/row_windows/window_launch.cuh"

namespace tessera::dtc_spmm {

using row_windows::KernelArguments;
using row_windows::WorkItem;
using window16_tile::kCells;
using window16_tile::kTileCols;
using window16_tile::Sums;
using window_tasks::Task;

/// A compiled variant. `kAligned`: rows of B and C come in pieces of 16 bytes.
template <bool kAlignedRows, int kMmaDepth, Fetch kHow, int kNumGroups, int kWarps>
struct Variant {
  static constexpr bool kAligned = kAlignedRows;
  static constexpr int kDepth = kMmaDepth, kGroups = kNumGroups, kTeam = kWarps;
  static constexpr Fetch kFetch = kHow;
  static constexpr int kWidth = kHow == Fetch::kFloat ? 1 : kHow == Fetch::kFloat2 ? 2 : 4;
  static constexpr Geometry kShape{kNumGroups, kWarps};
  static_assert(kHow != Fetch::kFloat || !kAlignedRows, "single floats need no alignment");
};

template <class V>
__device__ void meet_team() {
  if constexpr (V::kTeam == 1)
    __syncwarp();
  else
    __syncthreads();
}

/// The team's TC blocks of A, one after another, into shared memory. Names come a TC block ahead.
template <int kTeam>
class TileScatter {
 public:
  __device__ TileScatter(const KernelArguments& product, const Task& task, int thread)
      : view_(product.view),
        thread_(static_cast<std::uint32_t>(thread)),
        tile_(task.first),
        last_(task.last),
        first_(load_ahead(view_.tc_offset + tile_)),
        end_(load_ahead(view_.tc_offset + tile_ + 1)),
        next_end_(load_ahead(view_.tc_offset + min(tile_ + 2, last_))) {
    load_names();
  }

  /// The next TC block to `tile`, which holds zeros; complete when the copies are.
  __device__ void copy(float* tile) {
    for (int i = 0; i < kPieces; ++i)
      if (has(i))
        copy_async<4, CopyCache::kL1>(
            shared_address(tile + window16_tile::place_of_cell(static_cast<int>(id_[i]))),
            view_.values + place(i), true);
    if (tile_ + 1 >= last_) return;
    ++tile_;
    first_ = end_, end_ = next_end_;
    next_end_ = load_ahead(view_.tc_offset + min(tile_ + 2, last_));
    load_names();
  }

  __device__ void clear(float* tile) const {
    for (int i = 0; i < kPieces; ++i) tile[thread_ + i * kThreads] = 0;
  }

 private:
  static constexpr std::uint32_t kThreads = 32 * kTeam;
  static constexpr int kPieces = kCells / kThreads;  // nonzeros of a thread, at most

  __device__ std::uint64_t place(int i) const {
    return std::uint64_t{first_} + thread_ + i * kThreads;
  }
  __device__ bool has(int i) const { return thread_ + i * kThreads < end_ - first_; }

  __device__ void load_names() {
    for (int i = 0; i < kPieces; ++i)
      if (has(i)) id_[i] = load_ahead(view_.tc_local_id + place(i));
  }

  const window_tile::View& view_;
  std::uint32_t thread_, tile_, last_;
  std::uint32_t first_, end_, next_end_;  // of its values; the end of the next TC block's
  std::uint32_t id_[kPieces] = {};
};

/// Rows of B through the warp's stages.
template <class V>
class StagedRows {
 public:
  __device__ StagedRows(const KernelArguments& product, const Task& task, std::int64_t first_col,
                        int lane, float* stages)
      : copier_(product.view.sparse_a_to_b, product.b, product.view.n, first_col, lane),
        stages_(stages),
        end_(task.last - 1),
        lane_(lane),
        rows_(copier_.rows(task.first)) {
    copy(0);
    rows_ = copier_.rows(min(task.first + 1, end_));
  }

  /// Those of the TC block after `tile` begin to come.
  __device__ void advance(std::uint32_t tile) {
    stage_ ^= 1;
    if (tile >= end_) return;
    copy(stage_);
    rows_ = copier_.rows(min(tile + 2, end_));
  }
  /// A group's operands of the TC block before the last advance().
  __device__ void take(int group, float (&b)[2][4]) const {
    for (int half = 0; half < 2; ++half)
      window16_tile::read_piece(stages_ + (stage_ ^ 1) * kStageFloats +
                                    (lane_ % 4 + 4 * half) * row_windows::row_pitch(V::kGroups) +
                                    group * window16_tile::kWarpCols,
                                lane_, b[half]);
  }

 private:
  static constexpr int kStageFloats = stage_floats(V::kGroups) / kStages;
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

/// Rows of B when they are multiplied, from the L2 to the lanes; their indices come a TC block
/// ahead.
template <class V>
class LoadedRows {
 public:
  __device__ LoadedRows(const KernelArguments& product, const Task& task, std::int64_t first_col,
                        int lane, float*)
      : ids_(product.view.sparse_a_to_b + lane % 4),
        b_(product.b + first_col),
        n_(product.view.n),
        cols_(product.view.n - first_col),
        end_(task.last - 1),
        lane_(lane) {
    load_ids(task.first);
  }

  __device__ void advance(std::uint32_t tile) {
    for (int half = 0; half < 2; ++half) load_row(half);
    load_ids(min(tile + 1, end_));
  }
  __device__ void take(int group, float (&b)[2][4]) const {
    for (int half = 0; half < 2; ++half)
      for (int j = 0; j < 4; ++j) b[half][j] = loaded_[group][half][j];
  }

 private:
  static constexpr int kWidth = V::kWidth;

  __device__ void load_ids(std::uint32_t tile) {
    for (int half = 0; half < 2; ++half)
      row_[half] = load_ahead(ids_ + std::uint64_t{tile} * kTileCols + 4 * half);
  }

  __device__ void load_row(int half) {
    using Piece =
        std::conditional_t<kWidth == 4, float4, std::conditional_t<kWidth == 2, float2, float>>;
    const float* row = b_ + static_cast<std::int64_t>(max(row_[half], 0)) * n_;
    const std::int64_t cols = row_[half] < 0 ? 0 : cols_;
#pragma unroll
    for (int group = 0; group < V::kGroups; ++group) {
#pragma unroll
      for (int part = 0; part < 4 / kWidth; ++part) {
        const int col =
            group * window16_tile::kWarpCols + window16_tile::first_col<kWidth>(part, lane_ / 4);
        Piece piece = {};
        if (col < cols) piece = __ldg(reinterpret_cast<const Piece*>(row + col));
        float* to = &loaded_[group][half][kWidth * part];
        if constexpr (kWidth == 1)
          to[0] = piece;
        else
          to[0] = piece.x, to[1] = piece.y;
        if constexpr (kWidth == 4) to[2] = piece.z, to[3] = piece.w;
      }
    }
  }

  const std::int32_t* ids_;
  const float* b_;
  std::int64_t n_, cols_;  // of B; from the warp's first on
  std::uint32_t end_;
  int lane_;
  std::int32_t row_[2];
  float loaded_[V::kGroups][2][4];
};

/// sums += the task's TC blocks, of which there are some, times their rows of B.
template <class V>
__device__ void multiply_task(const KernelArguments& product, bool ahead, const Task& task,
                              std::int64_t first_col, int lane, float* tiles, float* stages,
                              Sums<V::kGroups>& sums) {
  using Rows = std::conditional_t<V::kFetch == Fetch::kStaged, StagedRows<V>, LoadedRows<V>>;
  const int thread = V::kTeam == 1 ? lane : static_cast<int>(threadIdx.x);
  const bool has_cols = V::kTeam == 1 || first_col < product.view.n;
  TileScatter<V::kTeam> scatter(product, task, thread);
  for (int i = 0; i < kTiles - 1; ++i) scatter.clear(tiles + i * kCells);
  meet_team<V>();
  if (ahead) scatter.copy(tiles);
  Rows rows(product, task, first_col, lane, stages);
  close_group();

  int here = 0;
  for (std::uint32_t tile = task.first; tile < task.last; ++tile) {
    const int next = here + 1 == kTiles ? 0 : here + 1, after = next + 1 == kTiles ? 0 : next + 1;
    if (!ahead) {
      scatter.copy(tiles + here * kCells);
      close_group();
    }
    wait_groups<0>();
    meet_team<V>();  // all threads' copies are there, and the tile and the stage before are free
    scatter.clear(tiles + after * kCells);
    if (ahead && tile + 1 < task.last) scatter.copy(tiles + next * kCells);
    rows.advance(tile);
    close_group();
    if (has_cols) {
      const window16_tile::TileOperand<V::kDepth> operand(tiles + here * kCells, lane);
#pragma unroll
      for (int group = 0; group < V::kGroups; ++group) {
        float b[2][4];
        rows.take(group, b);
        window16_tile::multiply(operand, b, group, sums);
      }
    }
    here = next;
  }
}

/// The sums of a task into C.
template <class V>
__device__ void deliver(const KernelArguments& product, const WorkItem& place, const Task& task,
                        std::int64_t first_col, int lane, Sums<V::kGroups>& sums) {
  const bool adds = task.split != 0 && product.atomic;
  if (task.split != 0 && !product.atomic && !row_windows::meet(product, place, task, lane, sums))
    return;
  window16_tile::for_each_sum<V::kWidth>(
      product.c, product.view.rows, product.view.n, task.window, first_col, lane, sums,
      [&](float* to, const float4& values, int cols) {
        if (adds)
          add_16_bytes(to, values, cols, product.scaling.alpha, V::kAligned);
        else
          store_16_bytes<V::kAligned>(to, values, cols, product.scaling);
      });
}

/// Calls run(place, task) for the team's tasks one after another.
template <class V, class Run>
__device__ void for_each_task(const KernelArguments& product, Run run) {
  if constexpr (V::kTeam == 1) {
    row_windows::for_each_task<true>(product, run);
  } else {
    const std::uint32_t share = blockIdx.x % product.num_shares;
    const std::int64_t chunk = blockIdx.x / product.num_shares * V::kTeam + threadIdx.x / 32;
    const std::uint32_t last = product.shares[share + 1];
    for (std::uint32_t index = product.shares[share]; index < last; ++index) {
      run(WorkItem{index, chunk}, product.tasks[index]);
      __syncthreads();  // the team's shared memory is free
    }
  }
}

/// Warps of a multiprocessor that registers must suffice for: 64 sums a lane leave fewer.
template <class V>
constexpr int kResidentWarps = V::kGroups == 4 ? 12 : 16;

template <class V>
__global__ void __launch_bounds__(V::kShape.threads(), kResidentWarps<V> * 32 / V::kShape.threads())
    run(KernelArguments product, bool ahead) {
  extern __shared__ __align__(16) float memory[];
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  float* tiles = memory + (V::kTeam == 1 ? warp : 0) * kTiles * kCells;
  float* stages = memory + V::kShape.teams() * kTiles * kCells + warp * stage_floats(V::kGroups);
  for_each_task<V>(product, [&](const WorkItem& place, const Task& task) {
    const std::int64_t first_col = place.chunk * V::kShape.warp_cols();
    Sums<V::kGroups> sums = {};
    if (task.first < task.last)
      multiply_task<V>(product, ahead, task, first_col, lane, tiles, stages, sums);
    if (first_col < product.view.n) deliver<V>(product, place, task, first_col, lane, sums);
  });
}

using Kernel = void (*)(KernelArguments, bool);

/// `aligned`: rows of B and C come in pieces of 16 bytes. A source file each, for the sake of
/// whoever waits for the compiler.
Kernel kernel_of_depth_4(Fetch fetch, const Geometry& shape, bool aligned);
Kernel kernel_of_depth_8(Fetch fetch, const Geometry& shape, bool aligned);

template <int kDepth>
Kernel find_kernel(Fetch fetch, const Geometry& shape, bool aligned) {
  const auto of_shape = [&]<int kGroups, int kTeam>() -> Kernel {
    if (fetch == Fetch::kStaged)
      return aligned ? run<Variant<true, kDepth, Fetch::kStaged, kGroups, kTeam>>
                     : run<Variant<false, kDepth, Fetch::kStaged, kGroups, kTeam>>;
    if (fetch == Fetch::kFloat4 && aligned)
      return run<Variant<true, kDepth, Fetch::kFloat4, kGroups, kTeam>>;
    if (fetch == Fetch::kFloat2 && aligned)
      return run<Variant<true, kDepth, Fetch::kFloat2, kGroups, kTeam>>;
    return run<Variant<false, kDepth, Fetch::kFloat, kGroups, kTeam>>;
  };
  if (shape.team == 2) return of_shape.template operator()<1, 2>();
  if (shape.team == 4) return of_shape.template operator()<1, 4>();
  if (shape.groups == 1) return of_shape.template operator()<1, 1>();
  if (shape.groups == 2) return of_shape.template operator()<2, 1>();
  return of_shape.template operator()<4, 1>();
}

}  // namespace tessera::dtc_spmm
