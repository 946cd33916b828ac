// The merges of merge_spgemm: a group of lanes, one for each input, takes the least column of all
// inputs in each step. See kernels/spgemm/merge/merge_spgemm.cu.
#pragma once

#include <cstdint>

#include "kernels/spgemm/merge/analysis.cuh"

namespace tessera::merge_spgemm {

using row_bins::kWholeWarp;

constexpr int kNoColumn = 0x7fffffff;  // greater than all columns

/// What merging does: it counts the columns of merged rows, writes them with their values to places
/// that follow from the counts, or does both at once, in room for every product.
enum class Pass { kCount, kMultiply, kBoth };
constexpr bool counts(Pass pass) { return pass != Pass::kMultiply; }
constexpr bool multiplies(Pass pass) { return pass != Pass::kCount; }

/// The sparse rows to merge: input k is row order[k] times scales[k] or, without an order, row k.
struct Inputs {
  const std::int64_t* offsets;
  const int* cols;
  const float* values;
  const int* order;     // nullptr: in their order
  const float* scales;  // used with an order
};

/// Task i merges inputs [begins[place], ends[place]) into row to[place], with place = places[i];
/// nullptr for places or to stands for the identity. Tasks of a width follow each other, narrow
/// ones first.
struct Tasks {
  std::int64_t first_of_width[kWidths + 1];
  const int* places;
  const std::int64_t* begins;
  const std::int64_t* ends;
  const int* to;
};

/// The output: lengths of merged rows when counting, their columns and values when multiplying.
struct Merged {
  int* lengths = nullptr;
  row_bins::Sum* of_tiles = nullptr;  // unless nullptr, the lengths add up by tile, too
  const std::int64_t* offsets = nullptr;
  unsigned* taken = nullptr;  // the room that rows have taken, where offsets are not known
  int* rooms = nullptr;       // where each row begins there
  int* cols = nullptr;
  float* values = nullptr;
  float alpha = 1;
};

/// A lane's walk through a sparse row.
template <Pass kPass, bool kScales>
struct Cursor {
  static constexpr bool kMultiply = multiplies(kPass);

  std::int64_t at = 0, end = 0;
  float scale = 0;
  int col = kNoColumn;
  float value = 0;

  __device__ void begin(const Inputs& inputs, std::int64_t k) {
    const std::int64_t row = kScales ? inputs.order[k] : k;
    at = inputs.offsets[row];
    end = inputs.offsets[row + 1];
    if (kScales && kMultiply) scale = inputs.scales[k];
    load(inputs);
  }
  __device__ void next(const Inputs& inputs) {
    ++at;
    load(inputs);
  }
  /// The rounded product, which must not become part of a fused multiply-add.
  __device__ float product() const { return kScales ? __fmul_rn(scale, value) : value; }

 private:
  __device__ void load(const Inputs& inputs) {
    col = at < end ? inputs.cols[at] : kNoColumn;
    if (kMultiply && at < end) value = inputs.values[at];
  }
};

template <int kWidth>
__device__ int least_of_group(int x) {
  for (int step = kWidth / 2; step > 0; step /= 2) x = min(x, __shfl_xor_sync(kWholeWarp, x, step));
  return x;
}

template <int kWidth>
__device__ float sum_of_group(float x) {
  for (int step = kWidth / 2; step > 0; step /= 2)
    x = __fadd_rn(x, __shfl_xor_sync(kWholeWarp, x, step));
  return x;
}

/// Collects a group's elements, one per lane, and stores them when every lane has one.
template <int kWidth>
struct Writer {
  int count = 0;
  int col = 0;
  float value = 0;

  __device__ void put(int new_col, float new_value, const Merged& merged, std::int64_t to,
                      int lane) {
    if (count % kWidth == lane) {
      col = new_col;
      value = new_value;
    }
    if (++count % kWidth == 0) store(merged, to + count - kWidth + lane);
  }
  __device__ void flush(const Merged& merged, std::int64_t to, int lane) const {
    if (lane < count % kWidth) store(merged, to + count - count % kWidth + lane);
  }

