// The kernel of dtc_spmm: TC blocks of A are scattered into shared memory by their local ids while
// the TC block before is multiplied; rows of B are copied to shared memory or loaded to registers.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include "kernels/spmm/dtc_spmm/compiled.cuh"
#include "kernels/spmm/dtc_spmm/dtc_spmm.hpp"
#include "kernels/spmm/row_windows/window16_task.cuh"

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

/// Rows of B, loaded from the L2 to the lanes when they are multiplied; their indices are loaded
/// one TC block ahead.
template <class V>
class LoadedRows {
 public:
  __device__ LoadedRows(const KernelArguments& arguments, const Task& task, std::int64_t first_col,
                        int lane, float*)
      : ids_(arguments.view.sparse_a_to_b + lane % 4),
        b_(arguments.b + first_col),
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
  using Rows =
      std::conditional_t<V::kFetch == Fetch::kStaged,
                         window16_tile::StagedRows<V::kAligned, V::kGroups>, LoadedRows<V>>;
  const int thread = V::kTeam == 1 ? lane : static_cast<int>(threadIdx.x);
  const bool has_cols = V::kTeam == 1 || first_col < arguments.view.n;
  window16_tile::TileScatter<V::kTeam> scatter(arguments, task, thread);
  scatter.begin(tiles, double_buffer);
  Rows rows(arguments, task, first_col, lane, stages);
  close_group();
  window16_tile::multiply_tiles<V::kDepth>(task, lane, has_cols, double_buffer, tiles, scatter,
                                           rows, sums);
}

/// Warps of a multiprocessor that the registers must suffice for: 64 sums a lane leave fewer.
template <class V>
constexpr int kResidentWarps = V::kGroups == 4 ? 12 : 16;

template <class V>
__global__ void __launch_bounds__(V::schedule().threads(),
                                  kResidentWarps<V> / V::schedule().warps())
    run(KernelArguments arguments, bool double_buffer) {
  extern __shared__ __align__(16) float memory[];
  constexpr window16_tile::SharedMemory kMemory{.schedule = V::schedule(),
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
