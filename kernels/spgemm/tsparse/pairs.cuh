// The counting and the multiplication as the paper describes them (section 4, figures 4 to 6,
// algorithm 2): a thread block has a pair of tiles of C and loads the task, the bitmaps and the
// values of a step when it needs them. On tensor cores a warp holds both products of a step on the
// diagonals of 16 x 16 operands, by their registers, and rounds FP32 values to FP16. Without tensor
// cores a thread has a cell of C and multiplies all eight steps of a pair of tiles, zeros included.
#pragma once

#include <cstdint>

#include "kernels/spgemm/tsparse/kernels.cuh"
#include "kernels/spgemm/tsparse/schedule.hpp"
#include "kernels/tensor_core/half_operands.cuh"

namespace tessera::tsparse {

/// The tasks of a thread block's pair of tiles of C.
struct PairOfTasks {
  __device__ PairOfTasks(const TaskList& all, std::int64_t first_tile)
      : tasks(all.tasks), first{all.of_tile(first_tile)}, second{all.of_tile(first_tile + 1)} {}

  __device__ std::uint32_t longest() const { return max(first.length, second.length); }
  /// False where the tile has fewer tasks.
  __device__ bool has(int half, std::uint32_t step) const {
    return step < (half == 0 ? first.length : second.length);
  }
  /// The task of a step; that of the first tiles where there is none.
  __device__ TileTask task(int half, std::uint32_t step) const {
    const std::uint32_t begin = half == 0 ? first.begin : second.begin;
    return has(half, step) ? tasks[begin + step] : TileTask{0, 0};
  }
  /// The same for both tiles of C, so that their loads overlap.
  struct Step {
    bool has[Pairs::kTiles];
    TileTask task[Pairs::kTiles];
  };
  __device__ Step step(std::uint32_t i) const {
    return {{has(0, i), has(1, i)}, {task(0, i), task(1, i)}};
  }

  const TileTask* __restrict__ tasks;
  TaskList::Range first, second;
};

/// A lane's two neighbouring cells of a tile as a register of a fragment, see fragment_of(): ones
/// in FP16.
__device__ inline std::uint32_t ones_of(std::uint64_t bitmap, int lane) {
  constexpr std::uint32_t kOne = 0x3c00;
  const auto bits = static_cast<std::uint32_t>(bitmap >> 2 * lane) & 3;
  return (bits & 1) * kOne | (bits >> 1) * (kOne << 16);
}

/// The same of values in FP32, rounded to FP16.
__device__ inline std::uint32_t rounded_fragment_of(const Tile& tile,
                                                    const float* __restrict__ values, int lane) {
  const auto bits = static_cast<std::uint32_t>(tile.bitmap >> 2 * lane) & 3;
  const std::uint32_t place = place_of(tile, 2 * lane);
  const float low = (bits & 1) != 0 ? values[place] : 0;
  const float high = (bits & 2) != 0 ? values[place + (bits & 1)] : 0;
  return PackedFp16::pair(low, high);
}

/// Joins two ballots to a bitmap: bit `lane` of the first is cell 2 lane, of the second 2 lane + 1.
__device__ inline std::uint64_t interleave(std::uint32_t even, std::uint32_t odd) {
  const auto spread = [](std::uint64_t bits) {
    bits = (bits | bits << 16) & 0x0000ffff0000ffffu;
    bits = (bits | bits << 8) & 0x00ff00ff00ff00ffu;
    bits = (bits | bits << 4) & 0x0f0f0f0f0f0f0f0fu;
    bits = (bits | bits << 2) & 0x3333333333333333u;
    return (bits | bits << 1) & 0x5555555555555555u;
  };
  return spread(even) | spread(odd) << 1;
}

/// A warp on tensor cores. The 16 columns of a step are two MMAs of eight columns each.
struct PairOnTensorCores {
  /// Counts with sums in FP16, which stay nonzero: they grow from one and never overflow.
  struct Counter {
    static constexpr int kThreads = Pairs::threads(true);
    std::uint32_t left[2] = {0, 0}, right[2] = {0, 0};

