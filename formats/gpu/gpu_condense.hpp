// Condensing on the device, the counterpart of formats/condense.hpp.
//
// A thread block marks the columns of one window in a bitmap in shared memory and ranks them by
// counting bits, without a sort. Columns too far apart for one bitmap are processed slab by slab.
#pragma once

#include "formats/gpu/gpu_format.hpp"

namespace tessera {

/// Row windows and their active columns, as kernels see them.
struct WindowView {
  DeviceCsr matrix;
  int height = 0;
  std::int64_t windows = 0;
  const std::int32_t* active = nullptr;  // [windows] number of active columns, or groups
  const std::int32_t* cols = nullptr;    // [nnz] active columns; a window's begin at the index of
                                         // its first nonzero
  const std::int32_t* places = nullptr;  // [nnz] as in Condensed
};

/// The condensed windows of a matrix and their memory, built in the order of the stream.
class GpuCondensed {
 public:
  GpuCondensed(const DeviceCsr& matrix, int height, int group_cols, cudaStream_t stream);

  const WindowView& view() const { return view_; }

 private:
  StreamBuffer memory_;  // of the arrays of the view
  WindowView view_;
};

/// The first tile of each window: the prefix sum of ceil(active columns / width).
struct TileOffsets {
  StreamBuffer offsets;  // std::uint32_t [windows + 1]
  std::int64_t tiles;    // of all windows

  const std::uint32_t* data() const { return offsets.as<std::uint32_t>(); }
};
/// Counts the tiles of `width` active columns. Waits for the stream.
TileOffsets count_tiles(const WindowView& windows, int width, cudaStream_t stream);

/// The largest number of active columns of a window. Waits for the stream.
std::int64_t most_active(const WindowView& windows, cudaStream_t stream);

/// The number of threads for one window's nonzeros: 32, 128 or 512.
int threads_per_window(const WindowView& windows);

}  // namespace tessera
