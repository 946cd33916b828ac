// The kernel of rows_spmm.
//
// For a nonzero, every lane of a unit loads 16 bytes of a row of B, or 32 or 64 where the unit is a
// wide warp, and 128 bytes are in flight before the first are added. A lane loads one of the unit's
// nonzeros, a turn ahead; shuffles hand them round. The units of a warp go through their pieces
// together: where a unit has no nonzero left, or a lane no column of C, nothing is loaded and zeros
// are added. A wide warp takes no more steps than its own unit needs. Every part of a
// unit in parts takes its own nonzeros, and shuffles add the sums of the parts in a tree.
#pragma once

#include "kernels/device/hidden.cuh"
#include "kernels/spmm/rows/columns.cuh"

namespace tessera::rows_spmm {

__device__ inline Unit load_unit(const Unit* from) {
  const uint4 words = load_ahead(reinterpret_cast<const uint4*>(from));
  return {words.x, words.y, words.z, static_cast<std::uint16_t>(words.w & 0xffff),
          static_cast<std::uint16_t>(words.w >> 16)};
}

/// The columns of a unit's nonzeros, as 32 bits or as offsets of 16 from the unit's first column.
template <class Index>
class UnitIndices {
 public:
  __device__ UnitIndices(const Arguments& product, const Unit& unit, std::int64_t number) {
    if constexpr (kOffsets) {
      at_ = product.col_offsets + unit.first;
      base_ = __ldg(product.bases + number);
    } else {
      at_ = product.col_indices + unit.first;
      base_ = 0;
    }
  }
  /// The row of B of the column that an index of zero means.
  __device__ const char* base_row(const char* b, std::uint32_t row_bytes) const {
    return kOffsets ? b + std::uint64_t{base_} * row_bytes : b;
  }
  /// Loads index `at` as the word of a float, as load_if does.
  __device__ void load_if(bool when, int at, float& index) const {
    if constexpr (kOffsets)
      load_16_bits_if(when, at_ + at, index);
    else
      tessera::load_if<1>(when, reinterpret_cast<const float*>(at_ + at), &index);
  }

