// A warp's reader of the nonzeros of A: a TC block's values are packed, and a bitmap (BitTCF) or a
// byte for each value (ME-TCF) encodes their positions. The encoding is loaded two TC blocks ahead,
// the values one.
//
// The staged pipeline loads values to registers, ME-TCF's through 64 floats of shared memory, as in
// DTC-SpMM; the buffered pipelines copy them to shared memory asynchronously, as in both papers.
#pragma once

#include "kernels/device/async_copies.cuh"
#include "kernels/device/loads.cuh"
#include "kernels/spmm/acc_spmm/tasks.cuh"

namespace tessera::acc_spmm {

/// A lane's fragment of a TC block: elements (lane / 4, lane % 4) and (lane / 4, lane % 4 + 4).
struct FragmentA {
  float value[2];
};

/// Reads a lane's fragment from a TC block in shared memory. [kTileElements]
__device__ inline FragmentA read_fragment(const float* tile, int lane) {
  const float* mine = tile + lane / 4 * kTileCols + lane % 4;
  return {{mine[0], mine[kTileCols / 2]}};
}

/// Reads the nonzeros of a task's TC blocks, one after another, by the lanes of a warp. At the last
/// one, advance() has no effect. Bitmaps may be read by 64 threads as well, which only copy().
template <NonzeroEncoding kEncoding, int kThreads = 32>
class NonzeroReader;

template <int kThreads>
class NonzeroReader<NonzeroEncoding::kBitmap, kThreads> {
  static_assert(kThreads == 32 || kThreads == kTileElements, "one or two positions a thread");

 public:
  using Loaded = FragmentA;

  __device__ NonzeroReader(const KernelArguments& arguments, const Task& task, int thread)
      : view_(arguments.view), thread_(thread), tile_(task.first), end_(task.last - 1) {
    load_encoding();
  }

  __device__ void advance() {
    tile_ = min(tile_ + 1, end_);
    load_encoding();
  }

  __device__ FragmentA load() const {
    FragmentA fragment;
    for (int half = 0; half < 2; ++half)
      fragment.value[half] = window_tile::tile_element(bitmap_, view_.values, first_, thread_ / 4,
                                                       thread_ % 4 + 4 * half);
    return fragment;
  }
  /// The fragment that load() returned.
  __device__ FragmentA fragment_of(const FragmentA& loaded, float*) const { return loaded; }

  /// Copies the TC block to 64 floats of shared memory, asynchronously.
  __device__ void copy(float* tile) const {
    if constexpr (kThreads == kTileElements) {
      const std::uint64_t before = (std::uint64_t{1} << thread_) - 1;
      copy_async<4, CopyCache::kL1>(
          shared_address(tile + thread_),
          view_.values + (first_ + static_cast<std::uint32_t>(__popcll(bitmap_ & before))),
          (bitmap_ >> thread_ & 1) != 0);
    } else {
      copy_halves(tile);
    }
  }

 private:
  __device__ void copy_halves(float* tile) const {
    const std::uint32_t words[2] = {static_cast<std::uint32_t>(bitmap_),
                                    static_cast<std::uint32_t>(bitmap_ >> 32)};
    const std::uint32_t before = (1u << thread_) - 1;
    std::uint32_t first = first_;  // value of the 32 bits
    for (int half = 0; half < 2; ++half) {
      copy_async<4, CopyCache::kL1>(shared_address(tile + thread_ + 32 * half),
                                    view_.values + (first + __popc(words[half] & before)),
                                    (words[half] >> thread_ & 1) != 0);
      first += __popc(words[half]);
    }
  }
  __device__ void load_encoding() {
    bitmap_ = load_ahead(view_.tc_local_bit + tile_);
    first_ = load_ahead(view_.tc_offset + tile_);
  }

  const View& view_;
  int thread_;
  std::uint32_t tile_, end_;
  std::uint64_t bitmap_;
  std::uint32_t first_;
};

template <>
class NonzeroReader<NonzeroEncoding::kBytes> {
 public:
  /// The lane's values of a TC block, and their positions.
  struct Loaded {
    float value[2];
    std::uint32_t id[2];
  };

  __device__ NonzeroReader(const KernelArguments& arguments, const Task& task, int lane)
      : view_(arguments.view),
        lane_(static_cast<std::uint32_t>(lane)),
        tile_(task.first),
        last_(task.last),
        first_(load_ahead(view_.tc_offset + tile_)),
        end_(load_ahead(view_.tc_offset + tile_ + 1)),
        next_end_(load_ahead(view_.tc_offset + min(tile_ + 2, last_))) {
    load_encoding();
  }

  __device__ void advance() {
    if (tile_ + 1 >= last_) return;
    ++tile_;
    first_ = end_, end_ = next_end_;
    next_end_ = load_ahead(view_.tc_offset + min(tile_ + 2, last_));
    load_encoding();
  }

  __device__ Loaded load() const {
    Loaded loaded;
    for (int half = 0; half < 2; ++half) {
      loaded.value[half] = has(half) ? view_.values[index(half)] : 0.0f;
      loaded.id[half] = id_[half];
    }
    return loaded;
  }
  /// Exchanges the values through 64 floats of the warp; lanes read them until the next __syncwarp.
  __device__ FragmentA fragment_of(const Loaded& loaded, float* tile) const {
    clear(tile);
    for (int half = 0; half < 2; ++half)
      if (loaded.id[half] < kTileElements) tile[loaded.id[half]] = loaded.value[half];
    __syncwarp();
    return read_fragment(tile, static_cast<int>(lane_));
  }

  __device__ void copy(float* tile) const {
    clear(tile);
    for (int half = 0; half < 2; ++half)
      if (has(half))
        copy_async<4, CopyCache::kL1>(shared_address(tile + id_[half]), view_.values + index(half),
                                      true);
  }

 private:
  static constexpr std::uint32_t kNone = kTileElements;

  __device__ std::uint64_t index(int half) const {
    return std::uint64_t{first_} + lane_ + 32u * half;
  }
  __device__ bool has(int half) const { return lane_ + 32u * half < end_ - first_; }

  __device__ void load_encoding() {
    for (int half = 0; half < 2; ++half) {
      id_[half] = kNone;
      if (has(half)) id_[half] = load_ahead(view_.tc_local_id + index(half));
    }
  }

  __device__ void clear(float* tile) const {
    *reinterpret_cast<float2*>(tile + 2 * lane_) = float2{0, 0};
    __syncwarp();
  }

  const View& view_;
  std::uint32_t lane_;
  std::uint32_t tile_, last_;
  std::uint32_t first_, end_, next_end_;  // of its values; the end of those of the next TC block
  std::uint32_t id_[2];
};

}  // namespace tessera::acc_spmm
