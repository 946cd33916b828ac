// The kernel of tessera_sddmm: a warp computes a task for itself. See
// kernels/sddmm/tessera/tessera_sddmm.cpp.
#pragma once

#include "kernels/sddmm/shared/elements.cuh"
#include "kernels/sddmm/tessera/schedule.hpp"
#include "kernels/tensor_core/tf32_operands.cuh"

namespace tessera::tessera_sddmm {

struct Arguments {
  const Task* tasks;
  std::uint32_t num_tasks;
  const std::int32_t* tile_cols;  // [tiles + kBlocksAhead][kTileCols] column of A, or kNoColumn
  const uint4* bitmaps;           // [tiles]
  const float* factors;           // [nnz] in the order of S, or null
  std::int64_t rows;              // of A
  std::uint32_t row_bytes;        // of X and Y
  std::uint32_t chunks;
  const char* x;
  const char* y;
  void* s;
  ElementType type;  // of S
};

/// A lane's words of 16 rows of X in a step, as the left operands of its MMAs, in FP32.
template <Tf32Precision kPrecision>
struct Tf32Step {
  static constexpr int kElementBytes = 4;
  static constexpr bool kSplit = kPrecision == Tf32Precision::kSplit;

  /// `low` is of row g of the window, `high` of row g + 8.
  __device__ void set(const float (&low)[4], const float (&high)[4]) {
    for (int mma = 0; mma < kMmasPerStep; ++mma)
      for (int i = 0; i < 2; ++i) {
        operands_[mma].set(2 * i, low[2 * mma + i]);
        operands_[mma].set(2 * i + 1, high[2 * mma + i]);
      }
  }
  /// Adds the products with a lane's words of a row of Y.
  __device__ void multiply(const float (&y)[4], float (&sums)[4]) const {
#pragma unroll
    for (int mma = 0; mma < kMmasPerStep; ++mma) {
      Tf32Operand<kPrecision, 2> right;
      for (int i = 0; i < 2; ++i) right.set(i, y[2 * mma + i]);
      mma_m16n8<kPrecision, 8>(sums, operands_[mma], right);
    }
  }

 private:
  Tf32Operand<kPrecision, 4> operands_[kMmasPerStep];
};

/// The same in 16 bits.
template <class Packed>
struct HalfStep {
  static constexpr int kElementBytes = 2;
  static constexpr bool kSplit = false;

  __device__ void set(const float (&low)[4], const float (&high)[4]) {
    for (int mma = 0; mma < kMmasPerStep; ++mma)
      for (int i = 0; i < 2; ++i) {
        operands_[mma][2 * i] = __float_as_uint(low[2 * mma + i]);
        operands_[mma][2 * i + 1] = __float_as_uint(high[2 * mma + i]);
      }
  }
  __device__ void multiply(const float (&y)[4], float (&sums)[4]) const {
#pragma unroll
    for (int mma = 0; mma < kMmasPerStep; ++mma) {
      const std::uint32_t right[2] = {__float_as_uint(y[2 * mma]), __float_as_uint(y[2 * mma + 1])};
      Packed::mma(sums, operands_[mma], right);
    }
  }

 private:
  std::uint32_t operands_[kMmasPerStep][4];
};

/// Keeps its place before the MMAs, which hide its latency.
__device__ inline uint4 load_bitmap(const uint4* from) {
  uint4 words;
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
               : "l"(from));
  return words;
}

/// The places in S of a lane's cells in a TC block: columns 2t and 2t + 1 of rows g and g + 8, for
/// lane 4g + t.
class Cells {
 public:
  __device__ Cells(const Task* task, int lane)
      : g_(lane / 4),
        shift_(2 * (lane % 4)),
        next_{__ldg(task->starts + g_), __ldg(task->starts + g_ + 8)} {}

  /// Moves on to the TC block with that bitmap.
  __device__ void advance(uint4 words) {
    const std::uint32_t bits[2] = {row_bits(words.x, words.z, g_), row_bits(words.y, words.w, g_)};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      at_[half] = next_[half] + __popc(bits[half] & ((1u << shift_) - 1));
      has_[half] = bits[half] >> shift_ & 3;
      next_[half] += __popc(bits[half]);
    }
  }

  /// Calls visit(i, place) for the cells that are nonzeros; i is that of the sum.
  template <class Visit>
  __device__ void for_each(Visit visit) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if ((has_[half] & 1) != 0) visit(2 * half, at_[half]);
      if ((has_[half] & 2) != 0) visit(2 * half + 1, at_[half] + (has_[half] & 1));
    }
  }

 private:
  int g_, shift_;
  std::uint32_t next_[2];  // of rows g and g + 8: the first nonzero of the next TC block
  std::uint32_t at_[2], has_[2];
};

/// Rows of Y of a task's TC blocks, in registers: of as many TC blocks as blocks_in_flight() says.
/// Lane 4g + t has 16 bytes in 64 of the row of condensed column g.
template <int kElementBytes, int kSteps, bool kAligned>
class RowRing {
 public:
  static constexpr int kAhead = blocks_in_flight(kSteps);

