// The kernel of tessera_spmm: a warp computes a task, 32 to 128 columns wide, for itself.
//
// The loop is written for few instructions and registers: places in shared memory are hidden from
// the optimiser, which would compute them anew for every TC block.
#pragma once

#include "kernels/device/early_fetch.cuh"
#include "kernels/device/hidden.cuh"
#include "kernels/device/narrowed_sums.cuh"
#include "kernels/device/store_elements.cuh"
#include "kernels/spmm/row_windows/staged_rows.cuh"
#include "kernels/spmm/row_windows/task_multiplication.cuh"
#include "kernels/spmm/row_windows/window16_store.cuh"
#include "kernels/spmm/tessera/numbers.cuh"
#include "kernels/spmm/tessera/tessera_spmm.hpp"

namespace tessera::tessera_spmm {

using row_windows::KernelArguments;
using row_windows::TaskItem;
using window16_tile::kTileCols;
using window_tasks::Task;

__device__ inline uint4 load_shared_vector(std::uint32_t at) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(at));
  return v;
}

__device__ inline Task load_task(const Task* from) {
  const uint4 words = load_ahead(reinterpret_cast<const uint4*>(from));
  return {words.x, words.y, words.z, words.w};
}

/// A lane's elements of the TC blocks of A, loaded one TC block ahead, their bitmaps two ahead.
class ElementReader {
 public:
  __device__ ElementReader(const window_tile::View& view, const Task& task, int lane)
      : own_value_(hidden(static_cast<std::uint32_t>(kSectorFloats * lane))),
        first_value_(load_ahead(view.tc_offset + task.first)),
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
  template <class Numbers>
  __device__ typename Numbers::Operand take() {
    const typename Numbers::Operand operand = Numbers::operand(value_);
    load_values();
    load_bitmap();
    return operand;
  }

  /// Brings into the L1 what the next turns but one load: values, a sector a lane, the bitmap and
  /// the column indices of one TC block, which begin at `ids` in its first lane. Asynchronous
  /// copies of a word each do so without a register to wait for. Nobody reads what they write: the
  /// lane's word `spare` of shared memory and, in the first lane, two words at `spare_of_first`.
  __device__ void prefetch(const std::int32_t* ids, std::uint32_t spare,
                           std::uint32_t spare_of_first) const {
    if (own_value_ >= kSectorFloats * kPrefetchedSectors) return;
    if (own_value_ == 0) {
      copy_word_async(spare_of_first, bitmap_at_ + kPrefetchedBlocks);
      copy_word_async(spare_of_first + 4, ids);
    }
    copy_word_async(spare, values_ + kSectorFloats + own_value_);
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

  std::uint32_t own_value_;
  std::uint32_t first_value_;
  const float* values_;  // of the next word of a bitmap
  const uint4* bitmap_at_;
  std::uint32_t bit_;  // the lane's, in each word of a bitmap
  std::uint32_t word_[4];
  float value_[4];
};

/// Rows of B of a task, up to kStages - 1 TC blocks ahead; column indices are loaded one ahead of
/// that. A lane copies the same 16 bytes, a piece, of kCopies rows next to each other, and beyond
/// the edge of B nothing: what its columns are multiplied by is not stored.
///
/// From one TC block's arrival to the next's a warp waits for a copy, so that the instructions
/// before it count: what they need is kept in registers.
template <class Numbers, int kGroups, bool kAligned>
class RowRing {
  using Element = typename Numbers::Element;
  static constexpr int kPieceCols = Numbers::kPieceCols;
  static constexpr Ring kRing{kGroups, kPieceCols};

 public:
  static constexpr int kStages = kRing.stages();

