// acc_spmm's double-buffered pipelines, those of the papers: rows of B come straight to the
// registers of the lanes that multiply them, 32 columns a warp; TC blocks of A, and the columns
// that they stand for, come to two buffers in shared memory by asynchronous copies.
//
// least_bubble (Acc-SpMM, algorithm 2): rows of B are loaded a TC block ahead, so that they and the
// copies are on their way while MMAs run. dtc (Acc-SpMM, figure 5a): rows of B are
// loaded when they are multiplied, and the MMAs wait for them; only the copies are ahead. Nothing
// else tells the two apart. Departures: a warp has buffers of its own, so that where the papers
// synchronise a thread block, here a warp meets; the compiler (CUDA 13.0) puts the wait for the
// copies before the MMAs of the same step, whose issue takes a few cycles.
#pragma once

#include "kernels/spmm/acc_spmm/cells.cuh"

namespace tessera::acc_spmm {

/// A lane's share of a TC block's rows of B: columns 4g to 4g + 3 of two rows.
struct Rows {
  float b[2][4];
};

/// Four columns of a row of B from `from` on, `cols` of which there are; zeros beyond.
template <bool kAligned, CopyCache kCache>
__device__ void load_b(const float* from, int cols, float (&out)[4]) {
  for (float& value : out) value = 0;
  if constexpr (!kAligned) {
    for (int i = 0; i < 4; ++i)
      if (i < cols) out[i] = from[i];
  } else if constexpr (kCache == CopyCache::kL1) {
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

/// A warp's loads, copies and MMAs for a task.
template <bool kAligned, NonzeroEncoding kEncoding, CopyCache kCache>
class Warp {
 public:
  __device__ Warp(const KernelArguments& product, const Task& task, std::int64_t first_col,
                  int lane, Buffers& buffers)
      : last_(task.last),
        lane_(lane),
        row_ids_(product.view.sparse_a_to_b + 4 * lane),
        stride_(static_cast<std::uint32_t>(product.view.n)),
        buffers_(buffers),
        places_(product, task, lane) {
    const std::int64_t col = first_col + lane / 4 * 4;
    cols_ = static_cast<int>(min(max(product.view.n - col, std::int64_t{0}), std::int64_t{4}));
    b_ = product.b + (cols_ > 0 ? col : 0);
  }

  /// The TC block that places are known of, to buffer `to`.
  __device__ void copy_cells(int to) {
    places_.copy(buffers_.cells[to]);
    places_.move_on();
  }
  __device__ void copy_row_ids(std::uint32_t tile, int to) const {
    if (tile < last_ && lane_ < 2)
      copy_async<16, CopyCache::kL1>(shared_address(&buffers_.rows[to][4 * lane_]),
                                     row_ids_ + std::uint64_t{tile} * kTileCols, true);
  }
  /// All copies are there, and all lanes have read what was.
  __device__ static void meet() {
    asm volatile("cp.async.commit_group;\n\tcp.async.wait_group 0;" ::: "memory");
    __syncwarp();
  }

  __device__ Rows load_rows(int from) const {
    Rows rows;
    for (int half = 0; half < 2; ++half) {
      const std::int32_t row = buffers_.rows[from][lane_ % 4 + 4 * half];
      load_b<kAligned, kCache>(
          b_ + std::uint64_t{static_cast<std::uint32_t>(max(row, 0))} * stride_,
          row >= 0 ? cols_ : 0, rows.b[half]);
    }
    return rows;
  }

  template <class WarpSums>
  __device__ void multiply(const Rows& rows, int from, WarpSums& sums) const {
    const Cells cells = read_cells(buffers_.cells[from], lane_);
    Tf32Operand<Tf32Precision::kRounded, 2> tile;
    for (int half = 0; half < 2; ++half) tile.set(half, cells.value[half]);
    sums.add(0, rows.b, tile);
    sums.end_tile();
  }

 private:
  std::uint32_t last_;  // TC block of the task, beyond
  int lane_;
  const std::int32_t* row_ids_;  // the lane's four of TC block 0
  std::uint32_t stride_;         // of B, elements
  int cols_;                     // of the lane's four, those within B
  const float* b_;               // the lane's columns of row 0
  Buffers& buffers_;
  Places<kEncoding> places_;
};

/// Figure 5a: load rows of B, copy the next TC block, multiply, meet.
template <class AnyWarp, class WarpSums>
__device__ void multiply_when_loaded(AnyWarp& warp, const Task& task, WarpSums& sums) {
  warp.copy_cells(0);
  warp.copy_row_ids(task.first, 0);
  warp.meet();
#pragma unroll 1
  for (std::uint32_t tile = task.first; tile < task.last; ++tile) {
    const int now = static_cast<int>(tile - task.first) % 2;
    const Rows rows = warp.load_rows(now);
    if (tile + 1 < task.last) warp.copy_cells(1 - now);
    warp.copy_row_ids(tile + 1, 1 - now);
    warp.multiply(rows, now, sums);
    warp.meet();
  }
}

/// Algorithm 2: load the next TC block's rows of B, copy the rest of it, multiply, meet.
template <class AnyWarp, class WarpSums>
__device__ void multiply_ahead(AnyWarp& warp, const Task& task, WarpSums& sums) {
  warp.copy_cells(0);
  warp.copy_row_ids(task.first, 0);
  warp.copy_row_ids(task.first + 1, 1);
  warp.meet();
  Rows rows[2];
  rows[0] = warp.load_rows(0);
  __syncwarp();  // the columns of buffer 0 have been read
  const auto step = [&](std::uint32_t tile, auto even) {
    constexpr int kNow = even ? 0 : 1;
    if (tile + 1 < task.last) {
      rows[1 - kNow] = warp.load_rows(1 - kNow);
      warp.copy_cells(1 - kNow);
    }
    warp.copy_row_ids(tile + 2, kNow);
    warp.multiply(rows[kNow], kNow, sums);
    warp.meet();
  };
  // In twos: registers have no index.
#pragma unroll 1
  for (std::uint32_t tile = task.first; tile < task.last; tile += 2) {
    step(tile, std::true_type{});
    if (tile + 1 < task.last) step(tile + 1, std::false_type{});
  }
}

/// Stores of 16 bytes go by whatever operator was chosen.
template <bool kAligned, NonzeroEncoding kEncoding, CopyCache kCache, Pipeline kPipeline,
          bool kShares>
__global__ void __launch_bounds__(kThreads, 7) run_buffered(KernelArguments product) {
  __shared__ alignas(16) Buffers buffers[kWarps];
  const int lane = static_cast<int>(threadIdx.x % 32);
  for_each_task<kShares>(product, [&](const WorkItem& place, const Task& task) {
    Sums<1, false> sums(product.promote);
    if (task.first < task.last) {
      Warp<kAligned, kEncoding, kCache> warp(product, task, place.chunk * kWarpCols, lane,
                                             buffers[threadIdx.x / 32]);
      if constexpr (kPipeline == Pipeline::kDtc)
        multiply_when_loaded(warp, task, sums);
      else
        multiply_ahead(warp, task, sums);
    }
    deliver<kAligned, kAligned>(product, place, task, lane, sums.finish());
  });
}

}  // namespace tessera::acc_spmm
