// Kernels with one thread block per row window, from which all device builders are made.
#pragma once

#include <cub/block/block_scan.cuh>

#include "formats/gpu/gpu_condense.hpp"

namespace tessera {

/// One window as the threads of its thread block see it.
template <int kThreads>
struct Window {
  const WindowView& all;
  std::int64_t index;
  std::int64_t first_nonzero;
  std::int64_t last_nonzero;

  __device__ Window(const WindowView& view, std::int64_t window)
      : all(view),
        index(window),
        first_nonzero(view.matrix.row_offsets[window * view.height]),
        last_nonzero(view.matrix.row_offsets[min((window + 1) * view.height,
                                                 std::int64_t{view.matrix.rows})]) {}

  __device__ int active() const { return all.active[index]; }
  /// The i-th active column of the window.
  __device__ std::int32_t col(int i) const { return all.cols[first_nonzero + i]; }

  /// Calls visit(i) for i in [0, count), distributed over the threads.
  template <class Visit>
  __device__ void for_each(std::int64_t count, Visit visit) const {
    for (std::int64_t i = threadIdx.x; i < count; i += kThreads) visit(i);
  }

  /// Writes the active columns, followed by kNoColumn, to to[count].
  __device__ void write_padded_columns(std::int32_t* to, std::int64_t count) const {
    const int columns = active();
    for_each(count,
             [&](std::int64_t i) { to[i] = i < columns ? col(static_cast<int>(i)) : kNoColumn; });
  }

  /// Calls visit(row in the window, nonzero) for every nonzero, distributed over the threads.
  template <class Visit>
  __device__ void for_each_entry(Visit visit) const {
    const std::int64_t first_row = index * all.height;
    const int rows = static_cast<int>(min(std::int64_t{all.height}, all.matrix.rows - first_row));
    const std::int64_t* const offsets = all.matrix.row_offsets + first_row;
    for (std::int64_t k = first_nonzero + threadIdx.x; k < last_nonzero; k += kThreads) {
      int row = 0;  // the last one that begins at or before k
      for (int high = rows; high - row > 1;) {
        const int middle = (row + high) / 2;
        (offsets[middle] <= k ? row : high) = middle;
      }
      visit(row, k);
    }
  }

  /// Calls visit(row in the window, place, nonzero) for every nonzero, distributed over the
  /// threads; `place` is the position of its column among the active ones.
  template <class Visit>
  __device__ void for_each_nonzero(Visit visit) const {
    for_each_entry([&](int row, std::int64_t k) { visit(row, all.places[k], k); });
  }

  /// The sum of value(i) for i in [0, count), returned to every thread.
  template <class Value>
  __device__ std::int64_t sum(std::int64_t count, Value value) const {
    std::int64_t sum = 0;
    running_sum(
        count, 0, value, [](std::int64_t, std::int64_t) {}, &sum);
    return sum;
  }

  /// Calls write(i, sum + value(0) + ... + value(i - 1)) for i in [0, count), and stores the final
  /// sum in *total unless that is null.
  template <class Value, class Write>
  __device__ void running_sum(std::int64_t count, std::int64_t sum, Value value, Write write,
                              std::int64_t* total = nullptr) const {
    using Scan = cub::BlockScan<std::uint32_t, kThreads>;
    __shared__ typename Scan::TempStorage scratch;
    for (std::int64_t base = 0; base < count; base += kThreads) {
      const std::int64_t i = base + threadIdx.x;
      std::uint32_t before = 0, all_of_them = 0;
      Scan(scratch).ExclusiveSum(i < count ? value(i) : 0u, before, all_of_them);
      if (i < count) write(i, sum + before);
      sum += all_of_them;
      __syncthreads();
    }
    if (total != nullptr) *total = sum;
  }
};

template <int kThreads, class Body>
__global__ void __launch_bounds__(kThreads) through_windows(WindowView windows, Body body) {
  for (std::int64_t window = blockIdx.x; window < windows.windows; window += gridDim.x)
    body(Window<kThreads>(windows, window));
}

/// Runs body(Window) for every window; the body is a struct with a templated device operator().
template <class Body>
void for_each_window(const WindowView& windows, const Body& body, cudaStream_t stream) {
  if (windows.windows == 0) return;
  constexpr std::int64_t kMaxBlocks = 1 << 20;
  const auto blocks = static_cast<unsigned>(std::min(windows.windows, kMaxBlocks));
  switch (threads_per_window(windows)) {
    case 32:
      through_windows<32><<<blocks, 32, 0, stream>>>(windows, body);
      break;
    case 128:
      through_windows<128><<<blocks, 128, 0, stream>>>(windows, body);
      break;
    default:
      through_windows<512><<<blocks, 512, 0, stream>>>(windows, body);
  }
  cuda_check(cudaGetLastError(), "building a packed matrix");
}

}  // namespace tessera
