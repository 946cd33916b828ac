// What acc_spmm's pipelines have in common on the device: the tasks, the sums of a warp, and how
// they come into C.
#pragma once

#include <type_traits>

#include "kernels/spmm/acc_spmm/acc_spmm.hpp"
#include "kernels/spmm/row_windows/window_launch.cuh"
#include "kernels/tensor_core/tf32_operands.cuh"

namespace tessera::acc_spmm {

using window_tasks::Split;
using window_tasks::Task;
using window_tile::kTileCols;
using window_tile::kWarpCols;
using window_tile::View;

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
  __device__ Pieces(const KernelArguments& product, const Task& task, std::int64_t first_col,
                    int lane) {
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
__device__ void deliver(const KernelArguments& product, const WorkItem& place, const Task& task,
                        int lane, float (&acc)[kGroups][2][4]) {
  const std::int64_t first_col = place.chunk * kGroups * kWarpCols;
  if (task.split != 0 && !product.atomic && !meet(product, place, task, lane, acc)) return;
  const Pieces pieces(product, task, first_col, lane);
  const auto put = [&](const Scaling& scaling, auto store) {
    pieces.write(acc, [&](float* to, float4 sums, int cols) {
      store_16_bytes<kAligned>(to, sums, cols, scaling, store);
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
      add_16_bytes(to, sums, cols, product.scaling.alpha, kAligned);
    });
  else if constexpr (kAnyStore)
    with_store(product.store, put_all);
  else
    put_all(std::integral_constant<Store, Store::kWriteBack>{});
}

}  // namespace tessera::acc_spmm
