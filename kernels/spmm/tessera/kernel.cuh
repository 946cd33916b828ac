// The kernel of tessera_spmm: a warp computes a task, 32 to 128 columns wide, for itself.
//
// The loop is written for few instructions and registers: places in shared memory are hidden from
// the optimiser, which would compute them anew for every TC block.
#pragma once

#include "kernels/device/hidden.cuh"
#include "kernels/spmm/row_windows/staged_rows.cuh"
#include "kernels/spmm/row_windows/task_multiplication.cuh"
#include "kernels/spmm/row_windows/window16_store.cuh"
#include "kernels/spmm/tessera/tessera_spmm.hpp"

namespace tessera::tessera_spmm {

using row_windows::KernelArguments;
using row_windows::TaskItem;
using window16_tile::kTileCols;
using window_tasks::Task;

__device__ inline float4 load_shared_vector(std::uint32_t at) {
  float4 v;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "r"(at));
  return v;
}

/// A lane's elements of the TC blocks of A, loaded one TC block ahead, their bitmaps two ahead.
class ElementReader {
 public:
  __device__ ElementReader(const window_tile::View& view, const Task& task, int lane)
      : first_value_(load_ahead(view.tc_offset + task.first)),
        values_(view.values),
        bitmap_at_(view.bitmaps + task.first),
        bit_(hidden(1u << lane)) {
    load_bitmap();
  }
  /// Loads the elements of the first TC block: apart from the constructor, so that the copies of
  /// rows of B do not wait for its bitmap.
  __device__ void start() {
    values_ += first_value_;
    load_values();
    load_bitmap();
  }

  /// The elements (g, t), (g + 8, t), (g, t + 4) and (g + 8, t + 4) of the next TC block, for lane
  /// 4g + t.
  template <Tf32Precision kPrecision>
  __device__ Tf32Operand<kPrecision, 4> take() {
    Tf32Operand<kPrecision, 4> operand;
    for (int i = 0; i < 4; ++i) operand.set(i, value_[i]);
    load_values();
    load_bitmap();
    return operand;
  }

 private:
  /// Loads the bitmap of the next TC block; those after the task's last are loaded and not used.
  __device__ void load_bitmap() {
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(word_[0]), "=r"(word_[1]), "=r"(word_[2]), "=r"(word_[3])
                 : "l"(bitmap_at_));
    ++bitmap_at_;
  }

  /// Loads the elements of the TC block of the last bitmap.
  __device__ void load_values() {
    for (int i = 0; i < 4; ++i) {
      value_[i] = 0;
      if ((word_[i] & bit_) != 0)
        asm volatile("ld.global.f32 %0, [%1];"
                     : "=f"(value_[i])
                     : "l"(values_ + __popc(word_[i] & (bit_ - 1))));
      values_ += __popc(word_[i]);
    }
  }

  std::uint32_t first_value_;
  const float* values_;  // of the next word of a bitmap
  const uint4* bitmap_at_;
  std::uint32_t bit_;  // the lane's, in each word of a bitmap
  std::uint32_t word_[4];
  float value_[4];
};

/// Rows of B of a task, up to kStages - 1 TC blocks ahead; column indices are loaded one ahead of
/// that. A lane copies the same 16 bytes of every kAtOnce-th row; beyond the edge of B it copies
/// the first columns, whose products are not stored.
///
/// From one TC block's arrival to the next's a warp waits for a copy, so that the instructions
/// before it count: what they need is kept in registers.
template <int kGroups, bool kAligned>
class RowRing {
 public:
  static constexpr int kStages = stages_of(kGroups);