  /// Starts the loads of the first TC blocks; `left` bytes of a row begin at the lane's first ones.
  __device__ RowRing(const Arguments& arguments, const Task& task, int lane, std::int64_t offset,
                     int left)
      : ids_(arguments.tile_cols + std::uint64_t{task.first} * kTileCols + lane / 4),
        y_(arguments.y + offset),
        row_bytes_(arguments.row_bytes),
        left_(left) {
    std::int32_t first_ids[kAhead];
    for (int i = 0; i < kAhead; ++i) first_ids[i] = next_id();
    next_id_ = next_id();
#pragma unroll
    for (int i = 0; i < kAhead; ++i)
#pragma unroll
      for (int step = 0; step < kSteps; ++step)
        load(task.first + i < task.last && first_ids[i] >= 0, row(first_ids[i]), i, step);
  }

  /// Multiplies a TC block, in place i of the ring, and starts the loads of the one that takes its
  /// place, if there is one.
  template <class Step>
  __device__ void multiply(int i, bool has_next, const Step (&x)[kSteps], float (&sums)[4]) {
    const bool loads = has_next && next_id_ >= 0;
    const char* next = row(next_id_);
    next_id_ = next_id();
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      x[step].multiply(words_[i][step], sums);
      load(loads, next, i, step);
    }
  }

 private:
  __device__ std::int32_t next_id() {
    const std::int32_t id = load_ahead(ids_);
    ids_ += kTileCols;
    return id;
  }
  __device__ const char* row(std::int32_t id) const {
    return y_ + std::uint64_t{static_cast<std::uint32_t>(max(id, 0))} * row_bytes_;
  }
  /// A register that is not loaded keeps its value: zeros beyond the end of a row, and in columns
  /// of S that do not exist anything.
  __device__ void load(bool when, const char* row, int i, int step) {
    sddmm::load_words<kElementBytes, kAligned>(when, row + step * kStepBytes,
                                               left_ - step * kStepBytes, words_[i][step]);
  }

  const std::int32_t* ids_;  // of the TC block after the next
  const char* y_;
  std::uint32_t row_bytes_;
  int left_;
  std::int32_t next_id_;
  float words_[kAhead][kSteps][4] = {};
};

/// Loads the window's rows of X: steps of 64 bytes, of which a lane has 16. Zeros where there is
/// nothing.
template <class Step, int kSteps, bool kAligned>
__device__ void load_x(const Arguments& arguments, std::int64_t first_row, std::int64_t offset,
                       int left, Step (&x)[kSteps]) {
  float words[2][kSteps][4] = {};
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const std::int64_t row = first_row + 8 * half;
    const char* from = arguments.x + row * arguments.row_bytes + offset;
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
      sddmm::load_words<Step::kElementBytes, kAligned>(row < arguments.rows,
                                                       from + step * kStepBytes,
                                                       left - step * kStepBytes, words[half][step]);
  }
#pragma unroll
  for (int step = 0; step < kSteps; ++step) x[step].set(words[0][step], words[1][step]);
}

template <class Step, int kSteps, bool kAligned>
__global__ void __launch_bounds__(32 * kWarps, resident_warps(kSteps, Step::kSplit) / kWarps)
    run(Arguments arguments) {
  extern __shared__ float4 partial_sums[];  // [kWarps][kPartialTiles][32] where there are chunks
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  const std::uint32_t index = blockIdx.x * kWarps + static_cast<std::uint32_t>(warp);
  if (index >= arguments.num_tasks) return;
  const Task* from = arguments.tasks + index;
  const uint4 head = __ldg(reinterpret_cast<const uint4*>(from));
  const Task task{head.x, head.y, head.z, head.w, {}};
  using Ring = RowRing<Step::kElementBytes, kSteps, kAligned>;
  Cells cells(from, lane);
  float4* const partial = partial_sums + warp * kPartialTiles * 32 + lane;
  const std::int64_t first_row = std::int64_t{task.window} * kWindowRows + lane / 4;
#pragma unroll 1
  for (std::uint32_t chunk = 0; chunk < arguments.chunks; ++chunk) {
    const std::uint32_t offset = chunk * (kSteps * kStepBytes) + lane % 4 * kVectorBytes;
    const int left = static_cast<int>(
        min(std::int64_t{arguments.row_bytes} - offset, std::int64_t{kSteps} * kStepBytes));
    const bool is_last = chunk + 1 == arguments.chunks;
    Ring rows(arguments, task, lane, offset, left);
    Step x[kSteps];
    load_x<Step, kSteps, kAligned>(arguments, first_row, offset, left, x);
#pragma unroll 1
    for (std::uint32_t base = task.first; base < task.last; base += Ring::kAhead) {
#pragma unroll
      for (int i = 0; i < Ring::kAhead; ++i) {
        const std::uint32_t tile = base + i;
        if (tile >= task.last) break;
        float sums[4] = {};
        float4* const at = partial + (tile - task.first) * 32;
        if (chunk > 0) {
          const float4 before = *at;
          sums[0] = before.x, sums[1] = before.y, sums[2] = before.z, sums[3] = before.w;
        }
        const uint4 words = load_bitmap(arguments.bitmaps + tile);
        rows.multiply(i, tile + Ring::kAhead < task.last, x, sums);
        if (!is_last) {
          *at = {sums[0], sums[1], sums[2], sums[3]};
          continue;
        }
        cells.advance(words);
        if (arguments.factors != nullptr)
          cells.for_each([&](int cell, std::uint32_t place) {
            sums[cell] = __fmul_rn(sums[cell], __ldg(arguments.factors + place));
          });
        cells.for_each([&](int cell, std::uint32_t place) {
          sddmm::store_element(arguments.s, arguments.type, place, sums[cell]);
        });
      }
    }
  }
}

}  // namespace tessera::tessera_sddmm