 private:
  static constexpr bool kOffsets = sizeof(Index) == 2;
  const Index* at_;
  std::uint32_t base_;
};

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

/// Calls step(count, first) with the constant `count`, which is `left`, at most kMost, and not
/// zero.
template <int kMost, class Step>
__device__ void step_of_rest(const Step& step, int first, int left) {
  if constexpr (kMost > 0) {
    if (left == kMost)
      step(std::integral_constant<int, kMost>(), first);
    else
      step_of_rest<kMost - 1>(step, first, left);
  }
}

/// The same for a unit that is a warp and has several accesses a row. Its lanes take the same
/// branches, so that nothing is loaded or added for nonzeros that it lacks; a lane without a column
/// adds zeros that nobody reads.
template <class Columns>
__device__ void multiply_by_warp(const Arguments& product, const Unit& unit, const Columns& columns,
                                 float (&sums)[Columns::kCols]) {
  constexpr int kStep = Columns::kInFlight;
  // One register for the warp, by which the compiler knows that all lanes branch alike.
  const int count = __reduce_max_sync(~0u, unit.count);
  const int lane = static_cast<int>(threadIdx.x % 32);
  const char* b = hidden(columns.of(product.b));
  bool has[Columns::kAccesses];
#pragma unroll
  for (int v = 0; v < Columns::kAccesses; ++v) has[v] = columns.has(v, product.n);

  // The nonzeros of the lanes, 32 a turn: those in use, and those loaded for the next turn.
  std::uint32_t row = 0, next_row = 0;
  float value = 0, next_value = 0;
  const auto load_next = [&](int at) {
    if (at + lane >= count) return;
    const std::uint32_t nonzero = unit.first + (at + lane);
    next_row = static_cast<std::uint32_t>(__ldg(product.col_indices + nonzero));
    next_value = __ldg(product.values + nonzero);
  };
  typename Columns::Piece pieces[kStep] = {};
  const auto step = [&](auto constant, int first) {
    constexpr int kCount = decltype(constant)::value;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const char* from = b + std::uint64_t{__shfl_sync(~0u, row, first + i)} * product.row_bytes;
#pragma unroll
      for (int v = 0; v < Columns::kAccesses; ++v) Columns::load_if(has[v], from, v, pieces[i]);
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      Columns::add(__shfl_sync(~0u, value, first + i), pieces[i], sums);
  };
  load_next(0);
#pragma unroll 1
  for (int at = 0; at < count; at += 32) {
    row = next_row, value = next_value;
    load_next(at + 32);
    const int end = min(count - at, 32);
    int first = 0;
#pragma unroll 1
    for (; first + kStep <= end; first += kStep) step(std::integral_constant<int, kStep>(), first);
    step_of_rest<kStep - 1>(step, first, end - first);
  }
}

/// The same for one column of C: the lanes of a unit take nonzeros side by side, and all lanes
/// leave with the sum of all. A turn is all that most pieces have, so nothing is loaded ahead.
template <int kLanes, class Index>
__device__ void multiply_column(const Arguments& product, const Unit& unit,
                                const UnitIndices<Index>& indices, float& sum) {
  const int lane = static_cast<int>(threadIdx.x % kLanes);
  const int count = unit.count, most = __reduce_max_sync(~0u, count), end = count - lane;
  const float* values = product.values + unit.first + lane;
  const auto* b = reinterpret_cast<const float*>(
      indices.base_row(static_cast<const char*>(product.b), product.row_bytes));
#pragma unroll 1
  for (int at = 0; at < most; at += kUnroll * kLanes) {
    const auto step = [&](auto constant) {
      constexpr int kCount = decltype(constant)::value;
      float rows[kCount] = {}, factors[kCount], of_b[kCount] = {};
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        factors[i] = -0.0f;
        indices.load_if(at + i * kLanes < end, lane + at + i * kLanes, rows[i]);
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
    else if (most - at <= kUnroll * 3 / 4 * kLanes)
      step(std::integral_constant<int, kUnroll * 3 / 4>());
    else
      step(std::integral_constant<int, kUnroll>());
  }
#pragma unroll
  for (int lanes = kLanes / 2; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(~0u, sum, lanes);
}

/// The same for a unit whose parts take nonzeros side by side: all parts leave with the sum of all.
template <class Columns, int kLanes, int kParts, class Index>
__device__ void multiply_in_parts(const Arguments& product, const Unit& unit,
                                  const UnitIndices<Index>& indices, const Columns& columns,
                                  float (&sums)[Columns::kCols]) {
  constexpr int kPartLanes = kLanes / kParts;
  constexpr int kAccesses = Columns::kAccesses;
  constexpr int kTurn = kPartUnroll * kParts;  // nonzeros of a unit,
  constexpr int kHeld = kTurn / kLanes;        // and of a lane
  const int count = unit.count, most = __reduce_max_sync(~0u, count);
  const char* b = indices.base_row(columns.of(product.b), product.row_bytes);
  const int lane = static_cast<int>(threadIdx.x % kLanes), part = lane / kPartLanes;
  // The nonzeros of which this lane loads something, less those of the first step before its own.
  int ends[kAccesses];
  for (int v = 0; v < kAccesses; ++v) ends[v] = columns.has(v, product.n) ? count - part : 0;

  // The nonzeros of the lanes: those in use, and those loaded for the next turn.
  float row[kHeld], next_row[kHeld] = {}, value[kHeld], next_value[kHeld];
  const float* values = product.values + unit.first + lane;
  const auto load_next = [&](int at) {
#pragma unroll
    for (int h = 0; h < kHeld; ++h) {
      const bool has = at + h * kLanes + lane < count;
      next_value[h] = -0.0f;
      indices.load_if(has, lane + at + h * kLanes, next_row[h]);
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
/// ... units. All threads of the thread block call it together. At most eight columns of a lane go
/// through the shared memory at a time, whose size takes from the L1.
template <int kLanes, int kCols>
__device__ void add_team(int team, float (&sums)[kCols]) {
  constexpr int kPass = team_pass(kCols) / 4;  // vectors
  __shared__ float4 of_threads[kPass][kThreads];
#pragma unroll
  for (int first = 0; first < kVectors<kCols>; first += kPass) {
    float* const of_lane = sums + 4 * first;
    if (first > 0) __syncthreads();
    for (int v = 0; v < kPass; ++v) of_threads[v][threadIdx.x] = vector_of(of_lane + 4 * v);
    __syncthreads();
    if (!is_first<kLanes>(team)) continue;
    const auto add_unit = [&](int unit) {
      for (int v = 0; v < kPass; ++v)
        add(of_threads[v][threadIdx.x + unit * kLanes], of_lane + 4 * v);
    };
    add_unit(1);
    if (team == 2) continue;
    add_unit(2);
    add_unit(3);
#pragma unroll 1
    for (int unit = 4; unit < team; unit += 4)
#pragma unroll
      for (int i = 0; i < 4; ++i) add_unit(unit + i);
  }
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

/// Index is std::uint16_t where columns are offsets; kWide as in LaneColumns.
template <class Numbers, int kLanes, int kParts, bool kAligned, class Index, int kWide>
__global__ void __launch_bounds__(kThreads, resident(kLanes, kParts, kWide))
    multiply(Arguments product) {
  using Columns = LaneColumns<Numbers, kLanes / kParts, kAligned, kWide>;
  constexpr int kUnits = kThreads / kLanes;
  constexpr bool kInParts = kLanes / kParts < kFewLanes;
  const std::int64_t number = std::int64_t{blockIdx.x} * kUnits + threadIdx.x / kLanes;
  const Unit unit = load_unit(product.units + number);
  if (blockIdx.y == 0) fetch_early(product.early, blockIdx.x);
  if (!is_to_run<Numbers>(product)) return;
  // The launch of short rows, which does not wait, may begin in any case.
  begin_product(product.ends_first && !product.beside_long_rows);
  const Columns columns;
  float sums[Columns::kCols] = {};
  if constexpr (kParts == kLanes)
    multiply_column<kLanes>(product, unit, UnitIndices<Index>(product, unit, number), sums[0]);
  else if constexpr (kInParts)
    multiply_in_parts<Columns, kLanes, kParts>(
        product, unit, UnitIndices<Index>(product, unit, number), columns, sums);
  else if constexpr (kWide > 1)
    multiply_by_warp(product, unit, columns, sums);
  else
    multiply_piece<Columns, kLanes>(product, unit, columns, sums);
  // Teams of a thread block have one size, and those of a split row have all of it.
  if (unit.team > 1) add_team<kLanes>(unit.team, sums);
  // Slots, of as many registers in any type.
  constexpr int kInFlight = (kInParts ? kPartUnroll : kUnroll) * 4 / Columns::kCols;
  if (unit.split != 0 && !meet<kLanes, kInFlight>(product, unit.split - 1, sums)) return;
  if (unit.row == kNoRow || !is_first<kLanes>(unit.team)) return;
  if (kParts > 1 && threadIdx.x % kLanes >= kLanes / kParts) return;
  const std::uint32_t place =
      product.places == nullptr ? unit.row : static_cast<std::uint32_t>(product.places[unit.row]);
  columns.store(product, std::uint64_t{place} * product.n + columns.first, sums);
}

}  // namespace tessera::rows_spmm
