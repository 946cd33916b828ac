// The path of blocks through shared memory: the compile-time variant of a kernel, the part of a
// thread in the copies, and the stages of a team.
//
// Each lane copies 16 bytes of a row of B at a time, neighbouring lanes neighbouring bytes, and
// bytes of blocks of A (cuTeSpMM, section 3.3 and algorithm 1, lines 14 to 22). Each lane loads one
// column index of the next block, which the others read through shared memory.
#pragma once

#include "kernels/device/async_copies.cuh"
#include "kernels/device/loads.cuh"
#include "kernels/device/store_16_bytes.cuh"
#include "kernels/spmm/cutespmm/cutespmm.hpp"

namespace tessera::cutespmm {

constexpr int kBrickCols = Hrpb::kBrickCols, kBrickRows = Hrpb::kBrickRows;

struct KernelArguments {
  std::int64_t rows, n;
  int tile_cols;
  std::uint32_t num_tasks;
  const Task* tasks;                  // [num_tasks]
  const std::uint8_t* packed_blocks;  // as in Hrpb
  const std::int32_t* active_cols;
  const std::uint32_t* size_ptr;
  Geometry geometry;
};

/// The compile-time form of a Mode and a TeamShape.
template <int kDepth_, int kWarpCols_, int kWarps_, int kBricks_, Tf32Precision kPrecision_>
struct Variant {
  static constexpr int kDepth = kDepth_;        // condensed columns of an MMA
  static constexpr int kWarpCols = kWarpCols_;  // columns of C of a warp
  static constexpr int kWarps = kWarps_;        // of a team
  static constexpr int kBricks = kBricks_;      // of a brick column: TM / 16
  static constexpr Tf32Precision kPrecision = kPrecision_;

  static constexpr int kThreads = 32 * kWarps;         // of a team
  static constexpr int kHalves = kDepth / kBrickCols;  // brick columns of an MMA
  static constexpr int kChunks = kWarpCols / kChunkCols;
  static constexpr int kPitch = kWarpCols * kWarps + kPad;
  static constexpr int kThreadsOfRow = kWarpCols * kWarps / 4;  // each copies 16 bytes of a row
  // Rows of a brick column of which a thread copies 16 bytes; they follow each other.
  static constexpr int kRowsOfThread = kBrickCols * kThreadsOfRow / kThreads;
  static constexpr int kMaxThreads = kMaxTeams * kThreads;
  // The warps of an SM that leave enough registers for the accumulators.
  static constexpr int kTiles = kChunks * kBricks;
  static constexpr bool kIsSplit = kPrecision == Tf32Precision::kSplit;
  static constexpr bool kIsRaw = kPrecision == Tf32Precision::kRaw;
  static constexpr int kWarpsOfSm = kTiles > 4 || (kTiles == 4 && kIsSplit) ? 8
                                    : kTiles == 4 && kBricks + kIsRaw > 1   ? 12
                                                                            : 16;
  static constexpr int kMinBlocks = kWarpsOfSm / (kMaxTeams * kWarps);
};

/// A barrier of the threads of a team. Its number is a constant: for a number in a register ptxas
/// reserves all 16 of a thread block, and an SM, which has 64, then holds four thread blocks.
template <int kNumber, int kThreads>
__device__ void sync_threads() {
  asm volatile("bar.sync %0, %1;" ::"n"(kNumber), "n"(kThreads) : "memory");
}

template <class V>
__device__ void sync_team(int team) {
  static_assert(kMaxTeams == 4);
  if constexpr (V::kWarps == 1)
    __syncwarp();
  else if (team == 0)
    sync_threads<0, V::kThreads>();
  else if (team == 1)
    sync_threads<1, V::kThreads>();
  else if (team == 2)
    sync_threads<2, V::kThreads>();
  else
    sync_threads<3, V::kThreads>();
}

__device__ inline void wait_for_stage(int stages) {
  if (stages == 2) return wait_groups<0>();
  if (stages == 3) return wait_groups<1>();
  wait_groups<2>();
}

/// The index of a block, which a lane needs before the copy: its column `lane`, and its bytes.
struct BlockIndex {
  std::int32_t col;
  std::uint32_t first_byte, last_byte;
};

/// The part of a thread in the copies of blocks.
template <class V>
class Copier {
 public:
  /// For columns of B from first_col on; `index` is shared memory of the warp.
  __device__ Copier(const KernelArguments& product, const float* b, std::int64_t first_col,
                    bool aligned, int thread, std::int32_t* index)
      : product_(product),
        aligned_(aligned),
        thread_(thread),
        index_(index),
        row_bytes_(4 * static_cast<std::int32_t>(product.n)) {
    const std::int64_t col = first_col + 4 * (thread % V::kThreadsOfRow);
    cols_ = static_cast<int>(min(max(product.n - col, std::int64_t{0}), std::int64_t{4}));
    b_ = reinterpret_cast<const char*>(b + (cols_ > 0 ? col : 0));
  }

  __device__ BlockIndex load_index(std::uint32_t block) const {
    const int lane = thread_ % 32;
    std::int32_t col = kNoColumn;
    if (lane < product_.tile_cols)
      col = load_ahead(product_.active_cols + std::int64_t{block} * product_.tile_cols + lane);
    return {col, load_ahead(product_.size_ptr + block), load_ahead(product_.size_ptr + block + 1)};
  }