    __device__ void add(const PairOfTasks& pair, std::uint32_t step, const Tile* __restrict__ a,
                        const Tile* __restrict__ b) {
      const PairOfTasks::Step now = pair.step(step);
      std::uint32_t of_a[4] = {0, 0, 0, 0}, of_b[2];
#pragma unroll
      for (int half = 0; half < Pairs::kTiles; ++half) {
        const TileTask task = now.task[half];
        of_a[3 * half] = ones_of(now.has[half] ? a[task.a].bitmap : 0, threadIdx.x);
        of_b[half] = ones_of(now.has[half] ? b[task.b].bitmap : 0, threadIdx.x);
      }
      mma_m16n8k16_fp16_fp16(left, of_a, {of_b[0], 0});
      mma_m16n8k16_fp16_fp16(right, of_a, {0, of_b[1]});
    }

    /// The cells of a tile of C that are not zero; every thread calls it.
    __device__ std::uint64_t cells(int half) const {
      const std::uint32_t sums = half == 0 ? left[0] : right[1];
      return interleave(__ballot_sync(kAllLanes, (sums & 0xffff) != 0),
                        __ballot_sync(kAllLanes, sums >> 16 != 0));
    }
  };

  static constexpr int kThreads = Counter::kThreads;
  float left[4] = {0, 0, 0, 0}, right[4] = {0, 0, 0, 0};

  __device__ void add(const PairOfTasks& pair, std::uint32_t step, const TilesView<float>& a,
                      const TilesView<float>& b) {
    const PairOfTasks::Step now = pair.step(step);
    Operands of[Pairs::kTiles];
#pragma unroll
    for (int half = 0; half < Pairs::kTiles; ++half) {
      of[half] = {a.tiles[now.task[half].a], b.tiles[now.task[half].b]};
      if (now.has[half]) continue;
      of[half].a.bitmap = 0;
      of[half].b.bitmap = 0;
    }
    std::uint32_t of_a[4] = {0, 0, 0, 0}, of_b[2];
#pragma unroll
    for (int half = 0; half < Pairs::kTiles; ++half) {
      of_a[3 * half] = rounded_fragment_of(of[half].a, a.values, threadIdx.x);
      of_b[half] = rounded_fragment_of(of[half].b, b.values, threadIdx.x);
    }
    mma_m16n8k16_fp16(left, of_a, {of_b[0], 0});
    mma_m16n8k16_fp16(right, of_a, {0, of_b[1]});
  }

  __device__ void store(std::int64_t tile, std::int64_t tiles, const ViewOfC& c,
                        const Finish& finish, const Kept& kept) const {
    const OnTensorCores diagonal{{left[0], left[1], right[2], right[3]}};
    diagonal.store(tile, tiles, c, finish, kept);
  }
};

/// Half a thread block and a cell of C for each thread, without tensor cores.
struct PairOnScalarCores {
  static constexpr int kWarpsOfTile = Pairs::kCells / kWarpSize;

  __device__ static int half() { return threadIdx.x / Pairs::kCells; }
  __device__ static int cell() { return threadIdx.x % Pairs::kCells; }

  /// The cells of a tile of A and one of B, both by rows.
  struct DenseTiles {
    float a[Pairs::kCells], b[Pairs::kCells];
  };

  /// Adds the product of two tiles, of which `a` and `b` are this thread's cells. All threads call
  /// it; where `present` is false, their tile has no task.
  __device__ static void add_product(bool present, float a, float b, float& sum) {
    __shared__ DenseTiles dense[Pairs::kTiles];
    DenseTiles& own = dense[half()];
    __syncthreads();
    own.a[cell()] = a;
    own.b[cell()] = b;
    __syncthreads();
    if (!present) return;
    const int row = cell() / kSide, col = cell() % kSide;
#pragma unroll
    for (int i = 0; i < kSide; ++i) sum = fmaf(own.a[row * kSide + i], own.b[i * kSide + col], sum);
  }

  /// The bit of this thread's cell in the bitmap of a tile of B, which is by columns.
  __device__ static int bit_of_b() { return cell() % kSide * kSide + cell() / kSide; }

  /// Returns the OR of the bits of a tile's threads; all threads call it.
  __device__ static std::uint64_t join_tile(std::uint64_t bits, int of_half) {
    __shared__ std::uint64_t of_warps[Pairs::kTiles * kWarpsOfTile];
    bits = join(bits);
    __syncthreads();
    if (threadIdx.x % kWarpSize == 0) of_warps[threadIdx.x / kWarpSize] = bits;
    __syncthreads();
    std::uint64_t all = 0;
    for (int warp = 0; warp < kWarpsOfTile; ++warp) all |= of_warps[of_half * kWarpsOfTile + warp];
    return all;
  }

