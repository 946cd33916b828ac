// The delivery of nonzeros to the lanes that multiply them, for
// kernels/spmm/row_pieces/row_pieces.cuh: the place of a lane in its unit, its columns, and the
// four ways to bring it column indices and values.
#pragma once

#include "kernels/device/loads.cuh"
#include "kernels/device/store_16_bytes.cuh"
#include "kernels/spmm/row_pieces/row_pieces_gpu.hpp"

namespace tessera::row_pieces {

/// The compile-time form of a UnitShape. A lane loads its kValues columns kWidth floats at a time;
/// kIsNarrow: one, for operands that are not aligned.
template <int kLanes_, int kValues_, int kUnroll_, NonzeroDelivery kDelivery_, int kGroups_ = 1,
          bool kIsNarrow = false>
struct Tile {
  static constexpr UnitShape kShape{.lanes = kLanes_,
                                    .values = kValues_,
                                    .groups = kGroups_,
                                    .unroll = kUnroll_,
                                    .delivery = kDelivery_};
  static constexpr int kLanes = kShape.lanes;
  static constexpr int kValues = kShape.values;
  static constexpr int kWidth = kIsNarrow ? 1 : kValues < 4 ? kValues : 4;
  static constexpr int kUnroll = kShape.unroll;
  static constexpr int kGroups = kShape.groups;
  static constexpr NonzeroDelivery kDelivery = kShape.delivery;
  static constexpr int kVectors = kValues / kWidth;
  static constexpr int kColumns = kShape.columns();
  static constexpr int kFloats = kUnroll * kValues;  // of rows of B, of a lane
  static constexpr bool kPlain = kDelivery == NonzeroDelivery::kBroadcastLoads;
  /// True where this is the tile of a shape.
  static constexpr bool matches(const UnitShape& shape) {
    return shape.lanes == kLanes && shape.values == kValues && shape.unroll == kUnroll &&
           shape.delivery == kDelivery && shape.groups == kGroups;
  }
  /// Thread blocks of an SM for __launch_bounds__. They bound the registers of a thread: 40, 64 or
  /// 128, or a few more where lanes stage nonzeros. Without a bound the compiler takes as few
  /// registers as it can and loads rows of B one by one.
  static constexpr int blocks() {
    if (kFloats > 32) return 2;
    if (kPlain) return kFloats > 16 ? 4 : 6;
    if (kFloats > 16 || kUnroll > 8) return 3;
    return kUnroll > 4 ? 4 : 5;
  }
  static constexpr int share_blocks() { return kFloats > 16 ? 3 : 4; }
  static_assert(kLanes == 32 || (kDelivery != NonzeroDelivery::kWarpShuffles &&
                                 kDelivery != NonzeroDelivery::kSharedMemory),
                "whole warps shuffle or share nonzeros");
  static_assert((kGroups > 1) <= (kDelivery == NonzeroDelivery::kLoadsPerGroup),
                "groups load their own nonzeros");
  static_assert(kValues % kWidth == 0 && kUnroll % 4 == 0 && kLanes * kGroups <= 32);
};

/// The place of a lane in its unit and its columns of C.
template <class T>
struct Lanes {
  static constexpr int kUnitLanes = T::kShape.unit_lanes();
  int lane;                 // among those side by side along a row of B
  std::uint32_t group;      // the group of the lane
  unsigned mask;            // of the first group
  std::uint32_t first_col;  // of the first vector
  unsigned cols;            // bit v: vector v is within C

