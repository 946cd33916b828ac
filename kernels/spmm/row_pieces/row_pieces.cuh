// The device half of kernels/spmm/row_pieces/row_pieces.hpp: lanes that multiply a piece, or a
// share of pieces, into registers, and bring the sums into C.
//
// For 128 columns of B a nonzero is one 16-byte load by each of 32 lanes; column indices come a
// group of nonzeros ahead of the loads that they feed, values along with the rows of B. Nonzeros
// beyond the end of a group are multiplied as 0 times -0, which changes no sum, not even a zero's
// sign; nothing is read for them.
#pragma once

#include <cassert>

#include "kernels/device/store_16_bytes.cuh"
#include "kernels/spmm/row_pieces/row_nonzeros.cuh"

namespace tessera::row_pieces {

/// Rows of B times values for the nonzeros [first, last) of a unit; after(k, sums) once nonzero k
/// has been added, where something is to be done there.
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

/// The groups' sums into those of the first, half of them to the other half at a time.
template <class T>
__device__ void reduce(float (&sums)[T::kValues]) {
#pragma unroll
  for (int half = T::kGroups / 2; half > 0; half /= 2)
    for (int i = 0; i < T::kValues; ++i) sums[i] += __shfl_xor_sync(~0u, sums[i], half * T::kLanes);
}

/// Sums into C: the only place that writes it.
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

/// Leaves a part's sums in its slot. True for the last part of its row to arrive, which then has
/// the sums of all, added in their order.
template <class T>
__device__ bool meet(const KernelArguments& product, const Lanes<T>& lanes, std::uint32_t chunk,
                     std::uint32_t slot, float (&sums)[T::kValues]) {
  const std::uint32_t index = product.split_of_slot[slot];
  const Split split = product.splits[index];
  float* first = product.slots +
                 (std::int64_t{chunk} * product.num_slots + split.first_slot) * T::kColumns +
                 lanes.lane;
  float* mine = first + std::int64_t{slot - split.first_slot} * T::kColumns;
  for (int i = 0; i < T::kValues; ++i) __stcg(mine + i * T::kLanes, sums[i]);
  __threadfence();
  __syncwarp(lanes.mask);
  std::uint32_t* arrivals = product.arrivals + std::int64_t{chunk} * product.num_splits + index;
  std::uint32_t before = 0;
  if (lanes.lane == 0) before = atomicAdd(arrivals, 1);
  before = __shfl_sync(lanes.mask, before, 0, T::kLanes);
  if (before + 1 < split.parts) return false;
  __threadfence();
  if (lanes.lane == 0) *arrivals = 0;  // for the next launch
  for (int i = 0; i < T::kValues; ++i) sums[i] = __ldcg(first + i * T::kLanes);
#pragma unroll 4
  for (std::uint32_t part = 1; part < split.parts; ++part) {
    const float* from = first + std::int64_t{part} * T::kColumns;
    for (int i = 0; i < T::kValues; ++i) sums[i] += __ldcg(from + i * T::kLanes);
  }
  return true;
}

/// A piece's sums to where they belong.
template <class T>
__device__ void deliver(const KernelArguments& product, const Lanes<T>& lanes, std::uint32_t chunk,
                        std::uint32_t row, std::uint32_t slot, float (&sums)[T::kValues]) {
  const bool splits = slot != 0;
  if (splits && !product.atomic && !meet(product, lanes, chunk, slot - 1, sums)) return;
  write_row(product, lanes, row, splits && product.atomic, sums);
}

__device__ inline Piece load_piece(const Piece* from) {
  const uint4 words = __ldg(reinterpret_cast<const uint4*>(from));
  return {words.x, words.y, words.z, words.w};
}

/// A unit's place: units of one chunk of columns, then those of the next, so that what is gathered
/// from B at a time is narrower than B.
template <class T>
struct WorkItem {
  std::uint32_t unit, chunk;

