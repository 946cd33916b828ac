// acc_spmm's staged pipeline: whole rows of B come to shared memory by asynchronous copies, a row
// of 512 bytes with one instruction of a warp, and leave it as fragments.
//
// Lanes that load fragments from the L2 themselves take a wavefront of the L1 for every sector of
// 32 bytes; copies in the order of the lines take a quarter of that, and so do the loads from
// stages. A warp has stages of its own and needs no barrier but its own.
#pragma once

#include "kernels/acc_tasks.cuh"

namespace tessera::acc_spmm {

enum class Copy { kPastL1, kThroughL1 };

template <int kBytes, Copy kCopy>
__device__ void copy_async(std::uint32_t to, const float* from, bool real) {
  // Of what is not real nothing is read, and zeros are written.
  const int bytes = real ? kBytes : 0;
  if constexpr (kBytes == 16 && kCopy == Copy::kPastL1)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(kBytes),
                 "r"(bytes)
                 : "memory");
}

/// A lane's part in copying rows of B: of 16-byte pieces of rows, 32 at a time.
template <bool kAligned, int kGroups, Copy kCopy>
class RowCopier {
 public:
  static constexpr int kLanesPerRow = 8 * kGroups;
  static constexpr int kRowsAtOnce = 32 / kLanesPerRow;
  static constexpr int kSteps = kTileCols / kRowsAtOnce;

  /// Rows that the lane copies pieces of.
  struct Rows {
    std::int32_t row[kSteps];
  };

  __device__ RowCopier(const Product& product, std::int64_t first_col, int lane)
      : row_ids_(product.view.sparse_a_to_b + lane / kLanesPerRow),
        stride_(static_cast<std::uint32_t>(product.view.n)) {
    const std::int64_t col = first_col + 4 * (lane % kLanesPerRow);
    cols_ = static_cast<int>(min(max(product.view.n - col, std::int64_t{0}), std::int64_t{4}));
    b_ = product.b + (cols_ > 0 ? col : 0);
    place_ = 4 * (lane / kLanesPerRow * row_pitch(kGroups) + 4 * (lane % kLanesPerRow));
  }

  __device__ Rows rows(std::uint32_t tile) const {
    Rows rows;
    const std::int32_t* ids = row_ids_ + std::uint64_t{tile} * kTileCols;
    if constexpr (kRowsAtOnce == 1) {
      for (int i = 0; i < kSteps; i += 4)
        asm volatile("ld.global.v4.s32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(rows.row[i]), "=r"(rows.row[i + 1]), "=r"(rows.row[i + 2]),
                       "=r"(rows.row[i + 3])
                     : "l"(ids + i));
    } else {
      for (int i = 0; i < kSteps; ++i) rows.row[i] = window_tile::load_ahead(ids + i * kRowsAtOnce);
    }
    return rows;
  }

  /// To the stage at `stage` in shared memory.
  __device__ void copy(const Rows& rows, std::uint32_t stage) const {
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      const std::int32_t row = rows.row[i];
      const std::uint32_t to = stage + place_ + 4 * i * kRowsAtOnce * row_pitch(kGroups);
      const float* from = b_ + std::uint64_t{static_cast<std::uint32_t>(max(row, 0))} * stride_;
      if constexpr (kAligned) {
        copy_async<16, kCopy>(to, from, row >= 0 && cols_ > 0);
      } else {
        for (int k = 0; k < 4; ++k) {
          const bool real = row >= 0 && k < cols_;
          copy_async<4, kCopy>(to + 4 * k, real ? from + k : b_, real);
        }
      }
    }
  }

 private:
  const std::int32_t* row_ids_;
  std::uint32_t stride_;  // of B, elements
  int cols_;              // of the lane's four, those within B
  const float* b_;        // the lane's columns of row 0
  std::uint32_t place_;   // of its piece in a stage, bytes
};

/// Two cells of A, (lane / 4, lane % 4) and (lane / 4, lane % 4 + 4).
struct Cells {
  float value[2];
};

