// What acc_spmm's pipelines have in common on the device: the tasks, the sums of a warp, and how
// they come into C.
#pragma once

#include <type_traits>

#include "kernels/acc_spmm.hpp"
#include "kernels/split_windows.cuh"
#include "kernels/tf32_operands.cuh"
#include "kernels/window_tile.cuh"

namespace tessera::acc_spmm {

using window_tasks::Split;
using window_tasks::Task;
using window_tile::kTileCols;
using window_tile::kWarpCols;
using window_tile::View;

/// A product: operands, tasks, and where the sums of split windows meet.
struct Product {
  View view;
  const Task* tasks;            // [num_tasks]
  const std::uint32_t* shares;  // [num_shares + 1] first task of a warp, where it has several
  std::uint32_t num_shares;
  const Split* splits;  // [num_splits]
  std::uint32_t num_splits;
  std::int64_t num_slots;
  float4* slots;            // [chunks][num_slots][2 groups][32]
  std::uint32_t* arrivals;  // [chunks][num_splits] zero between launches
  bool atomic;
  Store store;
  int promote;
  const float* b;
  float* c;
  Scaling scaling;
};

/// A warp's place in the product.
struct Place {
  std::uint32_t task;
  std::int64_t chunk;
};

/// Calls run(place, task) for what the warp has to do: a task, or those of its share one after
/// another, which takes registers. Those of one chunk of columns come before those of the next:
/// what is gathered from B at a time is narrower than B and stays in the L2.
template <bool kShares, class Run>
__device__ void for_each_task(const Product& product, Run run) {
  const std::int64_t warp = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  const std::uint32_t padded = (product.num_shares + kWarps - 1) / kWarps * kWarps;
  const auto chunk = static_cast<std::uint32_t>(warp / padded);
  const auto share = static_cast<std::uint32_t>(warp - std::int64_t{chunk} * padded);
  if (share >= product.num_shares) return;
  if constexpr (!kShares) {
    const Task task = product.tasks[share];
    run(Place{share, chunk}, task);
  } else {
    const std::uint32_t last = product.shares[share + 1];
    for (std::uint32_t index = product.shares[share]; index < last; ++index) {
      const Task task = product.tasks[index];
      run(Place{index, chunk}, task);
      __syncwarp();  // the warp's shared memory is free
    }
  }
}

/// A lane's sums while TC blocks go by: in the accumulators of the MMAs all the way, or added in
/// FP32 to nearest every so many TC blocks.
template <int kGroups, bool kPromotes>
class Sums {
 public:
  __device__ explicit Sums(int promote) : promote_(promote) {}

  /// 32 columns of a TC block; group after group.
  template <Tf32Precision kPrecision>
  __device__ void add(int group, const float (&b)[2][4], const Tf32Operand<kPrecision, 2>& tile) {
    window_tile::multiply(b, tile, acc_[group]);
  }
  /// All groups of a TC block have been added.
  __device__ void end_tile() {
    if constexpr (kPromotes)
      if (++tiles_ == promote_) move_on();
  }

  __device__ float (&finish())[kGroups][2][4] {
    if constexpr (!kPromotes) return acc_;
    move_on();
    return total_;
  }

 private:
  __device__ void move_on() {
    for (int group = 0; group < kGroups; ++group) {
      for (int mma = 0; mma < 2; ++mma) {
        for (int i = 0; i < 4; ++i) {
          total_[group][mma][i] += acc_[group][mma][i];
          acc_[group][mma][i] = 0;
        }
      }
    }
    tiles_ = 0;
  }

  float acc_[kGroups][2][4] = {};
  float total_[kGroups][2][4] = {};  // no register without promotion
  int tiles_ = 0;
  int promote_;
};

/// What a lane has of a window's C: two rows, and of every group four columns. Where they are takes
/// an address for all of them, not one for each.
class Pieces {
 public:
  __device__ Pieces(const Product& product, const Task& task, std::int64_t first_col, int lane) {
    const View& view = product.view;
    const std::int64_t row = task.window * std::int64_t{window_tile::kWindowRows} + 2 * (lane % 4);
    const std::int64_t col = first_col + lane / 4 * 4;
    c_ = product.c + row * view.n + col;
    stride_ = view.n;
    rows_ = static_cast<int>(min(view.rows - row, std::int64_t{2}));
    cols_ = static_cast<int>(view.n - col);
  }