  __device__ RowRing(const KernelArguments& arguments, const Task& task, std::int64_t first_col,
                     int lane, float* stages)
      : ids_(arguments.view.sparse_a_to_b + lane / kLanes + std::uint64_t{task.first} * kTileCols),
        stride_(hidden(4 * static_cast<std::uint32_t>(arguments.view.n))),
        to_(hidden(shared_address(stages) + 16 * (lane % kLanes) + kPitch * (lane / kLanes))),
        fragment_(
            hidden(shared_address(stages) + kPitch * (lane % 4) + 16 * place_of_piece(lane / 4))) {
    const std::int64_t col = first_col + 4 * (lane % kLanes);
    cols_ = static_cast<int>(min(arguments.view.n - col, std::int64_t{4}));
    b_ = hidden(reinterpret_cast<const char*>(arguments.b_fp32() + (cols_ > 0 ? col : 0)));
    // The column indices of the first four TC blocks at once, not one after another.
    const std::int32_t first_ids =
        load_ahead(arguments.view.sparse_a_to_b + std::uint64_t{task.first} * kTileCols + lane);
    for (int i = 0; i < kStages; ++i) {
      for (int k = 0; k < kCopies; ++k)
        id_[k] = __shfl_sync(~0u, first_ids, i * kTileCols + k * kAtOnce + lane / kLanes);
      if (i + 1 == kStages) break;
      if (task.first + i < task.last) copy(to_ + next_);
      close_group();
      next_ = after(next_);
    }
    ids_ += kStages * kTileCols;
  }

  /// Waits for the copies of the next TC block. All lanes call it.
  __device__ void wait() const {
    wait_groups<kStages - 2>();
    __syncwarp();  // all lanes' copies are complete, and the stage before is free
  }
  /// Starts the copies of the TC block kStages - 1 behind that one, if the task has it.
  __device__ void advance(bool exists) {
    if (exists) copy(to_ + next_);
    close_group();
    load_ids();
    next_ = after(next_);
  }
  /// Multiplies the TC block that wait() waited for, and goes on.
  template <Tf32Precision kPrecision>
  __device__ void multiply(const Tf32Operand<kPrecision, 4>& a, float (&sums)[2 * kGroups][2][4]) {
    const std::uint32_t from = fragment_ + current_;
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      const float4 low = load_shared_vector(from + 128 * group);
      const float4 high = load_shared_vector(from + 128 * group + 4 * kPitch);
      const float each[2][4] = {{low.x, low.y, low.z, low.w}, {high.x, high.y, high.z, high.w}};
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        Tf32Operand<kPrecision, 2> columns;
        for (int half = 0; half < 2; ++half) columns.set(half, each[half][j]);
        mma_m16n8<kPrecision, 8>(sums[2 * group + j / 2][j % 2], a, columns);
      }
    }
    current_ = after(current_);
  }

 private:
  static constexpr int kLanes = 8 * kGroups;  // of a row
  static constexpr int kAtOnce = 32 / kLanes;
  static constexpr int kCopies = kTileCols / kAtOnce;
  static constexpr std::uint32_t kPitch = 4 * row_windows::row_pitch(kGroups);
  static constexpr std::uint32_t kStageBytes = 4 * row_windows::stage_floats(kGroups);

  /// The stage after `stage`, both in bytes.
  __device__ static std::uint32_t after(std::uint32_t stage) {
    if constexpr (kStages == 2) return kStageBytes - stage;
    return stage == (kStages - 1) * kStageBytes ? 0 : stage + kStageBytes;
  }

  /// Loads the column indices of the next TC block; those after the task's last are not used.
  __device__ void load_ids() {
    if constexpr (kAtOnce == 1) {
      for (int i = 0; i < kTileCols; i += 4)
        asm volatile("ld.global.nc.v4.s32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(id_[i]), "=r"(id_[i + 1]), "=r"(id_[i + 2]), "=r"(id_[i + 3])
                     : "l"(ids_ + i));
    } else {
      for (int i = 0; i < kCopies; ++i) id_[i] = load_ahead(ids_ + i * kAtOnce);
    }
    ids_ += kTileCols;
  }

  __device__ const char* row(std::int32_t id) const {
    return b_ + std::uint64_t{static_cast<std::uint32_t>(id)} * stride_;
  }

  __device__ void copy(std::uint32_t to) const {
    if constexpr (!kAligned) {
      for (int i = 0; i < kCopies; ++i)
        for (int k = 0; k < 4; ++k) {
          const bool real = id_[i] >= 0 && k < cols_;
          copy_async<4, CopyCache::kL1>(to + i * kAtOnce * kPitch + 4 * k,
                                        real ? row(id_[i]) + 4 * k : b_, real);
        }
    } else if (kAtOnce > 1 || id_[kCopies - 1] < 0) {
      // Padding is at the end of a TC block, and most have none; with one row a copy, all lanes
      // have the same column indices.
      for (int i = 0; i < kCopies; ++i)
        copy_async<16>(to + i * kAtOnce * kPitch, row(max(id_[i], 0)), id_[i] >= 0);
    } else {
#pragma unroll
      for (int i = 0; i < kCopies; ++i)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + i * kAtOnce * kPitch),
                     "l"(row(id_[i]))
                     : "memory");
    }
  }

  const std::int32_t* ids_;      // of the next TC block whose column indices are loaded
  std::uint32_t stride_;         // of B, in bytes
  std::uint32_t to_, fragment_;  // of the lane in the first stage
  std::uint32_t next_ = 0;       // the stage that is copied next, from the first
  std::uint32_t current_ = 0;    // the stage that is multiplied next
  int cols_;                     // the number of the lane's four columns within B, or less
  const char* b_;
  std::int32_t id_[kCopies];
};

