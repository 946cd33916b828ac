// The kernel of rows_spmm.
//
// For a nonzero, every lane of a unit loads 16 bytes of a row of B, and eight such loads are in
// flight before the first is added. A lane loads one of the unit's nonzeros, a turn ahead; shuffles
// hand them round. The units of a warp go through their pieces together: where a unit has no
// nonzero left, or a lane no column of C, nothing is loaded and zeros are added. Every part of a
// unit in parts takes its own nonzeros, and shuffles add the sums of the parts in a tree.
#pragma once

#include "kernels/spmm/rows/columns.cuh"

namespace tessera::rows_spmm {

__device__ inline Unit load_unit(const Unit* from) {
  const uint4 words = __ldg(reinterpret_cast<const uint4*>(from));
  return {words.x, words.y, words.z, static_cast<std::uint16_t>(words.w & 0xffff),
          static_cast<std::uint16_t>(words.w >> 16)};
}

/// Adds the products of a unit's nonzeros to its sums, one nonzero after another. All lanes of a
/// warp call it together. A nonzero that a unit lacks is -0 times 0, which changes no sum.
template <class Columns, int kLanes>
__device__ void multiply_piece(const Arguments& product, const Unit& unit, const Columns& columns,
                               float (&sums)[Columns::kCols]) {
  const int count = unit.count, most = __reduce_max_sync(~0u, count);
  const char* b = columns.of(product.b);
  int ends[Columns::kAccesses];  // the nonzeros of which this lane loads something
  for (int v = 0; v < Columns::kAccesses; ++v) ends[v] = columns.has(v, product.n) ? count : 0;

  // The nonzeros of the lanes: those in use, and those loaded for the next turn.
  std::uint32_t row = 0, next_row = 0;
  float value = -0.0f, next_value = -0.0f;
  const int lane = static_cast<int>(threadIdx.x % kLanes);
  const std::int32_t* col_indices = product.col_indices + unit.first + lane;
  const float* values = product.values + unit.first + lane;
  const auto load_next = [&](int at) {
    next_value = -0.0f;
    if (at + lane >= count) return;
    next_row = static_cast<std::uint32_t>(__ldg(col_indices + at));
    next_value = __ldg(values + at);
  };
  load_next(0);
#pragma unroll 1
  for (int at = 0; at < most; at += kUnroll) {
    if (at % kLanes == 0) {
      row = next_row, value = next_value;
      load_next(at + kLanes);
    } else {
      row = __shfl_down_sync(~0u, row, kUnroll, kLanes);
      value = __shfl_down_sync(~0u, value, kUnroll, kLanes);
    }
    const auto step = [&](auto constant, int begin) {
      constexpr int kCount = decltype(constant)::value;
      typename Columns::Piece pieces[kCount] = {};
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const char* from =
            b + std::uint64_t{__shfl_sync(~0u, row, begin + i, kLanes)} * product.row_bytes;
#pragma unroll
        for (int v = 0; v < Columns::kAccesses; ++v)
          Columns::load_if(begin + i < ends[v] - at, from, v, pieces[i]);
      }
#pragma unroll
      for (int i = 0; i < kCount; ++i)
        Columns::add(__shfl_sync(~0u, value, begin + i, kLanes), pieces[i], sums);
    };
    // Half of the instructions where the warp's units have few nonzeros left, as those of road
    // networks and grids have at once.
    if constexpr (Columns::kInFlight == kUnroll) {
      if (most - at > kShortStep)
        step(std::integral_constant<int, kUnroll>(), 0);
      else
        step(std::integral_constant<int, kShortStep>(), 0);
    } else {
      for (int begin = 0; begin < min(most - at, kUnroll); begin += kShortStep)
        step(std::integral_constant<int, kShortStep>(), begin);
    }
  }
}

/// The same for one column of C: the lanes of a unit take nonzeros side by side, and all lanes
/// leave with the sum of all. A turn is all that most pieces have, so nothing is loaded ahead.
template <int kLanes>
__device__ void multiply_column(const Arguments& product, const Unit& unit, float& sum) {
  const int lane = static_cast<int>(threadIdx.x % kLanes);
  const int count = unit.count, most = __reduce_max_sync(~0u, count), end = count - lane;
  // Columns of A are words of floats, so that one predicated load serves all three arrays.
  const auto* col_indices = reinterpret_cast<const float*>(product.col_indices + unit.first + lane);
  const float* values = product.values + unit.first + lane;
  const auto* b = static_cast<const float*>(product.b);
#pragma unroll 1
  for (int at = 0; at < most; at += kUnroll * kLanes) {
    const auto step = [&](auto constant) {
      constexpr int kCount = decltype(constant)::value;
      float rows[kCount] = {}, factors[kCount], of_b[kCount] = {};
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        factors[i] = -0.0f;
        load_if<1>(at + i * kLanes < end, col_indices + at + i * kLanes, &rows[i]);
        load_if<1>(at + i * kLanes < end, values + at + i * kLanes, &factors[i]);
      }
#pragma unroll
      for (int i = 0; i < kCount; ++i)
        load_if<1>(at + i * kLanes < end, b + __float_as_uint(rows[i]), &of_b[i]);
#pragma unroll
      for (int i = 0; i < kCount; ++i) sum = fmaf(factors[i], of_b[i], sum);
    };
    if (most - at <= kUnroll / 4 * kLanes)
      step(std::integral_constant<int, kUnroll / 4>());
    else if (most - at <= kUnroll / 2 * kLanes)
      step(std::integral_constant<int, kUnroll / 2>());
    else
      step(std::integral_constant<int, kUnroll>());
  }
