// The kernel that clears split windows, for kernels with the schedule of row_windows/schedule.hpp.

#include "kernels/spmm/row_windows/task_multiplication.cuh"

#include "kernels/spmm/row_windows/window16_tile.hpp"

namespace tessera::row_windows {
namespace {

template <int kWindowRows>
__global__ void clear_split_windows(KernelArguments arguments) {
  const Task& first_task = arguments.tasks[arguments.split_windows.splits[blockIdx.x].first_task];
  const std::int64_t row = std::int64_t{first_task.window} * kWindowRows;
  const std::int64_t rows = min(std::int64_t{kWindowRows}, arguments.view.rows - row);
  float* c = arguments.c_fp32() + row * arguments.view.n;
  begin_adding(c, threadIdx.x, rows * arguments.view.n, arguments.scaling);
}

}  // namespace

TaskKernel<> clear_kernel(int window_rows) {
  return window_rows == window_tile::kWindowRows ? clear_split_windows<window_tile::kWindowRows>
                                                 : clear_split_windows<window16_tile::kWindowRows>;
}

}  // namespace tessera::row_windows
