// The device half of kernels/spmm/row_pieces/row_pieces.hpp: lanes multiply a row part, or a share
// of row parts, into registers and bring the sums into C.
//
// For 128 columns of B a nonzero is one 16-byte load by each of 32 lanes; column indices arrive a
// group of nonzeros ahead of the loads that use them, values together with the rows of B. Nonzeros
// beyond the end of a group are multiplied as 0 times -0, which changes no sum, not even a zero's
// sign; no lane reads anything for them.
#pragma once

#include <cassert>

#include "kernels/device/store_16_bytes.cuh"
#include "kernels/spmm/row_pieces/row_nonzeros.cuh"

namespace tessera::row_pieces {

/// Adds rows of B times values to `sums` for the nonzeros [first, last) of a unit. Calls
/// after(k, sums) once nonzero k has been added.
template <class T, class After>
__device__ void multiply(const KernelArguments& product, const Lanes<T>& lanes, std::uint32_t first,
                         std::uint32_t last, float (&sums)[T::kValues], After after) {
  const char* b = reinterpret_cast<const char*>(product.b + lanes.first_col);
  const std::uint32_t row_bytes = static_cast<std::uint32_t>(product.n) * 4;
  Nonzeros<T> nonzeros(product, lanes, first, last);
  int columns[T::kUnroll];
  std::uint32_t k = first < last ? nonzeros.start(first) : last;
  if (Nonzeros<T>::kAhead && k < last) nonzeros.columns(k, columns);
#pragma unroll 1
  for (; k < last; k += T::kUnroll * T::kGroups) {
    float rows[T::kUnroll][T::kValues], values[T::kUnroll];
    if (!Nonzeros<T>::kAhead) nonzeros.columns(k, columns);
#pragma unroll
    for (int j = 0; j < T::kUnroll; ++j) {
      const bool in = k + j * T::kGroups + lanes.group - first < last - first;
      const auto* row = reinterpret_cast<const float*>(
          b + static_cast<std::uint64_t>(static_cast<std::uint32_t>(columns[j])) * row_bytes);
#pragma unroll
      for (int v = 0; v < T::kVectors; ++v) {
        for (int i = 0; i < T::kWidth; ++i) rows[j][v * T::kWidth + i] = -0.0f;
        load_if<T::kWidth>(in && lanes.has(v), row + lanes.col(v), rows[j] + v * T::kWidth);
      }
    }
    nonzeros.values(k, values);
    if (Nonzeros<T>::kAhead) nonzeros.columns(k + T::kUnroll * T::kGroups, columns);
#pragma unroll
    for (int j = 0; j < T::kUnroll; ++j) {
      const bool in = k + j * T::kGroups + lanes.group - first < last - first;
      const float value = in ? values[j] : 0.0f;
#pragma unroll
      for (int i = 0; i < T::kValues; ++i) sums[i] = fmaf(value, rows[j][i], sums[i]);
      after(k + j, sums);
    }
  }
}

/// Adds the sums of all groups to those of the first; each step halves the groups.
template <class T>
__device__ void reduce(float (&sums)[T::kValues]) {
#pragma unroll
  for (int half = T::kGroups / 2; half > 0; half /= 2)
    for (int i = 0; i < T::kValues; ++i) sums[i] += __shfl_xor_sync(~0u, sums[i], half * T::kLanes);
}

/// Writes sums to C. No other function does.
template <class T>
__device__ void write_row(const KernelArguments& product, const Lanes<T>& lanes, std::uint32_t row,
                          bool adds, const float (&sums)[T::kValues]) {
  float* c = product.c + std::int64_t{row} * product.n + lanes.first_col;
#pragma unroll
  for (int v = 0; v < T::kVectors; ++v) {
    if (!lanes.has(v)) continue;
    const float* part = sums + v * T::kWidth;
    float* to = c + lanes.col(v);
    if (!adds) {
      float values[T::kWidth];
      for (int i = 0; i < T::kWidth; ++i) values[i] = scaled(product.scaling, part[i], to + i);
      store<T::kWidth>(to, values);
    } else if constexpr (T::kWidth == 4) {
      add_16_bytes(to, {part[0], part[1], part[2], part[3]}, 4, product.scaling.alpha, true);
    } else {
      for (int i = 0; i < T::kWidth; ++i) atomicAdd(to + i, product.scaling.alpha * part[i]);
    }
  }
}

/// Leaves the sums of a part of a row in its slot. Returns true for the last part of its row to
/// finish, which then has the sums of all parts, added in their order.
template <class T>
__device__ bool meet(const KernelArguments& product, const Lanes<T>& lanes, std::uint32_t chunk,
                     std::uint32_t slot, float (&sums)[T::kValues]) {
  const std::uint32_t index = product.split_row_of_slot[slot];
  const SplitRow split = product.split_rows[index];
  float* first = product.slots +
                 slot_offset(chunk, product.num_slots, split.first_slot, T::kColumns) + lanes.lane;
  float* mine = first + std::int64_t{slot - split.first_slot} * T::kColumns;
  for (int i = 0; i < T::kValues; ++i) __stcg(mine + i * T::kLanes, sums[i]);
  __threadfence();
  __syncwarp(lanes.mask);
  std::uint32_t* arrivals = product.arrivals + std::int64_t{chunk} * product.num_split_rows + index;
  std::uint32_t before = 0;
  if (lanes.lane == 0) before = atomicAdd(arrivals, 1);
  before = __shfl_sync(lanes.mask, before, 0, T::kLanes);
  if (before + 1 < split.num_parts) return false;
  __threadfence();
  if (lanes.lane == 0) *arrivals = 0;  // for the next launch
  for (int i = 0; i < T::kValues; ++i) sums[i] = __ldcg(first + i * T::kLanes);
#pragma unroll 4
  for (std::uint32_t part = 1; part < split.num_parts; ++part) {
    const float* from = first + std::int64_t{part} * T::kColumns;
    for (int i = 0; i < T::kValues; ++i) sums[i] += __ldcg(from + i * T::kLanes);
  }
  return true;
}

/// Brings the sums of a row part to C, through its slot where it is part of a split row.
template <class T>
__device__ void deliver(const KernelArguments& product, const Lanes<T>& lanes, std::uint32_t chunk,
                        std::uint32_t row, std::uint32_t slot, float (&sums)[T::kValues]) {
  const bool splits = slot != 0;
  if (splits && !product.atomic && !meet(product, lanes, chunk, slot - 1, sums)) return;
  write_row(product, lanes, row, splits && product.atomic, sums);
}

__device__ inline RowPart load_row_part(const RowPart* from) {
  const uint4 words = __ldg(reinterpret_cast<const uint4*>(from));
  return {words.x, words.y, words.z, words.w};
}

/// The item of the thread's unit.
template <class T>
__device__ UnitItem my_item(const KernelArguments& product) {
  return item_of(blockIdx.x, threadIdx.x, blockDim.x, Lanes<T>::kUnitLanes,
                 product.blocks_of_units);
}

/// A unit has one row part.
template <class T>
__global__ void __launch_bounds__(kMaxThreads, T::blocks())
    multiply_row_parts(KernelArguments product) {
  const UnitItem item = my_item<T>(product);
  if (item.unit >= product.num_units) return;
  const Lanes<T> lanes(item.chunk, product.n);
  const RowPart part = load_row_part(product.row_parts + item.unit);
  float sums[T::kValues] = {};
  multiply<T>(product, lanes, part.first, part.last, sums, [](std::uint32_t, auto&) {});
  if constexpr (T::kGroups > 1) {
    static_assert(Lanes<T>::kUnitLanes == 32);
    reduce<T>(sums);
    if (lanes.group != 0) return;
  }
  deliver<T>(product, lanes, item.chunk, part.row, part.slot, sums);
}

/// Reads the row parts of a share one after another, and the end of the next one ahead.
class RowPartReader {
 public:
  __device__ RowPartReader(const RowPart* first, const RowPart* last) : at_(first), last_(last) {
    const RowPart part = load_row_part(first);
    row_ = part.row, end_ = part.last;
    load_next();
  }

