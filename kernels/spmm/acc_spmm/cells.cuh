// How a warp comes by the cells of A: a TC block's values are packed, and what names their places
// is a bitmap (BitTCF) or a byte for each (ME-TCF). Names come two TC blocks ahead, values one.
//
// Either pipeline takes them its way: to registers (staged), where ME-TCF's go through 64 floats of
// shared memory, as in DTC-SpMM; or to shared memory by asynchronous copies, as in both papers.
#pragma once

#include "kernels/device/async_copies.cuh"
#include "kernels/device/loads.cuh"
#include "kernels/spmm/acc_spmm/tasks.cuh"

namespace tessera::acc_spmm {

/// Two cells of A, (lane / 4, lane % 4) and (lane / 4, lane % 4 + 4).
struct Cells {
  float value[2];
};

/// From a TC block in shared memory. [kTileCells]
__device__ inline Cells read_cells(const float* tile, int lane) {
  const float* mine = tile + lane / 4 * kTileCols + lane % 4;
  return {{mine[0], mine[kTileCols / 2]}};
}

/// A task's TC blocks one after another: where their values are. Beyond the last one it stays
/// there.
template <NonzeroEncoding kEncoding>
class Places;

template <>
class Places<NonzeroEncoding::kBitmap> {
 public:
  using Loaded = Cells;

  __device__ Places(const KernelArguments& product, const Task& task, int lane)
      : view_(product.view), lane_(lane), tile_(task.first), end_(task.last - 1) {
    load_names();
  }

  __device__ void move_on() {
    tile_ = min(tile_ + 1, end_);
    load_names();
  }

  __device__ Cells load() const {
    Cells cells;
    for (int half = 0; half < 2; ++half)
      cells.value[half] =
          window_tile::cell(bitmap_, view_.values, first_, lane_ / 4, lane_ % 4 + 4 * half);
    return cells;
  }
  /// What load() gave.
  __device__ Cells take(const Cells& cells, float*) const { return cells; }

  /// The TC block to 64 floats of shared memory; complete when the copies are.
  __device__ void copy(float* tile) const {
    const std::uint32_t words[2] = {static_cast<std::uint32_t>(bitmap_),
                                    static_cast<std::uint32_t>(bitmap_ >> 32)};
    const std::uint32_t before = (1u << lane_) - 1;
    std::uint32_t first = first_;  // value of the word
    for (int half = 0; half < 2; ++half) {
      copy_async<4, CopyCache::kL1>(shared_address(tile + lane_ + 32 * half),
                                    view_.values + (first + __popc(words[half] & before)),
                                    (words[half] >> lane_ & 1) != 0);
      first += __popc(words[half]);
    }
  }

 private:
  __device__ void load_names() {
    bitmap_ = load_ahead(view_.tc_local_bit + tile_);
    first_ = load_ahead(view_.tc_offset + tile_);
  }

  const View& view_;
  int lane_;
  std::uint32_t tile_, end_;
  std::uint64_t bitmap_;
  std::uint32_t first_;
};

template <>
class Places<NonzeroEncoding::kBytes> {
 public:
  /// Of the TC block's values those that the lane has, and their places.
  struct Loaded {
    float value[2];
    std::uint32_t id[2];
  };

  __device__ Places(const KernelArguments& product, const Task& task, int lane)
      : view_(product.view),
        lane_(static_cast<std::uint32_t>(lane)),
        tile_(task.first),
        last_(task.last),
        first_(load_ahead(view_.tc_offset + tile_)),
        end_(load_ahead(view_.tc_offset + tile_ + 1)),
        next_end_(load_ahead(view_.tc_offset + min(tile_ + 2, last_))) {
    load_names();
  }

  __device__ void move_on() {
    if (tile_ + 1 >= last_) return;
    ++tile_;
    first_ = end_, end_ = next_end_;
    next_end_ = load_ahead(view_.tc_offset + min(tile_ + 2, last_));
    load_names();
  }

  __device__ Loaded load() const {
    Loaded loaded;
    for (int half = 0; half < 2; ++half) {
      loaded.value[half] = has(half) ? view_.values[place(half)] : 0.0f;
      loaded.id[half] = id_[half];
    }
    return loaded;
  }
  /// Through 64 floats of the warp's; other lanes may read them until the warp meets again.
  __device__ Cells take(const Loaded& loaded, float* tile) const {
    clear(tile);
    for (int half = 0; half < 2; ++half)
      if (loaded.id[half] < kTileCells) tile[loaded.id[half]] = loaded.value[half];
    __syncwarp();
    return read_cells(tile, static_cast<int>(lane_));
  }

  __device__ void copy(float* tile) const {
    clear(tile);
    for (int half = 0; half < 2; ++half)
      if (has(half))
        copy_async<4, CopyCache::kL1>(shared_address(tile + id_[half]), view_.values + place(half),
                                      true);
  }

 private:
  static constexpr std::uint32_t kNone = kTileCells;

  __device__ std::uint64_t place(int half) const {
    return std::uint64_t{first_} + lane_ + 32u * half;
  }
  __device__ bool has(int half) const { return lane_ + 32u * half < end_ - first_; }

  __device__ void load_names() {
    for (int half = 0; half < 2; ++half) {
      id_[half] = kNone;
      if (has(half)) id_[half] = load_ahead(view_.tc_local_id + place(half));
    }
  }

  __device__ void clear(float* tile) const {
    *reinterpret_cast<float2*>(tile + 2 * lane_) = float2{0, 0};
    __syncwarp();
  }

  const View& view_;
  std::uint32_t lane_;
  std::uint32_t tile_, last_;
  std::uint32_t first_, end_, next_end_;  // of its values; the end of the next TC block's
  std::uint32_t id_[2];
};

}  // namespace tessera::acc_spmm