  __device__ RowRing(const KernelArguments& arguments, const Task& task, std::int64_t first_col,
                     int lane, float* stages)
      : ids_(arguments.view.sparse_a_to_b + kCopies * (lane / kLanes) +
             std::uint64_t{task.first} * kTileCols),
        stride_(hidden(kElementBytes * static_cast<std::uint32_t>(arguments.view.n))),
        to_(hidden(shared_address(stages) + 16 * (lane % kLanes) +
                   kCopies * kPitch * (lane / kLanes))),
        fragment_(
            hidden(shared_address(stages) + kPitch * (lane % 4) + 16 * place_of_piece(lane / 4))),
        spare_(hidden(shared_address(stages) + kRowBytes + kPitch * (lane / row_windows::kRowPad) +
                      4 * (lane % row_windows::kRowPad))) {
    const std::int64_t col = first_col + kPieceCols * (lane % kLanes);
    cols_ = static_cast<int>(min(arguments.view.n - col, std::int64_t{kPieceCols}));
    b_ = hidden(static_cast<const char*>(arguments.b) + (cols_ > 0 ? kElementBytes * col : 0));
    // The column indices of the first four TC blocks at once, not one after another.
    const std::int32_t first_ids =
        load_ahead(arguments.view.sparse_a_to_b + std::uint64_t{task.first} * kTileCols + lane);
    begin_product(arguments.ends_first);
    for (int i = 0; i < kStages; ++i) {
      for (int k = 0; k < kCopies; ++k)
        id_[k] = __shfl_sync(~0u, first_ids, i * kTileCols + kCopies * (lane / kLanes) + k);
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
  /// Starts the copies of the TC block kStages - 1 behind that one, if the task has it. A group of
  /// copies that can also prefetch is still open then.
  __device__ void advance(bool exists) {
    if (exists) copy(to_ + next_);
    if constexpr (!can_prefetch(kRing)) close_group();
    load_ids();
    next_ = after(next_);
  }
  /// Prefetches A where `wanted`, and ends the group of copies. The prefetches write behind the
  /// rows of the stage that is multiplied, where those of its next turn find them complete.
  __device__ void prefetch(bool wanted, const ElementReader& elements) const {
    if (wanted)
      elements.prefetch(ids_ + (kPrefetchedBlocks - 1) * kTileCols, spare_ + next_,
                        spare_ + next_ + kPitch * (kPrefetchedSectors / row_windows::kRowPad));
    close_group();
  }
  /// Multiplies the TC block that wait() waited for, and goes on.
  __device__ void multiply(const typename Numbers::Operand& a, SumsOfPair (&sums)[2 * kGroups]) {
    // The stage that is copied next is the one that is free next.
    const std::uint32_t from = fragment_ + next_;
#pragma unroll
    for (int line = 0; line < kRing.lines(); ++line)
      Numbers::multiply(a, load_shared_vector(from + 128 * line),
                        load_shared_vector(from + 128 * line + 4 * kPitch),
                        sums + kPieceCols / 2 * line);
  }

 private:
  static constexpr int kElementBytes = 16 / kPieceCols;
  static constexpr int kLanes = 8 * kRing.lines();  // of a row
  static constexpr int kAtOnce = 32 / kLanes;
  static constexpr int kCopies = kTileCols / kAtOnce;
  static constexpr std::uint32_t kPitch = 4 * row_windows::row_pitch(kRing.lines());
  static constexpr std::uint32_t kRowBytes = kPitch - 4 * row_windows::kRowPad;
  static constexpr std::uint32_t kStageBytes = 4 * row_windows::stage_floats(kRing.lines());

  /// The stage after `stage`, both in bytes.
  __device__ static std::uint32_t after(std::uint32_t stage) {
    if constexpr (kStages == 2) return kStageBytes - stage;
    return stage == (kStages - 1) * kStageBytes ? 0 : stage + kStageBytes;
  }

  /// Loads the column indices of the next TC block; those after the task's last are not used.
  __device__ void load_ids() {
    if constexpr (kCopies == 2) {
      asm volatile("ld.global.nc.v2.s32 {%0, %1}, [%2];" : "=r"(id_[0]), "=r"(id_[1]) : "l"(ids_));
    } else {
      for (int i = 0; i < kCopies; i += 4)
        asm volatile("ld.global.nc.v4.s32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(id_[i]), "=r"(id_[i + 1]), "=r"(id_[i + 2]), "=r"(id_[i + 3])
                     : "l"(ids_ + i));
    }
    ids_ += kTileCols;
  }

  __device__ const char* row(std::int32_t id) const {
    // One instruction a row: as a product of 64 bits the compiler would add an upper half of zero.
    std::uint64_t at;
    asm("mul.wide.u32 %0, %1, %2;" : "=l"(at) : "r"(id), "r"(stride_));
    return b_ + at;
  }

  __device__ void copy(std::uint32_t to) const {
    if (kAligned && cols_ <= 0) return;
    if constexpr (!kAligned) {
      for (int i = 0; i < kCopies; ++i)
        for (int k = 0; k < kPieceCols; ++k)
          copy_element(to + i * kPitch + kElementBytes * k, i, k);
    } else if (kCopies == 2 || id_[kCopies - 1] < 0) {
      // Padding is at the end of a TC block, and most have none; of two rows a branch costs more.
      for (int i = 0; i < kCopies; ++i)
        copy_async<16>(to + i * kPitch, row(max(id_[i], 0)), id_[i] >= 0);
    } else {
#pragma unroll
      for (int i = 0; i < kCopies; ++i)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + i * kPitch),
                     "l"(row(id_[i]))
                     : "memory");
    }
  }

