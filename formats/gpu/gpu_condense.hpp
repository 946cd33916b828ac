// Condensing on the device: what formats/condense.hpp is for the host.
//
// A thread block marks the columns of one window in a bitmap in shared memory and ranks them by
// counting bits; no sort. Columns too far apart for the bitmap are taken slab by slab.
#pragma once

#include "formats/gpu/gpu_format.hpp"

namespace tessera {

/// Row windows and their active columns, as kernels see them.
struct WindowView {
  DeviceCsr matrix;
  int height = 0;
  std::int64_t windows = 0;
  const std::int32_t* active = nullptr;  // [windows] active columns, or groups, of a window
  const std::int32_t* cols = nullptr;    // [nnz] a window's begin where its nonzeros do
  const std::int32_t* places = nullptr;  // [nnz] as in Condensed
};

class GpuCondensed {
 public:
  GpuCondensed(const DeviceCsr& matrix, int height, int group_cols, cudaStream_t stream);

  const WindowView& view() const { return view_; }

 private:
  StreamBuffer active_, cols_, places_;
  WindowView view_;
};

/// Where each window's tiles begin: the running sum of ceil(active columns / width).
struct TileOffsets {
  StreamBuffer offsets;  // std::uint32_t [windows + 1]
  std::int64_t tiles;    // all of them

  const std::uint32_t* data() const { return offsets.as<std::uint32_t>(); }
};
/// Waits for the stream.
TileOffsets count_tiles(const WindowView& windows, int width, cudaStream_t stream);

/// The most active columns a window has. Waits for the stream.
std::int64_t most_active(const WindowView& windows, cudaStream_t stream);

/// Every so many rows a group of them.
struct RowSample {
  std::int64_t rows;    // of a group, a multiple of every height asked for
  std::int64_t stride;  // from group to group
};

/// The active columns of the sample's windows, added up in *sums on the device.
void sum_sampled(const DeviceCsr& matrix, int height, const RowSample& sample, std::int64_t* sums,
                 cudaStream_t stream);

/// Threads for one window's nonzeros: 32, 128 or 512.
int threads_per_window(const WindowView& windows);

}  // namespace tessera
