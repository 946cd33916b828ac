// The kernels of row_spgemm under a mask: a launch over all rows, which makes most of them and
// queues the others, and launches over the queued ones. See kernels/spgemm/row/masked.hpp.
#pragma once

#include <cstdint>

#include "kernels/device/overlapped_launch.cuh"
#include "kernels/spgemm/row/masked_by_words.cuh"
#include "kernels/spgemm/row/masked_cells.cuh"

namespace tessera::row_spgemm {

constexpr int kMaskedThreads = kPartsOfRow * kWarpLanes;  // per thread block

/// A heavy row, or a window of its cells.
struct MaskedItem {
  std::int32_t row, window;
};

/// The rows that the launch over all rows leaves to the others.
struct MaskedQueue {
  enum Kind { kWarps, kBlocks, kWindows, kKinds };

  std::uint32_t* counts;  // [kKinds]: items of each kind
  std::uint32_t* taken;   // [kKinds]: those that are being made
  std::int32_t* warps;    // [rows]: rows that a warp makes
  std::int32_t* blocks;   // [rows]: rows that a thread block makes
  MaskedItem* windows;    // [most_windows(nonzeros of M)]

  /// A row with windows has more than kCellsOfBlock cells.
  static std::int64_t most_windows(std::int64_t nonzeros_of_mask) {
    static_assert(kCellsOfMaskWindow >= 2 * kCellsOfBlock);
    return nonzeros_of_mask / kCellsOfBlock;
  }
};

/// Adds the products of nonzeros of A to the sums of their cells, each sum in the order of A's
/// columns. All lanes of the warp call it; `most` is the largest count of the rows side by side.
template <int kLanes>
__device__ void add_masked_products(const OperandsView& operands, const MaskedCells& cells,
                                    const NonzerosOfRow& of_a, int most, const MaskWords& words,
                                    float* sums) {
  constexpr int kSteps = 4;
  // A few lanes load values together with columns, since rows of B are short there.
  constexpr bool kReadsAll = kLanes <= 8;
  for (int first = 0; first < most; first += kLanes) {
    const int i = first + LanesOfWarp<kLanes>::lane();
    std::int32_t begin = 0, length = 0;
    float value = 0;
    if (i < of_a.count) {
      const std::int32_t at = of_a.begin + i * of_a.stride;
      const std::int32_t row_of_b = __ldg(operands.a_cols + at);
      value = __ldg(operands.a_values + at);
      begin = __ldg(operands.b_offsets + row_of_b);
      length = __ldg(operands.b_offsets + row_of_b + 1) - begin;
      if (cells.is_window)
        cut_row_of_b([&](std::int32_t place) { return __ldg(operands.b_cols + place); },
                     cells.first_col, cells.last_col, begin, length);
    }
    StepsOfRows<kLanes> steps(begin, length, value);
    while (!steps.is_at_end()) {
      std::int32_t places[kSteps];
      float left[kSteps], right[kSteps];
      int of_cell[kSteps];
      steps.next(places, left);
      std::int32_t cols[kSteps];
#pragma unroll
      for (int u = 0; u < kSteps; ++u)
        cols[u] = places[u] < 0 ? -1 : __ldg(operands.b_cols + places[u]);
      if constexpr (kReadsAll) {
#pragma unroll
        for (int u = 0; u < kSteps; ++u)
          right[u] = places[u] < 0 ? 0 : __ldg(operands.b_values + places[u]);
      }
      bool is_some = false;
#pragma unroll
      for (int u = 0; u < kSteps; ++u) {
        of_cell[u] = words.find(cols[u]);
        is_some = is_some || of_cell[u] >= 0;
      }
      if (!__any_sync(kAllLanes, is_some)) continue;
      if constexpr (!kReadsAll) {
#pragma unroll
        for (int u = 0; u < kSteps; ++u)
          right[u] = of_cell[u] < 0 ? 0 : __ldg(operands.b_values + places[u]);
      }
#pragma unroll
      for (int u = 0; u < kSteps; ++u) {
        if (of_cell[u] >= 0) sums[of_cell[u]] = fmaf(left[u], right[u], sums[of_cell[u]]);
        __syncwarp();  // the next step may be of another row of B, with the same cells
      }
    }
  }
}

/// Makes some cells of a row with kLanes lanes of a warp. All lanes of the warp call it. `memory`
/// is the row's shared memory, of cell_bytes(kMost) bytes.
constexpr int masked_bytes(int most_cells, int parts) {
  return MaskWords::bytes(most_cells) + parts * most_cells * static_cast<int>(sizeof(float));
}
template <int kLanes>
__device__ void make_masked_row(const OperandsView& operands, const MaskedOutput& output,
                                const MaskedCells& cells, const NonzerosOfRow& of_a,
                                unsigned char* memory) {
  using Lanes = LanesOfWarp<kLanes>;
  constexpr int kMost = kCellsOfLane * kLanes;
  const std::int32_t* cols = output.cols + cells.first;
  const MaskWords words =
      MaskWords::cleared<Lanes>(memory, kMost, cells.count, cells.first_col, cells.last_col);
  auto* sums = reinterpret_cast<float*>(memory + MaskWords::bytes(kMost));
  for (int i = Lanes::lane(); i < cells.count; i += kLanes) sums[i] = 0;
  __syncwarp();
  words.fill<Lanes>(cols, cells.count,
                    [&](int i, std::int32_t col) { output.set_col(cells.first + i, col); });
  __syncwarp();
  add_masked_products<kLanes>(operands, cells, of_a, __reduce_max_sync(kAllLanes, of_a.count),
                              words, sums);
  for (int i = Lanes::lane(); i < cells.count; i += kLanes)
    output.values[cells.first + i] = output.scaled(sums[i]);
  __syncwarp();  // the next row has the same memory
}

/// Appends a row to a queue in each lane that has one; all lanes of the warp call it.
__device__ inline void append_row(bool has_row, std::int32_t row, std::uint32_t* count,
                                  std::int32_t* queue) {
  const unsigned lanes = __ballot_sync(kAllLanes, has_row);
  if (lanes == 0) return;
  const int first = __ffs(static_cast<int>(lanes)) - 1;
  std::uint32_t place = 0;
  if (lane_of_warp() == first) place = atomicAdd(count, static_cast<std::uint32_t>(__popc(lanes)));
  place = __shfl_sync(kAllLanes, place, first) + __popc(lanes & lanes_before());
  if (has_row) queue[place] = row;
}

/// The products of a row by kLanes lanes, which saturate. All lanes of the warp call it.
template <int kLanes>
__device__ std::int32_t count_row_products(const OperandsView& operands, std::int32_t begin,
                                           std::int32_t count) {
  constexpr std::int32_t kMuch = 1 << 25;  // sums of 32 lanes stay in 32 bits
  std::int32_t products = 0;
#pragma unroll 4
  for (int i = LanesOfWarp<kLanes>::lane(); i < count; i += kLanes) {
    const std::int32_t row_of_b = __ldg(operands.a_cols + begin + i);
    products +=
        min(__ldg(operands.b_offsets + row_of_b + 1) - __ldg(operands.b_offsets + row_of_b), kMuch);
    products = min(products, kMuch);
  }
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2)
    products += __shfl_xor_sync(kAllLanes, products, step);
  return products;
}