#pragma unroll
  for (int lanes = kLanes / 2; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(~0u, sum, lanes);
}

/// The same for a unit whose parts take nonzeros side by side: all parts leave with the sum of all.
template <class Columns, int kLanes, int kParts>
__device__ void multiply_in_parts(const Arguments& product, const Unit& unit,
                                  const Columns& columns, float (&sums)[Columns::kCols]) {
  constexpr int kPartLanes = kLanes / kParts;
  constexpr int kAccesses = Columns::kAccesses;
  constexpr int kTurn = kPartUnroll * kParts;  // nonzeros of a unit,
  constexpr int kHeld = kTurn / kLanes;        // and of a lane
  const int count = unit.count, most = __reduce_max_sync(~0u, count);
  const char* b = columns.of(product.b);
  const int lane = static_cast<int>(threadIdx.x % kLanes), part = lane / kPartLanes;
  // The nonzeros of which this lane loads something, less those of the first step before its own.
  int ends[kAccesses];
  for (int v = 0; v < kAccesses; ++v) ends[v] = columns.has(v, product.n) ? count - part : 0;

  // The nonzeros of the lanes: those in use, and those loaded for the next turn. Columns of A are
  // words of floats, so that one predicated load serves both arrays.
  float row[kHeld], next_row[kHeld] = {}, value[kHeld], next_value[kHeld];
  const auto* col_indices = reinterpret_cast<const float*>(product.col_indices + unit.first + lane);
  const float* values = product.values + unit.first + lane;
  const auto load_next = [&](int at) {
#pragma unroll
    for (int h = 0; h < kHeld; ++h) {
      const bool has = at + h * kLanes + lane < count;
      next_value[h] = -0.0f;
      load_if<1>(has, col_indices + at + h * kLanes, &next_row[h]);
      load_if<1>(has, values + at + h * kLanes, &next_value[h]);
    }
  };
  // The column or the value of nonzero i * kParts + part of a turn, from the lane that loaded it.
  const auto of_nonzero = [&](const auto& held, int i) {
    return __shfl_sync(~0u, held[i / kPartLanes], i % kPartLanes * kParts + part, kLanes);
  };
  load_next(0);
#pragma unroll 1
  for (int at = 0; at < most; at += kTurn) {
#pragma unroll
    for (int h = 0; h < kHeld; ++h) row[h] = next_row[h], value[h] = next_value[h];
    if (at + kTurn < most) load_next(at + kTurn);
    const auto step = [&](auto constant) {
      constexpr int kCount = decltype(constant)::value;
      typename Columns::Piece pieces[kCount] = {};
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const char* from =
            b + std::uint64_t{__float_as_uint(of_nonzero(row, i))} * product.row_bytes;
#pragma unroll
        for (int v = 0; v < kAccesses; ++v)
          Columns::load_if(i * kParts < ends[v] - at, from, v, pieces[i]);
      }
#pragma unroll
      for (int i = 0; i < kCount; ++i) Columns::add(of_nonzero(value, i), pieces[i], sums);
    };
    if (most - at > kShortPartStep * kParts)
      step(std::integral_constant<int, kPartUnroll>());
    else
      step(std::integral_constant<int, kShortPartStep>());
  }
#pragma unroll
  for (int lanes = kLanes / 2; lanes >= kPartLanes; lanes /= 2)
#pragma unroll
    for (int v = 0; v < Columns::kCols; ++v) sums[v] += __shfl_xor_sync(~0u, sums[v], lanes);
}

/// The number of float4 of a lane's sums.
template <int kCols>
constexpr int kVectors = kCols / 4;

__device__ inline void add(const float4& other, float* sums) {
  sums[0] += other.x, sums[1] += other.y, sums[2] += other.z, sums[3] += other.w;
}
__device__ inline float4 vector_of(const float* sums) {
  return {sums[0], sums[1], sums[2], sums[3]};
}

/// True in the unit that writes the sums of its team.
template <int kLanes>
__device__ bool is_first(int team) {
  return (threadIdx.x / kLanes & (team - 1)) == 0;
}