  __device__ Lanes(std::uint32_t chunk, std::int64_t n) {
    const unsigned in_warp = threadIdx.x % 32;
    lane = static_cast<int>(in_warp % T::kLanes);
    group = in_warp % kUnitLanes / T::kLanes;
    constexpr unsigned kAll = static_cast<unsigned>((1ull << T::kLanes) - 1);
    mask = kAll << (in_warp / kUnitLanes * kUnitLanes);
    first_col = chunk * T::kColumns + lane * T::kWidth;
    cols = 0;
    for (int v = 0; v < T::kVectors; ++v) cols |= unsigned{first_col + col(v) < n} << v;
  }
  __device__ static constexpr std::uint32_t col(int vector) {
    return static_cast<std::uint32_t>(vector * T::kWidth * T::kLanes);
  }
  __device__ bool has(int vector) const { return (cols >> vector & 1) != 0; }
};

template <int kWidth>
__device__ void store(float* to, const float* values) {
  if constexpr (kWidth == 4)
    store_whole_16_bytes(to, {values[0], values[1], values[2], values[3]});
  else if constexpr (kWidth == 2)
    asm volatile("st.global.v2.f32 [%0], {%1, %2};" ::"l"(to), "f"(values[0]), "f"(values[1])
                 : "memory");
  else
    *to = values[0];
}

/// The nonzeros [first, last) of a unit, kUnroll for each group of lanes at a time. Where kAhead,
/// the caller asks for columns(k) one pass before values(k).
template <class T, NonzeroDelivery kDelivery = T::kDelivery>
class Nonzeros;

/// All lanes load the same four nonzeros at a time; see first_loaded.
template <class T>
class Nonzeros<T, NonzeroDelivery::kBroadcastLoads> {
 public:
  __device__ Nonzeros(const KernelArguments& product, const Lanes<T>&, std::uint32_t, std::uint32_t)
      : columns_(product.col_indices), values_(product.values) {}

  static constexpr bool kAhead = true;
  __device__ static std::uint32_t start(std::uint32_t first) {
    return first_loaded(T::kDelivery, first);
  }
  __device__ void columns(std::uint32_t k, int (&to)[T::kUnroll]) {
    for (int j = 0; j < T::kUnroll; j += 4)
      asm volatile("ld.global.nc.v4.s32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(to[j]), "=r"(to[j + 1]), "=r"(to[j + 2]), "=r"(to[j + 3])
                   : "l"(columns_ + k + j));
  }
  __device__ void values(std::uint32_t k, float (&to)[T::kUnroll]) {
    for (int j = 0; j < T::kUnroll; j += 4) {
      const float4 four = load_16_bytes(values_ + k + j);
      to[j] = four.x, to[j + 1] = four.y, to[j + 2] = four.z, to[j + 3] = four.w;
    }
  }

 private:
  const std::int32_t* columns_;
  const float* values_;
};

/// Each group of lanes loads every kGroups-th nonzero.
template <class T>
class Nonzeros<T, NonzeroDelivery::kLoadsPerGroup> {
 public:
  __device__ Nonzeros(const KernelArguments& product, const Lanes<T>& lanes, std::uint32_t,
                      std::uint32_t last)
      : product_(product), group_(lanes.group), last_(last) {}

  static constexpr bool kAhead = true;
  __device__ static std::uint32_t start(std::uint32_t first) { return first; }
  __device__ void columns(std::uint32_t k, int (&to)[T::kUnroll]) {
    for (int j = 0; j < T::kUnroll; ++j) to[j] = product_.col_indices[place(k, j)];
  }
  __device__ void values(std::uint32_t k, float (&to)[T::kUnroll]) {
    for (int j = 0; j < T::kUnroll; ++j) to[j] = product_.values[place(k, j)];
  }

 private:
  /// The group's nonzero j of a pass, or the last one of the unit.
  __device__ std::uint32_t place(std::uint32_t k, int j) const {
    return min(k + j * T::kGroups + group_, last_ - 1);
  }

  const KernelArguments& product_;
  std::uint32_t group_, last_;
};

/// Each lane holds one of 32 nonzeros while it loads one of the next 32.
template <class T>
class OnePerLane {
 public:
  __device__ OnePerLane(const KernelArguments& product, std::uint32_t first, std::uint32_t last)
      : product_(product), last_(last), base_(first) {
    load();
  }

