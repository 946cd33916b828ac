// Condensing on the device: bitmaps of columns in shared memory, ranked by counting bits.
//
// Columns too far apart for one bitmap are processed slab by slab.

#include <cub/device/device_scan.cuh>

#include <limits>

#include "formats/gpu/column_slab.cuh"
#include "formats/gpu/gpu_condense.hpp"
#include "formats/gpu/running_sum.cuh"

namespace tessera {
namespace {

struct CondenseJob {
  DeviceCsr matrix;
  int height;
  int group_cols;
  int shift;  // log2(group_cols), or -1
  std::int64_t windows;
  int slab_groups;
  std::int32_t* active;
  std::int32_t* cols;
  std::int32_t* places;

  __device__ std::int64_t first_row(std::int64_t window) const { return window * height; }

  __device__ std::uint32_t group_of(std::int64_t nonzero) const {
    const auto col = static_cast<std::uint32_t>(matrix.col_indices[nonzero]);
    return shift >= 0 ? col >> shift : col / static_cast<std::uint32_t>(group_cols);
  }
};

/// The least and the greatest column of a window; its rows are in order.
template <int kThreads>
__device__ void column_range(const CondenseJob& job, std::int64_t first_row,
                             std::uint32_t (&range)[2]) {
  if (threadIdx.x == 0) range[0] = 0xffffffffu, range[1] = 0;
  __syncthreads();
  for (int r = static_cast<int>(threadIdx.x); r < job.height; r += kThreads) {
    const std::int64_t row = first_row + r;
    if (row >= job.matrix.rows) break;
    const std::int64_t first = job.matrix.row_offsets[row], last = job.matrix.row_offsets[row + 1];
    if (first == last) continue;
    atomicMin(&range[0], job.group_of(first));
    atomicMax(&range[1], job.group_of(last - 1));
  }
  __syncthreads();
}

template <int kThreads>
__global__ void __launch_bounds__(kThreads) condense_windows(CondenseJob job) {
  extern __shared__ std::uint32_t memory[];
  __shared__ std::uint32_t range[2];
  const Slab slab(memory, job.slab_groups);
  const auto thread = static_cast<int>(threadIdx.x);
  slab.clear_all<kThreads>();

  for (std::int64_t window = blockIdx.x; window < job.windows; window += gridDim.x) {
    const std::int64_t first_row = job.first_row(window);
    const std::int64_t first = job.matrix.row_offsets[first_row];
    const std::int64_t last =
        job.matrix.row_offsets[min(first_row + job.height, std::int64_t{job.matrix.rows})];
    if (first == last) {
      if (thread == 0) job.active[window] = 0;
      continue;
    }
    column_range<kThreads>(job, first_row, range);
    const std::uint32_t greatest = range[1];
    std::uint32_t found = 0;
    for (std::uint32_t begin = range[0] & ~(kGroupCols - 1u); begin <= greatest;
         begin += job.slab_groups * kGroupCols) {
      const int groups =
          min(job.slab_groups, static_cast<int>((greatest - begin) / kGroupCols) + 1);
      const std::uint32_t width = groups * kGroupCols;
      for (std::int64_t k = first + thread; k < last; k += kThreads) {
        const std::uint32_t col = job.group_of(k) - begin;
        if (col < width) slab.mark(col);
      }
      __syncthreads();
      found = slab.rank_groups<kThreads>(groups, found);
      for (std::int64_t k = first + thread; k < last; k += kThreads) {
        const std::uint32_t group = job.group_of(k);
        const std::uint32_t col = group - begin;
        if (col >= width) continue;
        const std::uint32_t place = slab.rank(col);
        job.places[k] = static_cast<std::int32_t>(place);
        // Every nonzero of a column writes the same value.
        job.cols[first + place] = static_cast<std::int32_t>(group);
      }
      __syncthreads();
      for (int group = thread; group < groups; group += kThreads) slab.clear(group);
      __syncthreads();
    }
    if (thread == 0) job.active[window] = static_cast<std::int32_t>(found);
  }
}

/// The thread blocks that the device holds at a time.
template <int kThreads>
std::int64_t resident(int bytes) {
  int per_sm = 0, device = 0, sms = 0;
  cuda_check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, condense_windows<kThreads>,
                                                           kThreads, bytes),
             "querying the occupancy");
  cuda_check(cudaGetDevice(&device), "querying the device");
  cuda_check(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device),
             "querying the number of SMs");
  return std::int64_t{per_sm} * sms;
}