  /// Copies element k of the lane's piece of copy i; none but of four bytes are asynchronous.
  __device__ void copy_element(std::uint32_t to, int i, int k) const {
    const bool real = id_[i] >= 0 && k < cols_;
    const char* from = real ? row(id_[i]) + kElementBytes * k : b_;
    if constexpr (kElementBytes == 4) {
      copy_async<4, CopyCache::kL1>(to, from, real);
    } else {
      const std::uint16_t value = real ? *reinterpret_cast<const std::uint16_t*>(from) : 0;
      asm volatile("st.shared.u16 [%0], %1;" ::"r"(to), "h"(value) : "memory");
    }
  }

  const std::int32_t* ids_;      // of the next TC block whose column indices are loaded
  std::uint32_t stride_;         // of B, in bytes
  std::uint32_t to_, fragment_;  // of the lane in the first stage
  std::uint32_t spare_;          // of the lane behind a row of the first stage
  std::uint32_t next_ = 0;       // the stage that is copied next, from the first, in bytes
  int cols_;                     // the number of the piece's columns within B, or less
  const char* b_;
  std::int32_t id_[kCopies];
};

/// Writes the sums of a piece to C, the first `cols` of them.
template <class Numbers, bool kAligned>
__device__ void store_piece(const KernelArguments& arguments, bool c_in_16_bits, std::int64_t at,
                            const float (&sums)[Numbers::kPieceCols], int cols,
                            const Scaling& scaling) {
  if constexpr (Numbers::kPieceCols == 8) {
    if (c_in_16_bits)
      return store_8_halves<typename Numbers::Element, kAligned>(
          static_cast<std::uint16_t*>(arguments.c) + at, sums, cols, scaling);
  }
#pragma unroll
  for (int i = 0; i < Numbers::kPieceCols; i += 4)
    store_16_bytes<kAligned>(arguments.c_fp32() + at + i,
                             {sums[i], sums[i + 1], sums[i + 2], sums[i + 3]}, cols - i, scaling,
                             Store::kStreaming);
}

/// Writes a lane's sums of a window to C; two pieces of each row and line of B are 64 bytes of four
/// lanes, where C has B's type.
template <class Numbers, int kGroups, bool kAligned>
__device__ void store_sums(const KernelArguments& arguments, bool c_in_16_bits,
                           std::uint32_t window, std::int64_t first_col, int lane,
                           const Scaling& scaling, const SumsOfPair (&sums)[2 * kGroups]) {
  constexpr int kPieceCols = Numbers::kPieceCols;
  const auto cols = static_cast<int>(min(arguments.view.n - first_col, std::int64_t{1} << 20));
#pragma unroll
  for (int upper = 0; upper < 2; ++upper) {
    const std::int64_t row =
        std::int64_t{window} * window16_tile::kWindowRows + lane / 4 + 8 * upper;
    if (row >= arguments.view.rows) return;
    const std::int64_t place = arguments.places == nullptr ? row : arguments.places[row];
    const std::int64_t to = place * arguments.view.n + first_col;
    [[maybe_unused]] const float row_scale =
        Numbers::kScales ? scale_of_row(arguments.narrowing, row) : 1;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int piece = kPieceCols * place_of_piece(2 * (lane % 4) + i);
#pragma unroll
      for (int line = 0; line < Ring{kGroups, kPieceCols}.lines(); ++line) {
        const int col = piece + 8 * kPieceCols * line;
        float of_piece[kPieceCols];
        for (int j = 0; j < kPieceCols; ++j)
          of_piece[j] = sums[kPieceCols / 2 * line + j / 2][j % 2][2 * upper + i];
        if constexpr (Numbers::kScales)
          scale_sums<kAligned>(arguments.narrowing, row_scale, first_col + col, cols - col,
                               of_piece);
        store_piece<Numbers, kAligned>(arguments, c_in_16_bits, to + col, of_piece, cols - col,
                                       scaling);
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

/// Combines the sums of a team of `team` tasks of a window, the first of them in warp `first`: the
/// others write their sums to their parts of shared memory, and the first adds them in the order of
/// the tasks. Returns true for that one, whose `sums` are then the team's.
template <int kGroups>
__device__ bool combine_team(std::uint32_t team, int first, int warp, int lane, float* memory,
                             int ring_floats, SumsOfPair (&sums)[2 * kGroups]) {
  constexpr int kVectors = 4 * kGroups;
  const auto slot = [&](int of_warp) {
    return reinterpret_cast<float4*>(memory + of_warp * ring_floats) + lane;
  };
  if (warp != first) {
    __syncwarp();  // all lanes have read the rows of B
    for (int i = 0; i < kVectors; ++i) slot(warp)[32 * i] = window_tile::row_of(sums[i / 2], i % 2);
  }
  synchronize_team(team, first);
  if (warp != first) return false;
#pragma unroll 1
  for (std::uint32_t part = 1; part < team; ++part) {
    const float4* other = slot(first + static_cast<int>(part));
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const float4 next = other[32 * i];
      sums[i / 2][0][i % 2] += next.x, sums[i / 2][0][2 + i % 2] += next.y;
      sums[i / 2][1][i % 2] += next.z, sums[i / 2][1][2 + i % 2] += next.w;
    }
  }
  return true;
}

/// The windows of a task, one after another: one, of which the task may be a part, or several.
class Windows {
 public:
  __device__ Windows(const window_tile::View& view, const Task& task)
      : window_(task.window),
        left_(task.windows()),
        end_(task.is_joined() ? load_ahead(view.row_window_offset + window_ + 1) : task.last) {}

  __device__ std::uint32_t window() const { return window_; }
  /// The first TC block behind the window, or behind the part of it.
  __device__ std::uint32_t end() const { return end_; }
  __device__ bool is_last() const { return left_ == 1; }
  /// Goes to the next window.
  __device__ void advance(const window_tile::View& view) {
    --left_, ++window_;
    end_ = load_ahead(view.row_window_offset + window_ + 1);
  }

 private:
  std::uint32_t window_, left_, end_;
};

template <class Numbers, int kGroups, bool kAligned>
__global__ void __launch_bounds__(32 * row_windows::kWarps,
                                  resident_warps(kGroups) / row_windows::kWarps)
    run(KernelArguments arguments, bool c_in_16_bits, bool prefetch) {
  extern __shared__ __align__(32) float memory[];
  row_windows::Schedule schedule = schedule_of(kGroups);
  schedule.chunks_at_once = arguments.chunks_at_once;
  constexpr int kRingFloats = Ring{kGroups, Numbers::kPieceCols}.floats();
  using Rows = RowRing<Numbers, kGroups, kAligned>;
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  const row_windows::WorkItem item =
      schedule.item_of(blockIdx.x, static_cast<std::uint32_t>(warp), arguments.num_shares);
  // First, since what follows takes less time. A warp without a task loads the last one.
  const Task task = load_task(arguments.tasks + min(item.share, arguments.num_shares - 1));
  fetch_early(arguments.early, blockIdx.x);
  if (item.share >= arguments.num_shares) return;
  // Products of 16 bits are narrowed ones or always run.
  if constexpr (Numbers::kScales || Numbers::kPieceCols == 4)
    if (!is_to_run(arguments.narrowing)) return;
  const std::int64_t first_col = schedule.first_col(item.chunk);
  const auto store = [&](std::uint32_t window, std::int64_t col, int own_lane,
                         const SumsOfPair(&sums)[2 * kGroups]) {
    const Scaling without_c{arguments.scaling.alpha, 0};
    if (arguments.scaling.beta == 0)
      store_sums<Numbers, kGroups, kAligned>(arguments, c_in_16_bits, window, col, own_lane,
                                             without_c, sums);
    else
      store_sums<Numbers, kGroups, kAligned>(arguments, c_in_16_bits, window, col, own_lane,
                                             arguments.scaling, sums);
  };
  ElementReader elements(arguments.view, task, lane);
  Rows rows(arguments, task, first_col, lane, memory + warp * kRingFloats);
  Windows windows(arguments.view, task);
  elements.start();
  SumsOfPair sums[2 * kGroups] = {};
  std::uint32_t tile = task.first;
#pragma unroll 1
  for (;;) {
#pragma unroll 1
    for (; tile < windows.end(); ++tile) {
      rows.wait();
      rows.advance(tile + Rows::kStages - 1 < task.last);
      const auto a = elements.template take<Numbers>();
      // The compiler moves no load behind a branch or a synchronisation: it would begin the loads
      // of A after the first MMAs, too late for the next turn. With 32 columns that costs more.
      if constexpr (can_prefetch({kGroups, Numbers::kPieceCols}))
        rows.prefetch(prefetch, elements);
      else if constexpr (kGroups > 1)
        __syncwarp();
      rows.multiply(a, sums);
    }
    if (windows.is_last()) break;
    // Hidden, so that what the store needs is computed here, and not kept through the loop.
    store(hidden(windows.window()), schedule.first_col(hidden(item.chunk)), hidden(lane), sums);
    for (SumsOfPair& pair : sums)
      for (auto& of_mma : pair)
        for (float& sum : of_mma) sum = 0;
    windows.advance(arguments.view);
  }
  if (task.is_part()) {
    if constexpr (Numbers::kPieceCols == 4) {
      if (arguments.atomic)
        return window16_tile::store_task<4, kAligned>(arguments, {item.share, item.chunk}, task,
                                                      first_col, lane, sums);
    }
    const window_tasks::Split split = arguments.split_windows.splits[task.split - 1];
    const std::uint32_t team = min(split.parts, std::uint32_t{row_windows::kWarps});
    const std::uint32_t part = item.share - split.first_task;
    const int first = warp - static_cast<int>(part % team);
    wait_groups<0>();  // for prefetches, which write where the sums will be
    if (!combine_team<kGroups>(team, first, warp, lane, memory, kRingFloats, sums)) return;
    if (split.parts > team &&
        !row_windows::combine_split_window(
            arguments, {.split = task.split - 1, .part = part / team, .parts = split.parts / team},
            item.chunk, lane, sums))
      return;
  }
  store(windows.window(), first_col, lane, sums);
}

using Kernel = row_windows::TaskKernel<bool, bool>;

/// The kernel for warps of `groups` groups of 32 columns; with elements of 16 bits, of two or four.
template <class Numbers>
Kernel kernel_of(int groups, bool aligned) {
  if constexpr (Numbers::kPieceCols == 4) {
    if (groups == 1) return aligned ? run<Numbers, 1, true> : run<Numbers, 1, false>;
  }
  if (groups == 2) return aligned ? run<Numbers, 2, true> : run<Numbers, 2, false>;
  return aligned ? run<Numbers, 4, true> : run<Numbers, 4, false>;
}

}  // namespace tessera::tessera_spmm