  static constexpr bool kAhead = false;
  __device__ static std::uint32_t start(std::uint32_t first) { return first; }

 protected:
  /// Moves on to the next 32 nonzeros and returns true where they begin with k.
  __device__ bool moves_to(std::uint32_t k) {
    if (k != base_) return false;
    column = next_column_, value = next_value_;
    base_ += kStagedNonzeros;
    load();
    return true;
  }
  /// Place of nonzero k among the 32.
  __device__ int place(std::uint32_t k) const {
    return static_cast<int>(k - (base_ - kStagedNonzeros));
  }

  int column = 0;
  float value = 0;

 private:
  __device__ void load() {
    const std::uint32_t k = base_ + threadIdx.x % 32;
    const int p = k < last_;
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.s32 p, %4, 0;\n@p ld.global.nc.s32 %0, [%2];\n"
        "@p ld.global.nc.f32 %1, [%3];\n}"
        : "+r"(next_column_), "+f"(next_value_)
        : "l"(product_.col_indices + k), "l"(product_.values + k), "r"(p));
  }

  const KernelArguments& product_;
  std::uint32_t last_, base_;
  int next_column_ = 0;
  float next_value_ = 0;
};

template <class T>
class Nonzeros<T, NonzeroDelivery::kWarpShuffles> : OnePerLane<T> {
 public:
  __device__ Nonzeros(const KernelArguments& product, const Lanes<T>&, std::uint32_t first,
                      std::uint32_t last)
      : OnePerLane<T>(product, first, last) {}

  using OnePerLane<T>::start, OnePerLane<T>::kAhead;
  __device__ void columns(std::uint32_t k, int (&to)[T::kUnroll]) {
    this->moves_to(k);
    for (int j = 0; j < T::kUnroll; ++j) to[j] = __shfl_sync(~0u, this->column, this->place(k) + j);
  }
  __device__ void values(std::uint32_t k, float (&to)[T::kUnroll]) {
    for (int j = 0; j < T::kUnroll; ++j) to[j] = __shfl_sync(~0u, this->value, this->place(k) + j);
  }
};

/// GE-SpMM's coalesced row caching.
template <class T>
class Nonzeros<T, NonzeroDelivery::kSharedMemory> : OnePerLane<T> {
 public:
  __device__ Nonzeros(const KernelArguments& product, const Lanes<T>&, std::uint32_t first,
                      std::uint32_t last)
      : OnePerLane<T>(product, first, last) {
    extern __shared__ int4 cached_nonzeros[];
    columns_ = reinterpret_cast<int*>(cached_nonzeros) + threadIdx.x / 32 * (kStagedBytes / 4);
  }

  using OnePerLane<T>::start, OnePerLane<T>::kAhead;
  __device__ void columns(std::uint32_t k, int (&to)[T::kUnroll]) {
    if (this->moves_to(k)) {
      __syncwarp();
      columns_[threadIdx.x % 32] = this->column;
      columns_[kStagedNonzeros + threadIdx.x % 32] = __float_as_int(this->value);
      __syncwarp();
    }
    read(columns_ + this->place(k), to);
  }
  __device__ void values(std::uint32_t k, float (&to)[T::kUnroll]) {
    int bits[T::kUnroll];
    read(columns_ + kStagedNonzeros + this->place(k), bits);
    for (int j = 0; j < T::kUnroll; ++j) to[j] = __int_as_float(bits[j]);
  }

 private:
  __device__ static void read(const int* from, int (&to)[T::kUnroll]) {
    for (int j = 0; j < T::kUnroll; j += 4) {
      const int4 four = *reinterpret_cast<const int4*>(from + j);
      to[j] = four.x, to[j + 1] = four.y, to[j + 2] = four.z, to[j + 3] = four.w;
    }
  }

  int* columns_;  // [kStagedNonzeros], then as many values
};

}  // namespace tessera::row_pieces
