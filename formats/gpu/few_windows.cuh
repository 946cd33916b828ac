// Building a packed matrix of few row windows in one launch.
//
// A small matrix is packed in the time that its launches, its allocations and its wait take the
// host, so there is one of each. A thread block condenses its window in shared memory, tells the
// others how many tiles it has, and adds up those of the windows before it.
#pragma once

#include "formats/base/read_back.hpp"
#include "formats/gpu/column_slab.cuh"
#include "formats/gpu/window_kernel.cuh"

namespace tessera {

/// The most windows that one launch takes: each reads the tiles of all before it.
constexpr std::int64_t kFewWindows = 1024;
/// Of more nonzeros the bound of tiles, for which there is room, would take too much memory.
constexpr std::int64_t kFewNonzeros = std::int64_t{1} << 20;

/// Groups of columns whose bitmap fits shared memory beside the scratch of sums.
constexpr int kFewGroups = 192;

/// Whether build_few_windows() takes these windows: their columns have to fit one slab.
inline bool are_few_windows(const WindowView& windows) {
  return windows.windows > 0 && windows.windows <= kFewWindows &&
         windows.matrix.nnz <= kFewNonzeros && windows.matrix.cols <= kFewGroups * kGroupCols;
}

/// The tiles of windows, told between thread blocks. The words are zero between launches.
struct TilesOfWindows {
  std::uint32_t* words;  // [kFewWindows] tiles + 1 of a window that has told them
  std::uint32_t* ended;  // thread blocks that have read all that they need

  __device__ void tell(std::int64_t window, std::uint32_t tiles) const {
    static_cast<volatile std::uint32_t*>(words)[window] = tiles + 1;
  }
  /// Waits for the window. Thread blocks begin in order, so that it has begun.
  __device__ std::uint32_t wait(std::int64_t window) const {
    const volatile std::uint32_t& word = words[window];
    std::uint32_t told = 0;
    do told = word;
    while (told == 0);
    return told - 1;
  }
  /// The last thread block of `windows` to end its reads clears the words.
  __device__ void end_reads(std::int64_t windows) const {
    __shared__ bool is_last;
    if (threadIdx.x == 0) is_last = atomicAdd(ended, 1) + 1 == windows;
    __syncthreads();
    if (!is_last) return;
    for (std::int64_t i = threadIdx.x; i < windows; i += blockDim.x) words[i] = 0;
    if (threadIdx.x == 0) *ended = 0;
  }
};

/// A window whose columns are ranked in shared memory.
template <int kThreads>
struct SlabWindow : Window<kThreads> {
  const Slab& slab;
  int columns;

  __device__ SlabWindow(const Window<kThreads>& window, const Slab& of_columns, int number)
      : Window<kThreads>(window), slab(of_columns), columns(number) {}

  /// As of Window.
  __device__ void write_padded_columns(std::int32_t* to, std::int64_t count) const {
    for (std::int64_t k = this->first_nonzero + threadIdx.x; k < this->last_nonzero;
         k += kThreads) {
      const std::int32_t col = this->all.matrix.col_indices[k];
      to[slab.rank(static_cast<std::uint32_t>(col))] = col;
    }
    for (std::int64_t i = columns + threadIdx.x; i < count; i += kThreads) to[i] = kNoColumn;
  }
  template <class Visit>
  __device__ void for_each_nonzero(Visit visit) const {
    this->for_each_entry([&](int row, std::int64_t k) {
      const std::int32_t col = this->all.matrix.col_indices[k];
      visit(row, static_cast<int>(slab.rank(static_cast<std::uint32_t>(col))), k);
    });
  }
};

/// Calls body(window, its first tile, its tiles) for the window of the thread block. `groups` are
/// those of all columns.
template <int kThreads, class Body>
__global__ void __launch_bounds__(kThreads)
    through_few_windows(WindowView windows, int groups, int tile_cols, TilesOfWindows told,
                        Body body) {
  extern __shared__ std::uint32_t memory[];
  const Slab slab(memory, groups);
  slab.clear_all<kThreads>();
  __syncthreads();
  const Window<kThreads> window(windows, blockIdx.x);
  for (std::int64_t k = window.first_nonzero + threadIdx.x; k < window.last_nonzero; k += kThreads)
    slab.mark(static_cast<std::uint32_t>(windows.matrix.col_indices[k]));
  __syncthreads();
  const std::uint32_t columns = slab.rank_groups<kThreads>(groups, 0);
  const std::uint32_t tiles = (columns + tile_cols - 1) / tile_cols;
  if (threadIdx.x == 0) told.tell(window.index, tiles);
  const std::int64_t first =
      window.sum(window.index, [&](std::int64_t before) { return told.wait(before); });
  body(SlabWindow<kThreads>(window, slab, static_cast<int>(columns)), first, tiles);
  told.end_reads(windows.windows);
}

/// The words of TilesOfWindows, kept by a thread for its current device.
class KeptTilesOfWindows {
 public:
  /// Allocates them at the first call on a device, and then waits until they are zero.
  TilesOfWindows get() {
    int device = 0;
    cuda_check(cudaGetDevice(&device), "querying the device");
    if (device != device_) {
      words_ = DeviceArray<std::uint32_t>(
          std::vector<std::uint32_t>(static_cast<std::size_t>(kFewWindows + 1)));
      device_ = device;
    }
    return {words_.data(), words_.data() + kFewWindows};
  }

 private:
  int device_ = -1;
  DeviceArray<std::uint32_t> words_;
};

/// Runs body(window, its first tile, its tiles) for every window of are_few_windows(), in one
/// launch on the stream. A thread has one such launch at a time: it waits for the stream before the
/// next one.
template <class Body>
void for_each_few_windows(const WindowView& windows, int tile_cols, const Body& body,
                          cudaStream_t stream) {
  static thread_local KeptTilesOfWindows kept;
  const TilesOfWindows told = kept.get();
  const int groups = (windows.matrix.cols - 1) / kGroupCols + 1;
  const int bytes = Slab::bytes(groups);
  const auto blocks = static_cast<unsigned>(windows.windows);
  if (threads_per_window(windows) <= 128)
    through_few_windows<128>
        <<<blocks, 128, bytes, stream>>>(windows, groups, tile_cols, told, body);
  else
    through_few_windows<512>
        <<<blocks, 512, bytes, stream>>>(windows, groups, tile_cols, told, body);
  cuda_check(cudaGetLastError(), "building a packed matrix");
}

}  // namespace tessera
