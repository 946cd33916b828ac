// acc_spmm's double-buffered pipelines, those of the papers: rows of B are loaded to the registers
// of the lanes that multiply them, 32 columns a warp; TC blocks of A and their column indices are
// copied to two buffers in shared memory asynchronously.
//
// least_bubble (Acc-SpMM, algorithm 2): rows of B are loaded one TC block ahead, so that these
// loads and the copies overlap with MMAs. dtc (Acc-SpMM, figure 5a): rows of B are loaded when they
// are multiplied, and the MMAs wait for them; only the copies are ahead. The two have no other
// difference.
//
// Scope::kBlock is that of the papers: four warps next to each other in C share the buffers and
// wait for each other, once a TC block; two of them decode its bitmap (section 3.3), another copies
// the column indices. In Scope::kWarp each warp has buffers and copies of its own and waits for no
// other.
//
// Departures: algorithm 2 as printed copies the column indices of TC block i + 1 over those of i,
// which it has not read; here they go to the other buffer, after a barrier that the algorithm
// lacks. In Scope::kWarp the compiler (CUDA 13.0) puts the wait for the copies before the MMAs of
// the same step, whose issue takes a few cycles.
#pragma once

#include "kernels/spmm/acc_spmm/nonzero_reader.cuh"

namespace tessera::acc_spmm {

/// A lane's fragment of a TC block's rows of B: columns 4g to 4g + 3 of two rows.
struct FragmentB {
  float b[2][4];
};

/// Loads four columns of a row of B at `from`, of which B has `cols`; zeros beyond.
template <bool kAligned, Cache kCache>
__device__ void load_b(const float* from, int cols, float (&out)[4]) {
  for (float& value : out) value = 0;
  if constexpr (!kAligned) {
    for (int i = 0; i < 4; ++i)
      if (i < cols) out[i] = from[i];
  } else if constexpr (kCache == Cache::kDefault) {
    asm volatile(
        "{\n\t.reg .pred real;\n\tsetp.ne.s32 real, %5, 0;\n\t"
        "@real ld.global.v4.f32 {%0, %1, %2, %3}, [%4];\n\t}"
        : "+f"(out[0]), "+f"(out[1]), "+f"(out[2]), "+f"(out[3])
        : "l"(from), "r"(static_cast<int>(cols > 0)));
  } else if constexpr (kCache == Cache::kL1) {
    asm volatile(
        "{\n\t.reg .pred real;\n\tsetp.ne.s32 real, %5, 0;\n\t"
        "@real ld.global.ca.v4.f32 {%0, %1, %2, %3}, [%4];\n\t}"
        : "+f"(out[0]), "+f"(out[1]), "+f"(out[2]), "+f"(out[3])
        : "l"(from), "r"(static_cast<int>(cols > 0)));
  } else {
    asm volatile(
        "{\n\t.reg .pred real;\n\tsetp.ne.s32 real, %5, 0;\n\t"
        "@real ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];\n\t}"
        : "+f"(out[0]), "+f"(out[1]), "+f"(out[2]), "+f"(out[3])
        : "l"(from), "r"(static_cast<int>(cols > 0)));
  }
}

/// A warp's loads, copies and MMAs for a task, of which its team shares those of A.
template <class V>
class Warp {
  static constexpr Scope kScope = V::kVariant.scope;
  static constexpr NonzeroEncoding kEncoding = V::kVariant.encoding;
  static constexpr int kTeam = team_of(kScope);
  static constexpr int kDecoders = decoding_warps(kScope, kEncoding);

 public:
  __device__ Warp(const KernelArguments& arguments, const Task& task, std::int64_t first_col,
                  int lane, Buffers& buffers)
      : last_(task.last),
        lane_(lane),
        row_ids_(arguments.view.sparse_a_to_b + 4 * lane),
        stride_(static_cast<std::uint32_t>(arguments.view.n)),
        warp_(kTeam == 1 ? 0 : static_cast<int>(threadIdx.x / 32)),
        buffers_(buffers),
        reader_(arguments, task, kDecoders == 1 ? lane : static_cast<int>(threadIdx.x)) {
    const std::int64_t col = first_col + lane / 4 * 4;
    cols_ = static_cast<int>(min(max(arguments.view.n - col, std::int64_t{0}), std::int64_t{4}));
    b_ = arguments.b_fp32() + (cols_ > 0 ? col : 0);
  }

  /// Copies the reader's TC block to buffer `to`.
  __device__ void copy_tile(int to) {
    if (warp_ >= kDecoders) return;
    reader_.copy(buffers_.tiles[to]);
    reader_.advance();
  }
  __device__ void copy_row_ids(std::uint32_t tile, int to) const {
    if (tile < last_ && lane_ < 2 && warp_ == index_warp(kScope))
      copy_async<16, kIndexCache>(shared_address(&buffers_.rows[to][4 * lane_]),
                                  row_ids_ + std::uint64_t{tile} * kTileCols, true);
  }
  /// Waits for all copies, and until all of the team have read the other buffer.
  __device__ static void synchronize() {
    asm volatile("cp.async.commit_group;\n\tcp.async.wait_group 0;" ::: "memory");
    synchronize_team();
  }
  __device__ static void synchronize_team() { row_windows::synchronize_team<kTeam>(); }
  /// The same at the end of a step; a team's last step needs none.
  __device__ void end_step(std::uint32_t tile) const {
    if (kTeam == 1 || tile + 1 < last_) synchronize();
  }