  __device__ bool is_last() const { return at_ == last_; }
  __device__ std::uint32_t row() const { return row_; }
  __device__ std::uint32_t end() const { return end_; }
  __device__ void move_on() {
    ++at_;
    row_ = next_row_, end_ = next_end_;
    load_next();
  }

 private:
  __device__ void load_next() {
    const RowPart part = load_row_part(at_ < last_ ? at_ + 1 : at_);
    next_row_ = part.row, next_end_ = part.last;
  }

  const RowPart *at_, *last_;
  std::uint32_t row_, end_, next_row_, next_end_;
};

/// A unit has a share: it keeps a running sum while the row stays the same. Only the first and the
/// last row part may belong to split rows. The sums of the first one are delivered at the end.
template <class T>
__global__ void __launch_bounds__(kMaxThreads, T::share_blocks())
    multiply_shares(KernelArguments product) {
  const UnitItem item = my_item<T>(product);
  if (item.unit >= product.num_units) return;
  const Lanes<T> lanes(item.chunk, product.n);
  const RowPart* first = product.row_parts + product.shares[item.unit];
  const RowPart* last = product.row_parts + product.shares[item.unit + 1] - 1;
  RowPartReader parts(first, last);
  float sums[T::kValues] = {}, head[T::kValues] = {};
  bool in_head = first->slot != 0;
  // Writes the rows that end before nonzero `k`, empty ones included.
  const auto finish_rows = [&](std::uint32_t k, float(&of)[T::kValues]) {
    while (parts.end() == k && !parts.is_last()) {
      if (in_head)
        for (int i = 0; i < T::kValues; ++i) head[i] = of[i];
      else
        write_row(product, lanes, parts.row(), false, of);
      in_head = false;
      for (int i = 0; i < T::kValues; ++i) of[i] = 0;
      parts.move_on();
    }
  };
  finish_rows(first->first, sums);
  multiply<T>(product, lanes, first->first, last->last, sums,
              [&](std::uint32_t k, float(&of)[T::kValues]) { finish_rows(k + 1, of); });
  deliver<T>(product, lanes, item.chunk, last->row, last->slot, sums);
  if (first != last && first->slot != 0)
    deliver<T>(product, lanes, item.chunk, first->row, first->slot, head);
}

/// The instances of a tile: with operands as wide as a lane's columns, up to 16 bytes, and with
/// single floats for operands that are not aligned. The second need only be correct.
template <class T, bool kShares>
KernelInstances instances_of() {
  using Narrow =
      Tile<T::kLanes, T::kValues, kNarrowUnroll, T::kDelivery, T::kGroups, (T::kValues > 1)>;
  if constexpr (kShares)
    return {multiply_shares<T>, multiply_shares<Narrow>, T::kWidth};
  else
    return {multiply_row_parts<T>, multiply_row_parts<Narrow>, T::kWidth};
}

/// Finds the tile of a shape in the table `Tiles` of those that a kernel is compiled for.
template <bool kShares, class... Tiles>
KernelInstances find_instances(const UnitShape& shape) {
  KernelInstances found = {};
  static_cast<void>(
      ((Tiles::matches(shape) && (found = instances_of<Tiles, kShares>(), true)) || ...));
  require<Unsupported>(
      found.aligned != nullptr,
      "no instance has {} lanes, {} columns of C a lane and {} rows of B in flight", shape.lanes,
      shape.values, shape.unroll);
  return found;
}
template <class... Tiles>
KernelInstances row_part_instances(const UnitShape& shape) {
  return find_instances<false, Tiles...>(shape);
}
template <class... Tiles>
KernelInstances share_instances(const UnitShape& shape) {
  return find_instances<true, Tiles...>(shape);
}

}  // namespace tessera::row_pieces