__device__ inline Cells load_cells(const View& view, std::uint64_t bitmap, std::uint32_t first,
                                   int lane) {
  Cells cells;
  for (int half = 0; half < 2; ++half)
    cells.value[half] =
        window_tile::cell(bitmap, view.values, first, lane / 4, lane % 4 + 4 * half);
  return cells;
}

/// sums += the task's TC blocks, of which there are some, times their rows of B.
template <bool kAligned, Tf32Precision kPrecision, int kGroups, int kStages, Copy kCopy,
          class WarpSums>
__device__ void multiply_staged(const Product& product, const Task& task, std::int64_t first_col,
                                int lane, float* stages, WarpSums& sums) {
  constexpr int kStageFloats = kTileCols * row_pitch(kGroups);
  const View& view = product.view;
  const RowCopier<kAligned, kGroups, kCopy> copier(product, first_col, lane);
  const auto memory = static_cast<std::uint32_t>(__cvta_generic_to_shared(stages));
  const std::uint32_t end = task.last - 1;

  auto rows = copier.rows(task.first);
#pragma unroll
  for (int stage = 0; stage < kStages - 1; ++stage) {
    if (task.first + stage < task.last) copier.copy(rows, memory + 4 * stage * kStageFloats);
    asm volatile("cp.async.commit_group;" ::: "memory");
    rows = copier.rows(min(task.first + stage + 1, end));
  }
  Cells cells = load_cells(view, window_tile::load_ahead(view.tc_local_bit + task.first),
                           window_tile::load_ahead(view.tc_offset + task.first), lane);
  std::uint64_t bitmap = window_tile::load_ahead(view.tc_local_bit + min(task.first + 1, end));
  std::uint32_t first_value = window_tile::load_ahead(view.tc_offset + min(task.first + 1, end));

  int stage = 0;
  for (std::uint32_t tile = task.first; tile < task.last; ++tile) {
    asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 2) : "memory");
    __syncwarp();  // all lanes' copies are there, and the stage before is free
    Tf32Operand<kPrecision, 2> operand;
    for (int half = 0; half < 2; ++half) operand.set(half, cells.value[half]);
    cells = load_cells(view, bitmap, first_value, lane);
    const std::uint32_t next = min(tile + 2, end);
    bitmap = window_tile::load_ahead(view.tc_local_bit + next);
    first_value = window_tile::load_ahead(view.tc_offset + next);

    const int free = stage == 0 ? kStages - 1 : stage - 1;
    if (tile + kStages - 1 < task.last) copier.copy(rows, memory + 4 * free * kStageFloats);
    asm volatile("cp.async.commit_group;" ::: "memory");
    rows = copier.rows(min(tile + kStages, end));

    const float* b = stages + stage * kStageFloats + lane % 4 * row_pitch(kGroups) + lane / 4 * 4;
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      float piece[2][4];
      for (int half = 0; half < 2; ++half) {
        const float4 loaded =
            *reinterpret_cast<const float4*>(b + 4 * half * row_pitch(kGroups) + group * kWarpCols);
        piece[half][0] = loaded.x, piece[half][1] = loaded.y;
        piece[half][2] = loaded.z, piece[half][3] = loaded.w;
      }
      sums.add(group, piece, operand);
    }
    sums.end_tile();
    stage = stage + 1 == kStages ? 0 : stage + 1;
  }
}

template <bool kAligned, Tf32Precision kPrecision, bool kPromotes, int kGroups, int kStages,
          Copy kCopy>
__global__ void __launch_bounds__(kThreads,
                                  kPrecision == Tf32Precision::kSplit || kPromotes ? 3 : 4)
    run_staged(Product product) {
  extern __shared__ __align__(16) float stages[];
  const Place place = Place::of_warp(product);
  if (place.task >= product.num_tasks) return;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const Task task = product.tasks[place.task];
  Sums<kGroups, kPromotes> sums(product.promote);
  if (task.first < task.last)
    multiply_staged<kAligned, kPrecision, kGroups, kStages, kCopy>(
        product, task, place.chunk * kGroups * kWarpCols, lane,
        stages + threadIdx.x / 32 * (kStages * kTileCols * row_pitch(kGroups)), sums);
  deliver<kAligned>(product, place, task, lane, sums.finish());
}

}  // namespace tessera::acc_spmm