/// Makes the rows that kLanes lanes suffice for, queues the others, and gives C its structure.
template <int kLanes, bool kIsByWords>
__global__ void __launch_bounds__(kMaskedThreads)
    make_masked_rows(OperandsView operands, MaskedOutput output, MaskedPlan plan,
                     MaskedQueue queue) {
  static_assert(!kIsByWords || kLanes == kWarpLanes);
  constexpr int kBytes = kIsByWords ? kBytesOfRowByWords : masked_bytes(kCellsOfLane * kLanes, 1);
  __shared__ __align__(16) unsigned char shared[kMaskedThreads / kLanes * kBytes];
  allow_next_launch();
  const int number = static_cast<int>(threadIdx.x) / kLanes;
  const std::int64_t row = std::int64_t{blockIdx.x} * (kMaskedThreads / kLanes) + number;
  MaskedCells cells;
  NonzerosOfRow of_a;
  std::int64_t all_cells = 0;
  const bool is_leader = LanesOfWarp<kLanes>::lane() == 0;
  if (row <= operands.rows) {
    const std::int64_t first = output.offsets[row];
    if (is_leader && output.c_offsets != nullptr) output.c_offsets[row] = first;
    if (row < operands.rows) {
      all_cells = output.offsets[row + 1] - first;
      of_a.begin = operands.a_offsets[row];
      if (all_cells > 0) of_a.count = operands.a_offsets[row + 1] - of_a.begin;
      // Read here, the columns arrive while the products are counted.
      cells = {output, first, static_cast<int>(min(all_cells, std::int64_t{kCellsOfLane * kLanes})),
               false};
    }
  }
  const std::int32_t products = count_row_products<kLanes>(
      operands, of_a.begin, of_a.count > plan.most_nonzeros() ? 0 : of_a.count);
  const MaskedWay way = plan.way(all_cells, of_a.count, products);
  const auto queued = static_cast<std::int32_t>(row);
  if constexpr (kLanes < kWarpLanes)
    append_row(is_leader && way == MaskedWay::kWarp, queued, queue.counts + MaskedQueue::kWarps,
               queue.warps);
  append_row(is_leader && way == MaskedWay::kHeavy && all_cells <= kCellsOfBlock, queued,
             queue.counts + MaskedQueue::kBlocks, queue.blocks);
  if (is_leader && all_cells > kCellsOfBlock) {
    const auto windows = static_cast<std::uint32_t>(parts(all_cells, kCellsOfMaskWindow));
    const std::uint32_t place = atomicAdd(queue.counts + MaskedQueue::kWindows, windows);
    for (std::uint32_t i = 0; i < windows; ++i)
      queue.windows[place + i] = {queued, static_cast<std::int32_t>(i)};
  }
  if (way != MaskedWay::kLanes) cells.count = of_a.count = 0;
  if (!__any_sync(kAllLanes, cells.count > 0)) return;
  if constexpr (kIsByWords)
    make_row_by_words(operands, output, cells, of_a, shared + number * kBytes);
  else
    make_masked_row<kLanes>(operands, output, cells, of_a, shared + number * kBytes);
}