  __device__ explicit WorkItem(const KernelArguments& product) {
    const std::uint32_t index = blockIdx.x % product.blocks_of_units;
    chunk = blockIdx.x / product.blocks_of_units;
    unit = index * (blockDim.x / Lanes<T>::kUnitLanes) + threadIdx.x / Lanes<T>::kUnitLanes;
  }
};

/// One piece a unit.
template <class T>
__global__ void __launch_bounds__(kMaxThreads, T::blocks())
    multiply_pieces(KernelArguments product) {
  const WorkItem<T> place(product);
  if (place.unit >= product.num_units) return;
  const Lanes<T> lanes(place.chunk, product.n);
  const Piece piece = load_piece(product.pieces + place.unit);
  float sums[T::kValues] = {};
  multiply<T>(product, lanes, piece.first, piece.last, sums, [](std::uint32_t, auto&) {});
  if constexpr (T::kGroups > 1) {
    static_assert(Lanes<T>::kUnitLanes == 32);
    reduce<T>(sums);
    if (lanes.group != 0) return;
  }
  deliver<T>(product, lanes, place.chunk, piece.row, piece.slot, sums);
}

/// Pieces of a share, one after another; of the next one it is known ahead where it ends.
class Pieces {
 public:
  __device__ Pieces(const Piece* first, const Piece* last) : at_(first), last_(last) {
    const Piece piece = load_piece(first);
    row_ = piece.row, end_ = piece.last;
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
    const Piece piece = load_piece(at_ < last_ ? at_ + 1 : at_);
    next_row_ = piece.row, next_end_ = piece.last;
  }

  const Piece *at_, *last_;
  std::uint32_t row_, end_, next_row_, next_end_;
};

/// A share a unit: a running sum while the row stays. Only the first and the last piece may be
/// parts of rows; what the first one comes to is delivered at the end.
template <class T>
__global__ void __launch_bounds__(kMaxThreads, T::share_blocks())
    multiply_shares(KernelArguments product) {
  const WorkItem<T> place(product);
  if (place.unit >= product.num_units) return;
  const Lanes<T> lanes(place.chunk, product.n);
  const Piece* first = product.pieces + product.shares[place.unit];
  const Piece* last = product.pieces + product.shares[place.unit + 1] - 1;
  Pieces pieces(first, last);
  float sums[T::kValues] = {}, head[T::kValues] = {};
  bool in_head = first->slot != 0;
  // Rows that end before nonzero `k`, also those without any.
  const auto finish_rows = [&](std::uint32_t k, float(&of)[T::kValues]) {
    while (pieces.end() == k && !pieces.is_last()) {
      if (in_head)
        for (int i = 0; i < T::kValues; ++i) head[i] = of[i];
      else
        write_row(product, lanes, pieces.row(), false, of);
      in_head = false;
      for (int i = 0; i < T::kValues; ++i) of[i] = 0;
      pieces.move_on();
    }
  };
  finish_rows(first->first, sums);
  multiply<T>(product, lanes, first->first, last->last, sums,
              [&](std::uint32_t k, float(&of)[T::kValues]) { finish_rows(k + 1, of); });
  deliver<T>(product, lanes, place.chunk, last->row, last->slot, sums);
  if (first != last && first->slot != 0)
    deliver<T>(product, lanes, place.chunk, first->row, first->slot, head);
}

/// Operands as wide as a lane's columns, up to 16 bytes; or one by one, where nothing but being
/// right counts.
template <int kLanes, int kValues, int kUnroll, NonzeroDelivery kDelivery, int kGroups = 1>
Kernels pieces_kernels() {
  constexpr int kWidth = kValues < 4 ? kValues : 4;
  return {multiply_pieces<Tile<kLanes, kValues, kWidth, kUnroll, kDelivery, kGroups>>,
          multiply_pieces<Tile<kLanes, kValues, 1, 4, kDelivery, kGroups>>, kWidth};
}

/// Pieces of four columns a lane, broadcast loads: the lanes of the shape, and its rows in flight,
/// of which there are those named.
template <int... kUnrolls>
Kernels broadcast_kernels(const Shape& shape) {
  Kernels found = {};
  const auto of_lanes = [&]<int kLanes>() {
    ((shape.unroll == kUnrolls &&
      (found = pieces_kernels<kLanes, 4, kUnrolls, NonzeroDelivery::kBroadcast>(), true)) ||
     ...);
  };
  if (shape.lanes == 8)
    of_lanes.template operator()<8>();
  else if (shape.lanes == 16)
    of_lanes.template operator()<16>();
  else
    of_lanes.template operator()<32>();
  assert(found.aligned != nullptr);
  return found;
}

template <int kLanes, int kValues, int kUnroll, NonzeroDelivery kDelivery>
Kernels shares_kernels() {
  constexpr int kWidth = kValues < 4 ? kValues : 4;
  return {multiply_shares<Tile<kLanes, kValues, kWidth, kUnroll, kDelivery>>,
          multiply_shares<Tile<kLanes, kValues, 1, 4, kDelivery>>, kWidth};
}

}  // namespace tessera::row_pieces