 private:
  __device__ void store(const Merged& merged, std::int64_t at) const {
    merged.cols[at] = col;
    merged.values[at] = merged.alpha == 1 ? value : merged.alpha * value;
  }
};

/// Takes room for the elements of each group, of which this lane may add `most`; returns where the
/// group's begins. Every thread has to call it.
template <int kWidth>
__device__ int take_room(int most, unsigned* taken) {
  constexpr int kLanes = 32;
  __shared__ int of_warps[kThreads / kLanes], first;
  const int lane = threadIdx.x % kLanes, warp = threadIdx.x / kLanes;
  int sum = most;
#pragma unroll
  for (int step = 1; step < kLanes; step *= 2) {
    const int below = __shfl_up_sync(kWholeWarp, sum, step);
    if (lane >= step) sum += below;
  }
  if (lane == kLanes - 1) of_warps[warp] = sum;
  __syncthreads();
  int before = 0;
  for (int w = 0; w < warp; ++w) before += of_warps[w];
  if (threadIdx.x == kThreads - 1)
    first = static_cast<int>(atomicAdd(taken, static_cast<unsigned>(before + sum)));
  __syncthreads();
  return __shfl_sync(kWholeWarp, first + before + sum - most, lane / kWidth * kWidth);
}

/// Merges a task before `last` by a group of kWidth lanes. All groups of a warp stay until the last
/// one has finished.
template <int kWidth, Pass kPass, bool kScales>
__device__ void merge_task(std::int64_t task, std::int64_t last, const Tasks& tasks,
                           const Inputs& inputs, const Merged& merged) {
  const int lane = threadIdx.x % kWidth;
  std::int64_t row = 0, to = 0;
  Cursor<kPass, kScales> cursor;
  if (task < last) {
    const std::int64_t place = tasks.places == nullptr ? task : tasks.places[task];
    row = tasks.to == nullptr ? place : tasks.to[place];
    if (kPass == Pass::kMultiply) to = merged.offsets[row];
    const std::int64_t k = tasks.begins[place] + lane;
    if (k < tasks.ends[place]) cursor.begin(inputs, k);
  }
  if constexpr (kPass == Pass::kBoth)
    to = take_room<kWidth>(static_cast<int>(cursor.end - cursor.at), merged.taken);
  Writer<kWidth> writer;
  for (;;) {
    const int least = least_of_group<kWidth>(cursor.col);
    const bool goes_on = least != kNoColumn, takes = goes_on && cursor.col == least;
    if (!__any_sync(kWholeWarp, goes_on)) break;
    if constexpr (multiplies(kPass)) {
      const float sum = sum_of_group<kWidth>(takes ? cursor.product() : 0.0f);
      if (goes_on) writer.put(least, sum, merged, to, lane);
    } else {
      writer.count += goes_on;
    }
    if (takes) cursor.next(inputs);
  }
  if constexpr (multiplies(kPass)) writer.flush(merged, to, lane);
  if (counts(kPass) && task < last && lane == 0) {
    merged.lengths[row] = writer.count;
    if (kPass == Pass::kBoth) merged.rooms[row] = static_cast<int>(to);
    if (merged.of_tiles != nullptr)
      atomicAdd(merged.of_tiles + row / spgemm::kTile, static_cast<row_bins::Sum>(writer.count));
  }
}

/// The first thread block of each width of groups. The widest come first, as their rows are the
/// longest.
struct FirstBlocks {
  unsigned of_width[kWidths];
};

/// Merges the tasks of a thread block whose groups have this width or a smaller one.
template <int kClass, Pass kPass, bool kScales>
__device__ void merge_widths(const FirstBlocks& blocks, const Tasks& tasks, const Inputs& inputs,
                             const Merged& merged) {
  constexpr int kWidth = width_of_class(kClass);
  if constexpr (kClass > 0)
    if (blockIdx.x >= blocks.of_width[kClass - 1])
      return merge_widths<kClass - 1, kPass, kScales>(blocks, tasks, inputs, merged);
  const std::int64_t block = blockIdx.x - blocks.of_width[kClass];
  merge_task<kWidth, kPass, kScales>(
      tasks.first_of_width[kClass] + (block * kThreads + threadIdx.x) / kWidth,
      tasks.first_of_width[kClass + 1], tasks, inputs, merged);
}

template <Pass kPass, bool kScales>
__global__ void __launch_bounds__(kThreads)
    merge(FirstBlocks blocks, Tasks tasks, Inputs inputs, Merged merged) {
  merge_widths<kWidths - 1, kPass, kScales>(blocks, tasks, inputs, merged);
}

template <Pass kPass>
void launch_merge(const Tasks& tasks, const Inputs& inputs, const Merged& merged,
                  cudaStream_t stream) {
  unsigned blocks = 0;
  FirstBlocks first{};
  for (int i = kWidths - 1; i >= 0; --i) {
    first.of_width[i] = blocks;
    blocks += row_bins::blocks_for(tasks.first_of_width[i + 1] - tasks.first_of_width[i],
                                   kThreads / width_of_class(i));
  }
  if (blocks == 0) return;
  const auto kernel = inputs.order != nullptr ? merge<kPass, true> : merge<kPass, false>;
  kernel<<<blocks, kThreads, 0, stream>>>(first, tasks, inputs, merged);
  cuda_check(cudaGetLastError(), "merging rows");
}

}  // namespace tessera::merge_spgemm
