// Nonzeros on their way to the lanes that multiply them, for
// kernels/spmm/row_pieces/row_pieces.cuh: which lanes work on a piece of a row, on which columns,
// and the four ways in which they come by its column indices and values.
#pragma once

#include "kernels/device/loads.cuh"
#include "kernels/device/store_16_bytes.cuh"
#include "kernels/spmm/row_pieces/row_pieces_gpu.hpp"

namespace tessera::row_pieces {

/// Without bounds the compiler takes as few registers as it can, and loads rows of B one by one.
constexpr int kMaxThreads = 256;

/// kWidth: floats of a load or store; kValues columns of a lane come in kValues / kWidth of them.
template <int kLanes_, int kValues_, int kWidth_, int kUnroll_, NonzeroDelivery kDelivery_,
          int kGroups_ = 1>
struct Tile {
  static constexpr int kLanes = kLanes_;
  static constexpr int kValues = kValues_;
  static constexpr int kWidth = kWidth_;
  static constexpr int kUnroll = kUnroll_;
  static constexpr int kGroups = kGroups_;
  static constexpr NonzeroDelivery kDelivery = kDelivery_;
  static constexpr int kVectors = kValues / kWidth;
  static constexpr int kColumns = kLanes * kValues;
  static constexpr int kFloats = kUnroll * kValues;  // of rows of B
  static constexpr bool kPlain = kDelivery == NonzeroDelivery::kBroadcast;
  /// Thread blocks of an SM, which say how many registers a thread may have: 40, 64 or 128, or some
  /// more where nonzeros are handed out.
  static constexpr int blocks() {
    if (kFloats > 32) return 2;
    if (kPlain) return kFloats > 16 ? 4 : 6;
    if (kFloats > 16 || kUnroll > 8) return 3;
    return kUnroll > 4 ? 4 : 5;
  }
  static constexpr int share_blocks() { return kFloats > 16 ? 3 : 4; }
  static_assert(kLanes == 32 || (kDelivery != NonzeroDelivery::kShuffle &&
                                 kDelivery != NonzeroDelivery::kShared),
                "whole warps give each other nonzeros");
  static_assert((kGroups > 1) <= (kDelivery == NonzeroDelivery::kOwn),
                "groups load their own nonzeros");
  static_assert(kValues % kWidth == 0 && kUnroll % 4 == 0 && kLanes * kGroups <= 32);
};

/// The lanes of a unit: where they are in the warp, and the columns that they have.
template <class T>
struct Lanes {
  static constexpr int kUnitLanes = T::kLanes * T::kGroups;
  int lane;                 // of those side by side
  std::uint32_t group;      // that it is in
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

/// A load that stays where it is written and reads nothing unless `when`.
template <int kWidth>
__device__ void load_if(bool when, const float* from, float* to) {
  const int p = when;
  if constexpr (kWidth == 4)
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.s32 p, %5, 0;\n"
        "@p ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%4];\n}"
        : "+f"(to[0]), "+f"(to[1]), "+f"(to[2]), "+f"(to[3])
        : "l"(from), "r"(p));
  else if constexpr (kWidth == 2)
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.s32 p, %3, 0;\n@p ld.global.nc.v2.f32 {%0, %1}, [%2];\n}"
        : "+f"(to[0]), "+f"(to[1])
        : "l"(from), "r"(p));
  else
    asm volatile("{\n.reg .pred p;\nsetp.ne.s32 p, %2, 0;\n@p ld.global.nc.f32 %0, [%1];\n}"
                 : "+f"(to[0])
                 : "l"(from), "r"(p));
}

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

/// Nonzeros [first, last) of a unit, a group at a time; where kAhead, columns(k) runs one group
/// ahead of values(k).
template <class T, NonzeroDelivery kDelivery = T::kDelivery>
class Nonzeros;

/// All lanes load the same four at a time, from a multiple of four on (reverse offset alignment).
template <class T>
class Nonzeros<T, NonzeroDelivery::kBroadcast> {
 public:
  __device__ Nonzeros(const KernelArguments& product, const Lanes<T>&, std::uint32_t, std::uint32_t)
      : columns_(product.col_indices), values_(product.values) {}

  static constexpr bool kAhead = true;
  __device__ static std::uint32_t start(std::uint32_t first) { return first & ~3u; }
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

/// Every group of lanes loads its own, which is every kGroups-th.
template <class T>
class Nonzeros<T, NonzeroDelivery::kOwn> {
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
  /// Not beyond the last one.
  __device__ std::uint32_t place(std::uint32_t k, int j) const {
    return min(k + j * T::kGroups + group_, last_ - 1);
  }

  const KernelArguments& product_;
  std::uint32_t group_, last_;
};

/// A nonzero a lane, 32 further ones under way meanwhile.
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
  /// True where the 32 nonzeros from k on, and no earlier ones, are to be handed out from now on.
  __device__ bool moves_to(std::uint32_t k) {
    if (k != base_) return false;
    column = next_column_, value = next_value_;
    base_ += 32;
    load();
    return true;
  }
  /// Of nonzero k among the 32.
  __device__ int place(std::uint32_t k) const { return static_cast<int>(k - (base_ - 32)); }

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
class Nonzeros<T, NonzeroDelivery::kShuffle> : OnePerLane<T> {
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
class Nonzeros<T, NonzeroDelivery::kShared> : OnePerLane<T> {
 public:
  __device__ Nonzeros(const KernelArguments& product, const Lanes<T>&, std::uint32_t first,
                      std::uint32_t last)
      : OnePerLane<T>(product, first, last) {
    extern __shared__ int4 cached_nonzeros[];
    columns_ = reinterpret_cast<int*>(cached_nonzeros) + threadIdx.x / 32 * 64;
  }

  using OnePerLane<T>::start, OnePerLane<T>::kAhead;
  __device__ void columns(std::uint32_t k, int (&to)[T::kUnroll]) {
    if (this->moves_to(k)) {
      __syncwarp();
      columns_[threadIdx.x % 32] = this->column;
      columns_[32 + threadIdx.x % 32] = __float_as_int(this->value);
      __syncwarp();
    }
    read(columns_ + this->place(k), to);
  }
  __device__ void values(std::uint32_t k, float (&to)[T::kUnroll]) {
    int bits[T::kUnroll];
    read(columns_ + 32 + this->place(k), bits);
    for (int j = 0; j < T::kUnroll; ++j) to[j] = __int_as_float(bits[j]);
  }

 private:
  __device__ static void read(const int* from, int (&to)[T::kUnroll]) {
    for (int j = 0; j < T::kUnroll; j += 4) {
      const int4 four = *reinterpret_cast<const int4*>(from + j);
      to[j] = four.x, to[j + 1] = four.y, to[j + 2] = four.z, to[j + 3] = four.w;
    }
  }

  int* columns_;  // [32], then as many values
};

}  // namespace tessera::row_pieces