/// Writes a lane's sums of a task to C; two vectors of each row and group are 64 bytes of four
/// lanes.
template <int kGroups, bool kAligned>
__device__ void store_sums(const KernelArguments& arguments, const Task& task,
                           std::int64_t first_col, int lane, const Scaling& scaling,
                           const float (&sums)[2 * kGroups][2][4]) {
  const auto cols = static_cast<int>(min(arguments.view.n - first_col, std::int64_t{1} << 20));
#pragma unroll
  for (int upper = 0; upper < 2; ++upper) {
    const std::int64_t row =
        std::int64_t{task.window} * window16_tile::kWindowRows + lane / 4 + 8 * upper;
    if (row >= arguments.view.rows) return;
    float* to = arguments.c_fp32() + row * arguments.view.n + first_col;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int piece = 4 * place_of_piece(2 * (lane % 4) + i);
#pragma unroll
      for (int group = 0; group < kGroups; ++group) {
        const auto sum = [&](int j) { return sums[2 * group + j / 2][j % 2][2 * upper + i]; };
        store_16_bytes<kAligned>(to + piece + 32 * group, {sum(0), sum(1), sum(2), sum(3)},
                                 cols - piece - 32 * group, scaling, Store::kStreaming);
      }
    }
  }
}

/// Waits for the warps of a team of two or four. The numbers of barriers are constants: of a number
/// in a register the compiler reserves all 16 of a thread block.
__device__ inline void synchronize_team(std::uint32_t team, int first) {
  if (team == 4)
    __syncthreads();
  else if (first == 0)
    asm volatile("bar.sync 1, 64;" ::: "memory");
  else
    asm volatile("bar.sync 2, 64;" ::: "memory");
}

