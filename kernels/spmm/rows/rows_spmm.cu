// Device half of rows_spmm. See kernels/spmm/rows/rows_spmm.cpp.
//
// For a nonzero, every lane of a unit loads 16 bytes of a row of B, and eight such loads are in
// flight before the first is added. A lane loads one of the unit's nonzeros, a turn ahead; shuffles
// hand them round. The units of a warp go through their pieces together: where a unit has no
// nonzero left, or a lane no column of C, nothing is loaded and zeros are added. Every part of a
// unit in parts takes its own nonzeros, and shuffles add the sums of the parts in a tree.

#include "formats/base/registry.hpp"
#include "formats/csr.hpp"
#include "kernels/device/loads.cuh"
#include "kernels/device/store_16_bytes.cuh"
#include "kernels/gpu_spmm.hpp"
#include "kernels/spmm/rows/rows_spmm.hpp"

namespace tessera {
namespace {

using namespace rows_spmm;

struct Arguments {
  const Unit* units;           // [gridDim.x * units of a thread block]
  const SplitRow* split_rows;  // [num_split_rows]
  std::int64_t num_slots, num_split_rows;
  float4* slots;                    // [chunks][num_slots][lanes of a unit]
  std::uint32_t* arrivals;          // [chunks][num_split_rows], zero between launches
  const std::int32_t* col_indices;  // [nnz]
  const float* values;              // [nnz]
  std::uint32_t n, row_bytes;       // row_bytes: of a row of B
  const float* b;
  float* c;
  Scaling scaling;
};

/// The columns of C of a lane: four side by side or, for operands that are not aligned, one of
/// every kLanes, so that the lanes of a unit always access bytes side by side. A lane that is alone
/// has one.
template <int kLanes, bool kAligned>
struct LaneColumns {
  static constexpr int kWidth = kAligned ? kLaneCols : 1;  // floats of an access
  static constexpr int kAccesses = kLanes == 1 ? 1 : kLaneCols / kWidth;

  std::uint32_t first;  // of the first access
  __device__ LaneColumns()
      : first(blockIdx.y * (kLaneCols * kLanes) + threadIdx.x % kLanes * kWidth) {}

  __device__ static constexpr std::uint32_t offset(int access) {
    return static_cast<std::uint32_t>(access * kWidth * kLanes);
  }
  __device__ bool has(int access, std::uint32_t n) const { return first + offset(access) < n; }
};

__device__ Unit load_unit(const Unit* from) {
  const uint4 words = __ldg(reinterpret_cast<const uint4*>(from));
  return {words.x, words.y, words.z, static_cast<std::uint16_t>(words.w & 0xffff),
          static_cast<std::uint16_t>(words.w >> 16)};
}

/// Adds the products of a unit's nonzeros to its sums, one nonzero after another. All lanes of a
/// warp call it together. A nonzero that a unit lacks is -0 times 0, which changes no sum.
template <int kLanes, bool kAligned>
__device__ void multiply_piece(const Arguments& product, const Unit& unit,
                               const LaneColumns<kLanes, kAligned>& columns, float (&sums)[4]) {
  using Columns = LaneColumns<kLanes, kAligned>;
  const int count = unit.count, most = __reduce_max_sync(~0u, count);
  const char* b = reinterpret_cast<const char*>(product.b + columns.first);
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
    const auto step = [&](auto constant) {
      constexpr int kCount = decltype(constant)::value;
      float rows[kCount][kLaneCols] = {};
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const auto* from = reinterpret_cast<const float*>(
            b + std::uint64_t{__shfl_sync(~0u, row, i, kLanes)} * product.row_bytes);
#pragma unroll
        for (int v = 0; v < Columns::kAccesses; ++v)
          load_if<Columns::kWidth>(i < ends[v] - at, from + Columns::offset(v),
                                   rows[i] + v * Columns::kWidth);
      }
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const float factor = __shfl_sync(~0u, value, i, kLanes);
#pragma unroll
        for (int v = 0; v < kLaneCols; ++v) sums[v] = fmaf(factor, rows[i][v], sums[v]);
      }
    };
    // Half of the instructions where the warp's units have few nonzeros left, as those of road
    // networks and grids have at once.
    if (most - at > kShortStep)
      step(std::integral_constant<int, kUnroll>());
    else
      step(std::integral_constant<int, kShortStep>());
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
        load_if<1>(at + i * kLanes < end, product.b + __float_as_uint(rows[i]), &of_b[i]);
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
template <int kLanes, int kParts, bool kAligned>
__device__ void multiply_in_parts(const Arguments& product, const Unit& unit,
                                  const LaneColumns<kLanes / kParts, kAligned>& columns,
                                  float (&sums)[4]) {
  using Columns = LaneColumns<kLanes / kParts, kAligned>;
  constexpr int kPartLanes = kLanes / kParts;
  constexpr int kAccesses = Columns::kAccesses;
  constexpr int kTurn = kPartUnroll * kParts;  // nonzeros of a unit,
  constexpr int kHeld = kTurn / kLanes;        // and of a lane
  const int count = unit.count, most = __reduce_max_sync(~0u, count);
  const char* b = reinterpret_cast<const char*>(product.b + columns.first);
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
  // What the lane that loaded nonzero i * kParts + part of a turn has of it.
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
      float rows[kCount][kLaneCols] = {};
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const auto* from = reinterpret_cast<const float*>(
            b + std::uint64_t{__float_as_uint(of_nonzero(row, i))} * product.row_bytes);
#pragma unroll
        for (int v = 0; v < kAccesses; ++v)
          load_if<Columns::kWidth>(i * kParts < ends[v] - at, from + Columns::offset(v),
                                   rows[i] + v * Columns::kWidth);
      }
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const float factor = of_nonzero(value, i);
#pragma unroll
        for (int v = 0; v < kLaneCols; ++v) sums[v] = fmaf(factor, rows[i][v], sums[v]);
      }
    };
    if (most - at > kShortPartStep * kParts)
      step(std::integral_constant<int, kPartUnroll>());
    else
      step(std::integral_constant<int, kShortPartStep>());
  }