/// Makes at most kMost cells of a heavy row with a thread block.
template <int kMost, bool kIsByWords>
__device__ void make_heavy_row(const OperandsView& operands, const MaskedOutput& output,
                               const MaskedItem& item, unsigned char* memory) {
  using Block = spgemm::Group<kMaskedThreads>;
  const std::int64_t begin_of_row = output.offsets[item.row], end = output.offsets[item.row + 1];
  const std::int64_t first = begin_of_row + std::int64_t{item.window} * kMost;
  const MaskedCells cells(output, first, static_cast<int>(min(end - first, std::int64_t{kMost})),
                          end - begin_of_row > kMost);
  const std::int32_t* cols = output.cols + cells.first;
  const MaskWords words =
      MaskWords::cleared<Block>(memory, kMost, cells.count, cells.first_col, cells.last_col);
  auto* sums = reinterpret_cast<float*>(memory + MaskWords::bytes(kMost));  // [parts][cells]
  for (int i = Block::lane(); i < kPartsOfRow * cells.count; i += Block::kLanes) sums[i] = 0;
  Block::sync();
  words.fill<Block>(cols, cells.count,
                    [&](int i, std::int32_t col) { output.set_col(cells.first + i, col); });
  Block::sync();
  const int part = Block::warp();
  const std::int32_t begin = operands.a_offsets[item.row];
  const std::int32_t length = operands.a_offsets[item.row + 1] - begin;
  const NonzerosOfRow of_a{begin + part, kPartsOfRow,
                           (length - part + kPartsOfRow - 1) / kPartsOfRow};
  if constexpr (kIsByWords)
    add_masked_words(operands, cells, of_a, words, sums + part * cells.count);
  else
    add_masked_products<kWarpLanes>(operands, cells, of_a, of_a.count, words,
                                    sums + part * cells.count);
  Block::sync();
  for (int i = Block::lane(); i < cells.count; i += Block::kLanes) {
    float sum = sums[i];
#pragma unroll
    for (int of = 1; of < kPartsOfRow; ++of) sum += sums[of * cells.count + i];
    output.values[cells.first + i] = output.scaled(sum);
  }
}