  /// Copies the rows of B of a block and its bytes. All threads of the team call it. Rows that fill
  /// up an MMA become zeros; no lane reads the rows behind them.
  __device__ void copy(const BlockIndex& block, float* rows, std::uint8_t* bytes) const {
    __syncwarp();  // no lane reads the index of the last block any more
    index_[thread_ % 32] = max(block.col, 0);
    const int cols = __popc(__ballot_sync(~0u, block.col >= 0));
    __syncwarp();
    if (aligned_)
      copy_rows<true>(cols, rows);
    else
      copy_rows<false>(cols, rows);
    const std::uint8_t* packed = product_.packed_blocks + block.first_byte;
    const auto size = static_cast<int>(block.last_byte - block.first_byte);
#pragma unroll 1
    for (int at = 16 * thread_; at < size; at += 16 * V::kThreads)
      copy_async<16>(bytes + at, packed + at, true);
  }

 private:
  template <bool kAligned>
  __device__ void copy_rows(int cols, float* rows) const {
    constexpr int kRows = V::kRowsOfThread;
    const int slot = thread_ / V::kThreadsOfRow * kRows;
    float* to = rows + slot * V::kPitch + thread_ % V::kThreadsOfRow * 4;
#pragma unroll 1
    for (int first = 0; first < cols; first += V::kDepth) {
#pragma unroll
      for (int half = 0; half < V::kHalves; ++half) {
        const int place = first + half * kBrickCols + slot;
        std::int32_t from[kRows];
        load_rows(place, from);
#pragma unroll
        for (int i = 0; i < kRows; ++i)
          copy_row<kAligned>(from[i], place + i < cols, to + (half * kBrickCols + i) * V::kPitch);
      }
      to += V::kDepth * V::kPitch;
    }
  }

  template <int kCount>
  __device__ void load_rows(int first, std::int32_t (&rows)[kCount]) const {
    if constexpr (kCount == 4) {
      const int4 all = *reinterpret_cast<const int4*>(index_ + first);
      rows[0] = all.x, rows[1] = all.y, rows[2] = all.z, rows[3] = all.w;
    } else {
      for (int i = 0; i < kCount; ++i) rows[i] = index_[first + i];
    }
  }

  /// Four columns of a row of B, or zeros where it is not real.
  template <bool kAligned>
  __device__ void copy_row(std::int32_t row, bool real, float* to) const {
    const char* from = b_ + std::int64_t{row} * row_bytes_;
    if constexpr (kAligned) {
      copy_async<16>(to, from, real && cols_ > 0);
    } else {
      for (int i = 0; i < 4; ++i) {
        const bool within = real && i < cols_;
        copy_async<4>(to + i, within ? from + 4 * i : b_, within);
      }
    }
  }

  const KernelArguments& product_;
  bool aligned_;
  int thread_;              // of the team
  std::int32_t* index_;     // [kMaxTileCols]
  std::int32_t row_bytes_;  // of B
  int cols_;                // columns of the thread within B
  const char* b_;           // the thread's columns of row 0
};

/// The blocks of a team in its stages: while it multiplies one, copies of stages - 1 others and a
/// load of one more index are in flight. With one stage, the team waits for each copy.
template <class V>
class Pipeline {
 public:
  __device__ Pipeline(const KernelArguments& product, const Copier<V>& copier, const Task& task,
                      unsigned char* stages, int team)
      : copier_(copier),
        stages_(stages),
        stage_bytes_(product.geometry.stage_bytes()),
        rows_bytes_(4 * V::kPitch * product.geometry.stage_rows),
        count_(product.geometry.stages),
        next_(task.first),
        last_(task.last),
        team_(team),
        index_(copier.load_index(task.first)) {
    for (int i = 0; i + 1 < count_; ++i) copy();
  }

  /// The next block is in the current stage when this returns.
  __device__ void advance() {
    if (count_ == 1) {
      sync_team<V>(team_);
      copy();
      wait_groups<0>();
      sync_team<V>(team_);
      return;
    }
    wait_for_stage(count_);
    sync_team<V>(team_);  // the copies of all threads are done, and the previous stage is free
    copy();
    from_ = from_ + 1 == count_ ? 0 : from_ + 1;
  }

  __device__ const float* rows() const {
    return reinterpret_cast<const float*>(stages_ + current() * stage_bytes_);
  }
  __device__ const std::uint8_t* bytes() const {
    return stages_ + current() * stage_bytes_ + rows_bytes_;
  }

 private:
  __device__ int current() const { return count_ == 1 ? 0 : (from_ == 0 ? count_ : from_) - 1; }

  /// Copies the next block to the next stage; behind the last one it closes an empty group, because
  /// waits count groups.
  __device__ void copy() {
    if (next_ < last_) {
      unsigned char* stage = stages_ + to_ * stage_bytes_;
      copier_.copy(index_, reinterpret_cast<float*>(stage), stage + rows_bytes_);
      ++next_;
      if (next_ < last_) index_ = copier_.load_index(next_);
    }
    close_group();
    to_ = to_ + 1 == count_ ? 0 : to_ + 1;
  }

  const Copier<V>& copier_;
  unsigned char* stages_;
  int stage_bytes_, rows_bytes_, count_;
  std::uint32_t next_, last_;  // blocks: the next to copy, and beyond the last
  int team_;
  BlockIndex index_;  // of the next
  int to_ = 0;        // the stage it goes to
  int from_ = 0;      // the stage after the one that is multiplied
};

}  // namespace tessera::cutespmm