#pragma unroll
  for (int lanes = kLanes / 2; lanes >= kPartLanes; lanes /= 2)
#pragma unroll
    for (int v = 0; v < kLaneCols; ++v) sums[v] += __shfl_xor_sync(~0u, sums[v], lanes);
}

__device__ void add(const float4& other, float (&sums)[4]) {
  sums[0] += other.x, sums[1] += other.y, sums[2] += other.z, sums[3] += other.w;
}

/// True in the unit that writes the sums of its team.
template <int kLanes>
__device__ bool is_first(int team) {
  return (threadIdx.x / kLanes & (team - 1)) == 0;
}

/// Leaves the sums of all units of a team, added in their order, to its first. A team has 2, 4, 8,
/// ... units. All threads of the thread block call it together.
template <int kLanes>
__device__ void add_team(int team, float (&sums)[4]) {
  __shared__ float4 of_threads[kThreads];
  of_threads[threadIdx.x] = {sums[0], sums[1], sums[2], sums[3]};
  __syncthreads();
  if (!is_first<kLanes>(team)) return;
  const float4* units = of_threads + threadIdx.x;
  add(units[kLanes], sums);
  if (team == 2) return;
  add(units[2 * kLanes], sums);
  add(units[3 * kLanes], sums);
#pragma unroll 1
  for (int unit = 4; unit < team; unit += 4)
#pragma unroll
    for (int i = 0; i < 4; ++i) add(units[(unit + i) * kLanes], sums);
}

/// Leaves the sums of a thread block, which its first unit has, in a slot. Returns true in the last
/// thread block of the row to arrive; its first unit then has the sums of all: each of its units
/// has added some slots in their order. All threads of the thread block call it together.
template <int kLanes, int kInFlight>
__device__ bool meet(const Arguments& product, std::uint32_t index, float (&sums)[4]) {
  __shared__ bool is_last;
  const SplitRow split = product.split_rows[index];
  const int lane = static_cast<int>(threadIdx.x % kLanes);
  float4* slots = product.slots + std::int64_t{blockIdx.y} * product.num_slots * kLanes + lane;
  if (threadIdx.x < kLanes) {
    __stcg(slots + std::int64_t{blockIdx.x} * kLanes,
           make_float4(sums[0], sums[1], sums[2], sums[3]));
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
    float4 loaded[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i)  // -0 changes no sum
      loaded[i] = slot + i < end
                      ? __ldcg(slots + std::int64_t{split.first_slot + slot + i} * kLanes)
                      : make_float4(-0.0f, -0.0f, -0.0f, -0.0f);
#pragma unroll
    for (const float4& sum : loaded) add(sum, sums);
  }
  add_team<kLanes>(kUnits, sums);
  return true;
}

template <int kLanes, int kParts, bool kAligned>
__global__ void __launch_bounds__(kThreads, resident(kLanes, kParts)) multiply(Arguments product) {
  constexpr int kUnits = kThreads / kLanes;
  const Unit unit =
      load_unit(product.units + std::int64_t{blockIdx.x} * kUnits + threadIdx.x / kLanes);
  const LaneColumns<kLanes / kParts, kAligned> columns;
  float sums[4] = {};
  if constexpr (kParts == kLanes)
    multiply_column<kLanes>(product, unit, sums[0]);
  else if constexpr (kLanes / kParts < kFewLanes)
    multiply_in_parts<kLanes, kParts>(product, unit, columns, sums);
  else
    multiply_piece(product, unit, columns, sums);
  // Teams of a thread block have one size, and those of a split row have all of it.
  if (unit.team > 1) add_team<kLanes>(unit.team, sums);
  constexpr int kInFlight = kLanes / kParts < kFewLanes ? kPartUnroll : kUnroll;  // slots
  if (unit.split != 0 && !meet<kLanes, kInFlight>(product, unit.split - 1, sums)) return;
  if (unit.row == kNoRow || !is_first<kLanes>(unit.team)) return;
  if (kParts > 1 && threadIdx.x % kLanes >= kLanes / kParts) return;

  float* to = product.c + std::uint64_t{unit.row} * product.n + columns.first;
  if constexpr (kAligned) {
    store_16_bytes<true>(to, {sums[0], sums[1], sums[2], sums[3]},
                         std::int64_t{product.n} - columns.first, product.scaling,
                         Store::kStreaming);
  } else {
#pragma unroll
    for (int v = 0; v < columns.kAccesses; ++v) {
      float* place = to + columns.offset(v);
      if (columns.has(v, product.n)) *place = scaled(product.scaling, sums[v], place);
    }
  }
}

