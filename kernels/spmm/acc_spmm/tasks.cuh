// The device code that acc_spmm's pipelines share: the tasks, the accumulators of a warp, and the
// stores of its sums to C.
#pragma once

#include <type_traits>

#include "kernels/spmm/acc_spmm/compiled.cuh"
#include "kernels/spmm/row_windows/task_kernel.cuh"
#include "kernels/tensor_core/tf32_operands.cuh"

namespace tessera::acc_spmm {

using row_windows::KernelArguments;
using row_windows::TaskItem;
using window_tasks::Task;
using window_tile::View;

/// A lane's sums over the TC blocks of a task: in the accumulators of the MMAs alone, or, with
/// kPromotes, added to FP32 registers (rounded to nearest) every `promote` TC blocks.
template <int kGroups, bool kPromotes>
class Accumulators {
 public:
  __device__ explicit Accumulators(int promote) : promote_(promote) {}

  /// Adds 32 columns of a TC block; called for one group after another.
  template <Tf32Precision kPrecision>
  __device__ void add(int group, const float (&b)[2][4], const Tf32Operand<kPrecision, 2>& tile) {
    window_tile::multiply(b, tile, acc_[group]);
  }
  /// Called when all groups of a TC block have been added.
  __device__ void end_tile() {
    if constexpr (kPromotes)
      if (++tiles_ == promote_) promote();
  }

  __device__ float (&finish())[kGroups][2][4] {
    if constexpr (!kPromotes) return acc_;
    promote();
    return total_;
  }

 private:
  __device__ void promote() {
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
  float total_[kGroups][2][4] = {};  // takes no register without promotion
  int tiles_ = 0;
  int promote_;
};

/// A lane's elements of a window's C: two rows, four columns of every group, at one base address.
class OutputRows {
 public:
  __device__ OutputRows(const KernelArguments& arguments, const Task& task, std::int64_t first_col,
                        int lane) {
    const View& view = arguments.view;
    const std::int64_t row = task.window * std::int64_t{window_tile::kWindowRows} + 2 * (lane % 4);
    const std::int64_t col = first_col + lane / 4 * 4;
    c_ = arguments.c_fp32() + row * view.n + col;
    stride_ = view.n;
    rows_ = static_cast<int>(min(view.rows - row, std::int64_t{2}));
    cols_ = static_cast<int>(view.n - col);
  }

  /// Calls write(to, four columns of a row, number of columns from there to the edge, if positive).
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
  int rows_, cols_;  // from there to the edges; not positive beyond them
};

/// Calls run(std::integral_constant) with a store operator that is known at run time.
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

/// Writes the sums of a task to C, or to the slot of its split window. A run-time choice is made
/// once for all sums, so that the instructions of each launch are contiguous.
template <class V, int kGroups>
__device__ void store_task(const KernelArguments& arguments, const TaskItem& item, const Task& task,
                           int lane, float (&acc)[kGroups][2][4]) {
  constexpr bool kAligned = V::kVariant.aligned;
  const std::int64_t first_col = V::schedule().first_col(item.chunk);
  if (task.split != 0 && !arguments.atomic &&
      !row_windows::combine_split_window(arguments, item, task, lane, acc))
    return;
  const OutputRows rows(arguments, task, first_col, lane);
  const auto write = [&](const Scaling& scaling, auto store) {
    rows.write(acc, [&](float* to, float4 sums, int cols) {
      store_16_bytes<kAligned>(to, sums, cols, scaling, store);
    });
  };
  const auto write_scaled = [&](auto store) {
    if (arguments.scaling.beta == 0)
      write(Scaling{arguments.scaling.alpha, 0}, store);
    else
      write(arguments.scaling, store);
  };
  if (task.split != 0 && arguments.atomic)
    rows.write(acc, [&](float* to, float4 sums, int cols) {
      add_16_bytes(to, sums, cols, arguments.scaling.alpha, kAligned);
    });
  else if constexpr (V::kVariant.any_store)
    with_store(arguments.store, write_scaled);
  else
    write_scaled(std::integral_constant<Store, Store::kWriteBack>{});
}

}  // namespace tessera::acc_spmm