/// Leaves the sums of all units of a team, added in their order, to its first. A team has 2, 4, 8,
/// ... units. All threads of the thread block call it together.
template <int kLanes, int kCols>
__device__ void add_team(int team, float (&sums)[kCols]) {
  __shared__ float4 of_threads[kVectors<kCols>][kThreads];
  for (int v = 0; v < kVectors<kCols>; ++v) of_threads[v][threadIdx.x] = vector_of(sums + 4 * v);
  __syncthreads();
  if (!is_first<kLanes>(team)) return;
  const auto add_unit = [&](int unit) {
    for (int v = 0; v < kVectors<kCols>; ++v)
      add(of_threads[v][threadIdx.x + unit * kLanes], sums + 4 * v);
  };
  add_unit(1);
  if (team == 2) return;
  add_unit(2);
  add_unit(3);
#pragma unroll 1
  for (int unit = 4; unit < team; unit += 4)
#pragma unroll
    for (int i = 0; i < 4; ++i) add_unit(unit + i);
}

/// Leaves the sums of a thread block, which its first unit has, in a slot. Returns true in the last
/// thread block of the row to arrive; its first unit then has the sums of all: each of its units
/// has added some slots in their order. All threads of the thread block call it together.
template <int kLanes, int kInFlight, int kCols>
__device__ bool meet(const Arguments& product, std::uint32_t index, float (&sums)[kCols]) {
  constexpr int kSlot = kLanes * kVectors<kCols>;  // vectors
  __shared__ bool is_last;
  const SplitRow split = product.split_rows[index];
  const int lane = static_cast<int>(threadIdx.x % kLanes);
  float4* slots = product.slots + std::int64_t{blockIdx.y} * product.num_slots * kSlot + lane;
  if (threadIdx.x < kLanes) {
    for (int v = 0; v < kVectors<kCols>; ++v)
      __stcg(slots + std::int64_t{blockIdx.x} * kSlot + v * kLanes, vector_of(sums + 4 * v));
    __threadfence();
    __syncwarp(~0u >> (32 - kLanes));
    if (threadIdx.x == 0) {
      std::uint32_t* arrivals =
          product.arrivals + std::int64_t{blockIdx.y} * product.num_split_rows + index;
      is_last = atomicAdd(arrivals, 1) + 1 == split.num_slots;
      if (is_last) *arrivals = 0;  // for the next launch
    }
  }
  __syncthreads();
  if (!is_last) return false;
  __threadfence();
  constexpr int kUnits = kThreads / kLanes;
  const int unit = static_cast<int>(threadIdx.x / kLanes);
  const std::uint32_t end = first_slot_of(split.num_slots, kUnits, unit + 1);
  for (float& sum : sums) sum = 0;
  for (std::uint32_t slot = first_slot_of(split.num_slots, kUnits, unit); slot < end;
       slot += kInFlight) {
    float4 loaded[kInFlight][kVectors<kCols>];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i)
      for (int v = 0; v < kVectors<kCols>; ++v)  // -0 changes no sum
        loaded[i][v] =
            slot + i < end
                ? __ldcg(slots + std::int64_t{split.first_slot + slot + i} * kSlot + v * kLanes)
                : make_float4(-0.0f, -0.0f, -0.0f, -0.0f);
#pragma unroll
    for (const auto& of_slot : loaded)
      for (int v = 0; v < kVectors<kCols>; ++v) add(of_slot[v], sums + 4 * v);
  }
  add_team<kLanes>(kUnits, sums);
  return true;
}

template <class Numbers, int kLanes, int kParts, bool kAligned>
__global__ void __launch_bounds__(kThreads, resident(kLanes, kParts)) multiply(Arguments product) {
  using Columns = LaneColumns<Numbers, kLanes / kParts, kAligned>;
  constexpr int kUnits = kThreads / kLanes;
  const Unit unit =
      load_unit(product.units + std::int64_t{blockIdx.x} * kUnits + threadIdx.x / kLanes);
  const Columns columns;
  float sums[Columns::kCols] = {};
  if constexpr (kParts == kLanes)
    multiply_column<kLanes>(product, unit, sums[0]);
  else if constexpr (kLanes / kParts < kFewLanes)
    multiply_in_parts<Columns, kLanes, kParts>(product, unit, columns, sums);
  else
    multiply_piece<Columns, kLanes>(product, unit, columns, sums);
  // Teams of a thread block have one size, and those of a split row have all of it.
  if (unit.team > 1) add_team<kLanes>(unit.team, sums);
  // Slots, of as many registers in any type.
  constexpr int kInFlight =
      (kLanes / kParts < kFewLanes ? kPartUnroll : kUnroll) * 4 / Columns::kCols;
  if (unit.split != 0 && !meet<kLanes, kInFlight>(product, unit.split - 1, sums)) return;
  if (unit.row == kNoRow || !is_first<kLanes>(unit.team)) return;
  if (kParts > 1 && threadIdx.x % kLanes >= kLanes / kParts) return;
  const std::uint32_t place =
      product.places == nullptr ? unit.row : static_cast<std::uint32_t>(product.places[unit.row]);
  columns.store(product, std::uint64_t{place} * product.n + columns.first, sums);
}

}  // namespace tessera::rows_spmm