  /// Calls write(to, four columns of a row, number of columns from there on, if any).
  template <int kGroups, class Write>
  __device__ void write(const float (&acc)[kGroups][2][4], Write write) const {
    for (int j = 0; j < 2; ++j) {
      if (j >= rows_) return;
      for (int group = 0; group < kGroups; ++group)
        write(c_ + j * stride_ + group * kWarpCols, window_tile::row_of(acc[group], j),
              cols_ - group * kWarpCols);
    }
  }

 private:
  float* c_;  // the lane's first element
  std::int64_t stride_;
  int rows_, cols_;  // from there on; none beyond the edges
};

/// beta C where atomics add: a thread block for a split window.
template <int kWindowRows>
__global__ void clear_split_windows(Product product) {
  const std::int64_t row =
      std::int64_t{product.tasks[product.splits[blockIdx.x].first_task].window} * kWindowRows;
  const std::int64_t rows = min(std::int64_t{kWindowRows}, product.view.rows - row);
  float* c = product.c + row * product.view.n;
  begin_adding(c, threadIdx.x, rows * product.view.n, product.scaling);
}

/// As window_tasks::meet, for a lane's accumulators.
template <int kGroups>
__device__ bool meet(const Product& product, const Place& place, const Task& task, int lane,
                     float (&acc)[kGroups][2][4]) {
  float4 sums[2 * kGroups];
  for (int i = 0; i < 2 * kGroups; ++i) sums[i] = window_tile::row_of(acc[i / 2], i % 2);
  const window_tasks::Meeting meeting{product.splits, product.num_splits, product.num_slots,
                                      product.slots, product.arrivals};
  if (!window_tasks::meet(meeting, place.task, place.chunk, task, lane, sums)) return false;
  for (int group = 0; group < kGroups; ++group) {
    for (int j = 0; j < 2; ++j) {
      const float4 sum = sums[2 * group + j];
      acc[group][0][j] = sum.x, acc[group][0][2 + j] = sum.y;
      acc[group][1][j] = sum.z, acc[group][1][2 + j] = sum.w;
    }
  }
  return true;
}

/// Calls run(std::integral_constant) with a store that is only known now.
template <class Run>
__device__ void with_store(Store store, Run run) {
  switch (store) {
    case Store::kWriteBack:
      return run(std::integral_constant<Store, Store::kWriteBack>{});
    case Store::kInL2:
      return run(std::integral_constant<Store, Store::kInL2>{});
    case Store::kStreaming:
      return run(std::integral_constant<Store, Store::kStreaming>{});
    case Store::kWriteThrough:
      return run(std::integral_constant<Store, Store::kWriteThrough>{});
  }
}

/// The sums of a task into C. What is decided at run time is decided once for all of them: every
/// launch fetches the instructions that it runs, and shall find them in one piece. Without
/// `kAnyStore` the stores write back.
template <bool kAligned, bool kAnyStore, int kGroups>
__device__ void deliver(const Product& product, const Place& place, const Task& task, int lane,
                        float (&acc)[kGroups][2][4]) {
  const std::int64_t first_col = place.chunk * kGroups * kWarpCols;
  if (task.split != 0 && !product.atomic && !meet(product, place, task, lane, acc)) return;
  const Pieces pieces(product, task, first_col, lane);
  const auto put = [&](const Scaling& scaling, auto store) {
    pieces.write(acc, [&](float* to, float4 sums, int cols) {
      put_16<kAligned>(to, sums, cols, scaling, store);
    });
  };
  const auto put_all = [&](auto store) {
    if (product.scaling.beta == 0)
      put(Scaling{product.scaling.alpha, 0}, store);
    else
      put(product.scaling, store);
  };
  if (task.split != 0 && product.atomic)
    pieces.write(acc, [&](float* to, float4 sums, int cols) {
      add_16(to, sums, cols, product.scaling.alpha, kAligned);
    });
  else if constexpr (kAnyStore)
    with_store(product.store, put_all);
  else
    put_all(std::integral_constant<Store, Store::kWriteBack>{});
}

}  // namespace tessera::acc_spmm