/// Calls make(number) with all threads of the block for the items of a queue: first for that of the
/// block's number, so that the blocks of a short queue need no counter.
template <class Make>
__device__ void for_items_of_block(const MaskedQueue& queue, MaskedQueue::Kind kind, Make make) {
  __shared__ std::uint32_t taken;
  const std::uint32_t count = queue.counts[kind];
  std::uint32_t number = blockIdx.x;
  while (number < count) {
    make(number);
    if (threadIdx.x == 0) taken = gridDim.x + atomicAdd(queue.taken + kind, 1u);
    __syncthreads();  // the next item has the same memory
    number = taken;
    __syncthreads();
  }
}

/// Makes the windows of the rows of more cells than kCellsOfBlock.
template <bool kIsByWords>
__global__ void __launch_bounds__(kMaskedThreads)
    make_masked_windows(OperandsView operands, MaskedOutput output, MaskedQueue queue) {
  extern __shared__ __align__(16) unsigned char shared[];
  wait_for_launch_before();
  allow_next_launch();
  for_items_of_block(queue, MaskedQueue::kWindows, [&](std::uint32_t number) {
    make_heavy_row<kCellsOfMaskWindow, kIsByWords>(operands, output, queue.windows[number], shared);
  });
}

/// Makes the queued rows of a warp each.
__device__ inline void make_rows_of_warps(const OperandsView& operands, const MaskedOutput& output,
                                          const MaskedQueue& queue, unsigned char* memory) {
  const std::uint32_t count = queue.counts[MaskedQueue::kWarps];
  const std::uint32_t warps = gridDim.x * kPartsOfRow;
  // The last thread blocks begin, because the first ones have heavy rows.
  std::uint32_t number =
      (gridDim.x - 1 - blockIdx.x) * kPartsOfRow + static_cast<int>(threadIdx.x) / kWarpLanes;
  while (number < count) {
    const std::int32_t row = queue.warps[number];
    const std::int64_t first = output.offsets[row];
    const std::int32_t begin = operands.a_offsets[row];
    make_masked_row<kWarpLanes>(
        operands, output, {output, first, static_cast<int>(output.offsets[row + 1] - first), false},
        {begin, 1, operands.a_offsets[row + 1] - begin}, memory);
    if (lane_of_warp() == 0) number = warps + atomicAdd(queue.taken + MaskedQueue::kWarps, 1u);
    number = __shfl_sync(kAllLanes, number, 0);
  }
}

/// Makes the queued rows of at most kCellsOfBlock cells: first the heavy ones, then those of a warp
/// each, which by words are none. The launch before, of make_masked_windows(), lets it begin once
/// all rows are queued, and both run side by side: it waits at its end, so that it ends last.
template <bool kIsByWords>
__global__ void __launch_bounds__(kMaskedThreads)
    make_queued_rows(OperandsView operands, MaskedOutput output, MaskedQueue queue) {
  constexpr int kOfWarp = masked_bytes(kCellsOfWarp, 1);
  static_assert(kPartsOfRow * kOfWarp <= masked_bytes(kCellsOfBlock, kPartsOfRow));
  __shared__ __align__(16) unsigned char shared[masked_bytes(kCellsOfBlock, kPartsOfRow)];
  for_items_of_block(queue, MaskedQueue::kBlocks, [&](std::uint32_t number) {
    make_heavy_row<kCellsOfBlock, kIsByWords>(operands, output, {queue.blocks[number], 0}, shared);
  });
  if constexpr (!kIsByWords)
    make_rows_of_warps(operands, output, queue,
                       shared + static_cast<int>(threadIdx.x) / kWarpLanes * kOfWarp);
  wait_for_launch_before();
}

}  // namespace tessera::row_spgemm