  __device__ FragmentB load_rows(int from) const {
    FragmentB rows;
    for (int half = 0; half < 2; ++half) {
      const std::int32_t row = buffers_.rows[from][lane_ % 4 + 4 * half];
      load_b<V::kVariant.aligned, V::kVariant.cache>(
          b_ + std::uint64_t{static_cast<std::uint32_t>(max(row, 0))} * stride_,
          row >= 0 ? cols_ : 0, rows.b[half]);
    }
    return rows;
  }

  template <class WarpSums>
  __device__ void multiply(const FragmentB& rows, int from, WarpSums& sums) const {
    const FragmentA fragment = read_fragment(buffers_.tiles[from], lane_);
    Tf32Operand<Tf32Precision::kRounded, 2> tile;
    for (int half = 0; half < 2; ++half) tile.set(half, fragment.value[half]);
    sums.add(0, rows.b, tile);
    sums.end_tile();
  }

 private:
  static constexpr CopyCache kIndexCache =
      V::kVariant.cache == Cache::kDefault ? CopyCache::kL2 : CopyCache::kL1;

  std::uint32_t last_;  // the end of the task's TC blocks
  int lane_;
  const std::int32_t* row_ids_;  // the lane's four of TC block 0
  std::uint32_t stride_;         // of B, in elements
  int cols_;                     // the number of the lane's four columns within B
  const float* b_;               // the lane's columns of row 0
  int warp_;                     // of the team
  Buffers& buffers_;
  NonzeroReader<kEncoding, 32 * kDecoders> reader_;
};

/// Figure 5a: load rows of B, copy the next TC block, multiply, synchronise.
template <class AnyWarp, class WarpSums>
__device__ void multiply_when_loaded(AnyWarp& warp, const Task& task, WarpSums& sums) {
  warp.copy_tile(0);
  warp.copy_row_ids(task.first, 0);
  warp.synchronize();
#pragma unroll 1
  for (std::uint32_t tile = task.first; tile < task.last; ++tile) {
    const int now = static_cast<int>(tile - task.first) % 2;
    const FragmentB rows = warp.load_rows(now);
    if (tile + 1 < task.last) warp.copy_tile(1 - now);
    warp.copy_row_ids(tile + 1, 1 - now);
    warp.multiply(rows, now, sums);
    warp.end_step(tile);
  }
}

/// Algorithm 2: load the next TC block's rows of B, copy the rest of it, multiply, synchronise.
template <class AnyWarp, class WarpSums>
__device__ void multiply_ahead(AnyWarp& warp, const Task& task, WarpSums& sums) {
  warp.copy_tile(0);
  warp.copy_row_ids(task.first, 0);
  warp.copy_row_ids(task.first + 1, 1);
  warp.synchronize();
  FragmentB rows[2];
  rows[0] = warp.load_rows(0);
  warp.synchronize_team();  // the columns of buffer 0 have been read
  const auto step = [&](std::uint32_t tile, auto even) {
    constexpr int kNow = even ? 0 : 1;
    if (tile + 1 < task.last) {
      rows[1 - kNow] = warp.load_rows(1 - kNow);
      warp.copy_tile(1 - kNow);
    }
    warp.copy_row_ids(tile + 2, kNow);
    warp.multiply(rows[kNow], kNow, sums);
    warp.end_step(tile);
  };
  // Two TC blocks at a time, because registers cannot be indexed.
#pragma unroll 1
  for (std::uint32_t tile = task.first; tile < task.last; tile += 2) {
    step(tile, std::true_type{});
    if (tile + 1 < task.last) step(tile + 1, std::false_type{});
  }
}

template <class V>
__global__ void __launch_bounds__(V::schedule().threads(), 7)
    run_buffered(KernelArguments arguments) {
  constexpr row_windows::Schedule kSchedule = V::schedule();
  __shared__ alignas(16) Buffers buffers[kSchedule.teams()];
  const int lane = static_cast<int>(threadIdx.x % 32);
  const auto run = [&](const TaskItem& item, const Task& task) {
    const std::int64_t first_col = kSchedule.first_col(item.chunk);
    Accumulators<1, false> sums(arguments.promote);
    if (task.first < task.last) {
      Warp<V> warp(arguments, task, first_col, lane,
                   buffers[kSchedule.team == 1 ? threadIdx.x / 32 : 0]);
      if constexpr (V::kVariant.pipeline == Pipeline::kDtc)
        multiply_when_loaded(warp, task, sums);
      else
        multiply_ahead(warp, task, sums);
    }
    if (kSchedule.team == 1 || first_col < arguments.view.n)
      store_task<V>(arguments, item, task, lane, sums.finish());
  };
  row_windows::for_each_task<V, V::kVariant.equal_shares>(arguments, run);
}

}  // namespace tessera::acc_spmm