/// Combines the sums of a team of `team` tasks of a window, the first of them in warp `first`: each
/// warp writes its sums to its own part of shared memory, and the first adds them in the order of
/// the tasks. Returns true for that one, whose `sums` are then the team's.
template <int kGroups>
__device__ bool combine_team(std::uint32_t team, int first, int warp, int lane, float* memory,
                             float (&sums)[2 * kGroups][2][4]) {
  constexpr int kVectors = 4 * kGroups;
  const auto slot = [&](int of_warp) {
    return reinterpret_cast<float4*>(memory + of_warp * ring_floats(kGroups)) + lane;
  };
  __syncwarp();  // all lanes have read the rows of B
  for (int i = 0; i < kVectors; ++i) slot(warp)[32 * i] = window_tile::row_of(sums[i / 2], i % 2);
  synchronize_team(team, first);
  if (warp != first) return false;
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    float4 sum = slot(first)[32 * i];
    for (std::uint32_t part = 1; part < team; ++part) {
      const float4 next = slot(first + static_cast<int>(part))[32 * i];
      sum.x += next.x, sum.y += next.y, sum.z += next.z, sum.w += next.w;
    }
    sums[i / 2][0][i % 2] = sum.x, sums[i / 2][0][2 + i % 2] = sum.y;
    sums[i / 2][1][i % 2] = sum.z, sums[i / 2][1][2 + i % 2] = sum.w;
  }
  return true;
}

template <Tf32Precision kPrecision, int kGroups, bool kAligned>
__global__ void __launch_bounds__(32 * row_windows::kWarps,
                                  resident_warps(kGroups) / row_windows::kWarps)
    run(KernelArguments arguments) {
  extern __shared__ __align__(32) float memory[];
  constexpr row_windows::Schedule kSchedule = schedule_of(kGroups);
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  const row_windows::WorkItem item =
      kSchedule.item_of(blockIdx.x, static_cast<std::uint32_t>(warp), arguments.num_shares);
  if (item.share >= arguments.num_shares) return;
  const Task task = arguments.tasks[item.share];
  const std::int64_t first_col = kSchedule.first_col(item.chunk);
  float sums[2 * kGroups][2][4] = {};
  if (task.first < task.last) {
    ElementReader elements(arguments.view, task, lane);
    RowRing<kGroups, kAligned> rows(arguments, task, first_col, lane,
                                    memory + warp * ring_floats(kGroups));
    elements.start();
#pragma unroll 1
    for (std::uint32_t tile = task.first; tile < task.last; ++tile) {
      rows.wait();
      rows.advance(tile + RowRing<kGroups, kAligned>::kStages - 1 < task.last);
      const auto a = elements.template take<kPrecision>();
      rows.template multiply<kPrecision>(a, sums);
    }
  }
  const TaskItem task_item{item.share, item.chunk};
  if (task.split != 0 && arguments.atomic)
    return window16_tile::store_task<4, kAligned>(arguments, task_item, task, first_col, lane,
                                                  sums);
  if (task.split != 0) {
    const window_tasks::Split split = arguments.split_windows.splits[task.split - 1];
    const std::uint32_t team = min(split.parts, std::uint32_t{row_windows::kWarps});
    const std::uint32_t part = item.share - split.first_task;
    const int first = warp - static_cast<int>(part % team);
    if (!combine_team<kGroups>(team, first, warp, lane, memory, sums)) return;
    if (split.parts > team &&
        !row_windows::combine_split_window(
            arguments, {.split = task.split - 1, .part = part / team, .parts = split.parts / team},
            item.chunk, lane, sums))
      return;
  }
  if (arguments.scaling.beta == 0)
    store_sums<kGroups, kAligned>(arguments, task, first_col, lane,
                                  Scaling{arguments.scaling.alpha, 0}, sums);
  else
    store_sums<kGroups, kAligned>(arguments, task, first_col, lane, arguments.scaling, sums);
}

/// The kernel with this precision.
template <Tf32Precision kPrecision>
row_windows::TaskKernel<> kernel_of(int groups, bool aligned) {
  if (groups == 1) return aligned ? run<kPrecision, 1, true> : run<kPrecision, 1, false>;
  if (groups == 2) return aligned ? run<kPrecision, 2, true> : run<kPrecision, 2, false>;
  return aligned ? run<kPrecision, 4, true> : run<kPrecision, 4, false>;
}

}  // namespace tessera::tessera_spmm