using Kernel = void (*)(Arguments);

template <bool kAligned>
Kernel kernel_of(const Schedule& schedule) {
  // One column is never aligned.
  if (schedule.part_lanes() == 1)
    return schedule.lanes == 2 ? multiply<2, 2, false> : multiply<8, 8, false>;
  if (schedule.part_lanes() == 2)
    return schedule.lanes == 2 ? multiply<2, 1, kAligned> : multiply<8, 4, kAligned>;
  if (schedule.part_lanes() == 4) return multiply<8, 2, kAligned>;
  return schedule.lanes == 8    ? multiply<8, 1, kAligned>
         : schedule.lanes == 16 ? multiply<16, 1, kAligned>
                                : multiply<32, 1, kAligned>;
}

class RowsMultiplication final : public GpuMultiplication {
 public:
  RowsMultiplication(const CsrMatrix& a, std::int64_t n, const Schedule& schedule)
      : RowsMultiplication(a, n, schedule, make_plan(a, schedule)) {}

  std::vector<int> registers() const override { return {registers_of(aligned_)}; }

  void launch(int, const Operands& operands, cudaStream_t stream) override {
    if (grid_.x == 0 || grid_.y == 0) return;
    arguments_.b = operands.b_fp32(), arguments_.c = operands.c_fp32(),
    arguments_.scaling = operands.scaling;
    const Kernel run = aligned_to_16_bytes(arguments_.n, operands) ? aligned_ : any_;
    run<<<grid_, kThreads, 0, stream>>>(arguments_);
    cuda_check(cudaGetLastError(), "launching rows_spmm");
  }

 private:
  RowsMultiplication(const CsrMatrix& a, std::int64_t n, const Schedule& schedule, const Plan& plan)
      : aligned_(kernel_of<true>(schedule)),
        any_(kernel_of<false>(schedule)),
        grid_(static_cast<unsigned>(std::ssize(plan.units) / schedule.units_per_block()),
              static_cast<unsigned>(schedule.chunks(n))),
        units_(plan.units),
        split_rows_(plan.split_rows),
        slots_(static_cast<std::size_t>(schedule.chunks(n) * plan.num_slots * schedule.lanes)),
        arrivals_(std::vector<std::uint32_t>(
            static_cast<std::size_t>(schedule.chunks(n)) * plan.split_rows.size(), 0)),
        col_indices_(a.col_indices),
        values_(a.values),
        arguments_{.units = units_.data(),
                   .split_rows = split_rows_.data(),
                   .num_slots = plan.num_slots,
                   .num_split_rows = std::ssize(plan.split_rows),
                   .slots = slots_.data(),
                   .arrivals = arrivals_.data(),
                   .col_indices = col_indices_.data(),
                   .values = values_.data(),
                   .n = static_cast<std::uint32_t>(n),
                   .row_bytes = static_cast<std::uint32_t>(n * sizeof(float)),
                   .b = nullptr,
                   .c = nullptr,
                   .scaling = {}} {
    load_now(aligned_, any_);
  }

  Kernel aligned_, any_;
  dim3 grid_;
  DeviceArray<Unit> units_;
  DeviceArray<SplitRow> split_rows_;
  DeviceArray<float4> slots_;
  DeviceArray<std::uint32_t> arrivals_;
  DeviceArray<std::int32_t> col_indices_;
  DeviceArray<float> values_;
  Arguments arguments_;
};

class GpuRowsSpmm final : public GpuSpmm {
 public:
  explicit GpuRowsSpmm(Params params) : params_(std::move(params)) {}

  std::unique_ptr<GpuMultiplication> upload(const PackedMatrix& packed,
                                            std::int64_t n) const override {
    const CsrMatrix& a = packed_as<CsrPacked>(packed).matrix;
    const Schedule schedule = schedule_of(params_, a, n);
    require<Unsupported>(schedule.chunks(n) <= kMaxGridY,
                         "rows_spmm takes at most {} columns of B, not {}",
                         kMaxGridY * schedule.columns(), n);
    return std::make_unique<RowsMultiplication>(a, n, schedule);
  }

 private:
  Params params_;
};

const Register<GpuSpmm> entry{{
    .name = "rows_spmm",
    .summary = "device half of rows_spmm",
    .make = [](const Params& params) { return std::make_unique<GpuRowsSpmm>(params); },
}};

}  // namespace
}  // namespace tessera