  struct Counter {
    static constexpr int kThreads = Pairs::threads(false);
    float sum = 0;

    __device__ void add(const PairOfTasks& pair, std::uint32_t step, const Tile* __restrict__ a,
                        const Tile* __restrict__ b) {
      const bool present = pair.has(half(), step);
      float of_a = 0, of_b = 0;
      if (present) {
        const TileTask task = pair.task(half(), step);
        of_a = static_cast<float>(a[task.a].bitmap >> cell() & 1);
        of_b = static_cast<float>(b[task.b].bitmap >> bit_of_b() & 1);
      }
      add_product(present, of_a, of_b, sum);
    }

    __device__ std::uint64_t cells(int of_half) const {
      return join_tile(sum != 0 ? std::uint64_t{1} << cell() : 0, of_half);
    }
  };

  static constexpr int kThreads = Counter::kThreads;
  float sum = 0;

  __device__ static float value_of(const Tile& tile, const float* __restrict__ values, int bit) {
    return (tile.bitmap >> bit & 1) != 0 ? values[place_of(tile, bit)] : 0;
  }

  __device__ void add(const PairOfTasks& pair, std::uint32_t step, const TilesView<float>& a,
                      const TilesView<float>& b) {
    const bool present = pair.has(half(), step);
    float of_a = 0, of_b = 0;
    if (present) {
      const TileTask task = pair.task(half(), step);
      of_a = value_of(a.tiles[task.a], a.values, cell());
      of_b = value_of(b.tiles[task.b], b.values, bit_of_b());
    }
    add_product(present, of_a, of_b, sum);
  }

  __device__ void store(std::int64_t tile, std::int64_t tiles, const ViewOfC& c,
                        const Finish& finish, const Kept& kept) const {
    const std::int64_t own = tile + half();
    const std::uint64_t pattern = own < tiles ? c.bitmap[own] : 0;
    std::uint64_t nonzero = 0;
    if (pattern != 0)
      nonzero = store_cells<1>(&sum, pattern, cell(), c.values + c.first_value[own], finish);
    if (kept.bitmap == nullptr) return;
    nonzero = join_tile(nonzero, half());
    if (cell() == 0 && own < tiles) kept.write(own, nonzero, pattern);
  }
};

/// Finds the rows, columns and cells of the tiles of C as count_cells() does, by products of zeros
/// and ones.
template <class Counter>
__global__ void __launch_bounds__(Counter::kThreads)
    count_pairs(TaskList list, const Tile* __restrict__ a,
                const std::int32_t* __restrict__ row_of_a, const Tile* __restrict__ b, ViewOfC c) {
  const std::int64_t first = Pairs::item_of(blockIdx.x);
  const PairOfTasks pair(list, first);
  Counter counter;
  for (std::uint32_t step = 0; step < pair.longest(); ++step) counter.add(pair, step, a, b);
#pragma unroll
  for (int half = 0; half < Pairs::kTiles; ++half) {
    const std::uint64_t cells = counter.cells(half);
    const std::int64_t tile = first + half;
    if (threadIdx.x != 0 || tile > list.tiles) continue;
    c.first_value[tile] = __popcll(cells);  // 0 at the end
    if (tile == list.tiles) continue;
    const TileTask task = pair.task(half, 0);
    c.tile_row[tile] = row_of_a[task.a];
    c.tile_col[tile] = b[task.b].col;
    c.bitmap[tile] = cells;
  }
}

/// Multiplies the tasks of a thread block's pair of tiles of C.
template <class Cores>
__global__ void __launch_bounds__(Cores::kThreads)
    multiply_pairs(TaskList list, TilesView<float> a, TilesView<float> b, ViewOfC c, Finish finish,
                   Kept kept) {
  const std::int64_t first = Pairs::item_of(blockIdx.x);
  const PairOfTasks pair(list, first);
  Cores cores;
  for (std::uint32_t step = 0; step < pair.longest(); ++step) cores.add(pair, step, a, b);
  cores.store(first, list.tiles, c, finish, kept);
}

}  // namespace tessera::tsparse