template <int kThreads>
void launch(const CondenseJob& job, cudaStream_t stream) {
  // A thread block for each window where they are so few that to ask the device takes longer.
  constexpr std::int64_t kFewWindows = 512;
  const int bytes = Slab::bytes(job.slab_groups);
  const std::int64_t blocks =
      job.windows <= kFewWindows ? job.windows : std::min(job.windows, resident<kThreads>(bytes));
  condense_windows<kThreads><<<static_cast<unsigned>(blocks), kThreads, bytes, stream>>>(job);
  cuda_check(cudaGetLastError(), "condensing");
}

/// The number of threads for one window's nonzeros, given their mean number.
int threads_for(std::int64_t nonzeros, std::int64_t windows) {
  const std::int64_t mean = nonzeros / std::max<std::int64_t>(1, windows);
  return mean <= 64 ? 32 : mean <= 1024 ? 128 : 512;
}

/// The job of all windows of that height, without its outputs.
CondenseJob job_for(const DeviceCsr& matrix, int height, int group_cols) {
  const std::int64_t windows = (std::int64_t{matrix.rows} + height - 1) / height;
  const std::int64_t groups = (std::int64_t{matrix.cols} / group_cols + kGroupCols) / kGroupCols;
  return {matrix,     height,
          group_cols, (group_cols & (group_cols - 1)) == 0 ? __builtin_ctz(group_cols) : -1,
          windows,    static_cast<int>(std::min<std::int64_t>(groups, kMaxGroups)),
          nullptr,    nullptr,
          nullptr};
}

void launch(const CondenseJob& job, cudaStream_t stream) {
  if (job.windows == 0) return;
  switch (
      threads_for(job.matrix.nnz, (std::int64_t{job.matrix.rows} + job.height - 1) / job.height)) {
    case 32:
      launch<64>(job, stream);
      break;
    case 128:
      launch<128>(job, stream);
      break;
    default:
      launch<512>(job, stream);
  }
}

/// ceil(active / width) of a window; 0 behind the last window.
struct TilesOf {
  const std::int32_t* active;
  std::int64_t windows;
  int width;
  __host__ __device__ std::uint32_t operator()(std::int64_t window) const {
    return window < windows ? (static_cast<std::uint32_t>(active[window]) + width - 1) / width : 0;
  }
};

}  // namespace

int threads_per_window(const WindowView& windows) {
  return threads_for(windows.matrix.nnz, windows.windows);
}

GpuCondensed::GpuCondensed(const DeviceCsr& matrix, int height, int group_cols,
                           cudaStream_t stream) {
  CondenseJob job = job_for(matrix, height, group_cols);
  const std::int64_t of_windows = room_of(4 * job.windows);
  const std::int64_t of_nonzeros = room_of(4 * matrix.nnz);
  memory_ = StreamBuffer(of_windows + 2 * of_nonzeros, stream);
  job.active = memory_.as<std::int32_t>();
  job.cols = job.active + of_windows / 4;
  job.places = job.cols + of_nonzeros / 4;
  view_ = {matrix, height, job.windows, job.active, job.cols, job.places};
  if (matrix.nnz > 0)
    launch(job, stream);
  else if (job.windows > 0)
    cuda_check(cudaMemsetAsync(job.active, 0, static_cast<std::size_t>(4 * job.windows), stream),
               "condensing");
}

TileOffsets count_tiles(const WindowView& windows, int width, cudaStream_t stream) {
  TileOffsets result{StreamBuffer(4 * (windows.windows + 1), stream), 0};
  auto* const offsets = result.offsets.as<std::uint32_t>();
  const auto tiles = thrust::make_transform_iterator(
      thrust::counting_iterator<std::int64_t>(0), TilesOf{windows.active, windows.windows, width});
  result.tiles = read_running_sum(tiles, offsets, windows.windows + 1, stream);
  return result;
}

std::int64_t most_active(const WindowView& windows, cudaStream_t stream) {
  if (windows.windows == 0) return 0;
  const StreamBuffer most(4, stream);
  std::size_t bytes = 0;
  cuda_check(cub::DeviceReduce::Max(nullptr, bytes, windows.active, most.as<std::int32_t>(),
                                    windows.windows, stream),
             "querying the scratch memory of a maximum");
  const StreamBuffer scratch(static_cast<std::int64_t>(bytes), stream);
  cuda_check(cub::DeviceReduce::Max(scratch.as<void>(), bytes, windows.active,
                                    most.as<std::int32_t>(), windows.windows, stream),
             "finding the longest window");
  return read_back(most.as<std::int32_t>(), stream);
}

}  // namespace tessera
