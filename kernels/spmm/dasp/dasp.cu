// Device half of dasp: a warp for each task, and the sums of long rows. See
// kernels/spmm/dasp/dasp.cpp.

#include <climits>
#include <string>

#include "formats/base/registry.hpp"
#include "formats/csr.hpp"
#include "kernels/device/store_16_bytes.cuh"
#include "kernels/device/loads.cuh"
#include "kernels/gpu_spmm.hpp"
#include "kernels/spmm/dasp/dasp.hpp"
#include "kernels/tensor_core/half_operands.cuh"
#include "kernels/tensor_core/number_format.hpp"

namespace tessera {
namespace {

using namespace dasp;

struct View {
  int n;
  const Task* tasks;  // [num_tasks]
  std::uint32_t num_tasks;
  const std::int32_t* rows;         // of medium and short tasks' slots
  const std::int32_t* col_indices;  // [chunks * kPlaces]
  const std::uint16_t* values;      // [chunks * kPlaces] FP16
  const LongRow* long_rows;         // [num_long_rows]
  std::uint32_t num_long_rows;
  float* slots;  // [parts of long rows][kMaxCols]
  const float* b;
  float* c;
  Scaling scaling;
};

/// What a lane has of a chunk: places 2t and 2t + 1 of slot g.
struct Places {
  std::int32_t col[2];
  std::uint32_t values;

  __device__ static Places load(const View& view, std::uint32_t chunk, int lane) {
    const std::uint64_t at = std::uint64_t{chunk} * (kPlaces / 2) + lane;
    const std::uint64_t cols =
        load_ahead(reinterpret_cast<const std::uint64_t*>(view.col_indices) + at);
    return {{static_cast<std::int32_t>(cols), static_cast<std::int32_t>(cols >> 32)},
            load_ahead(reinterpret_cast<const std::uint32_t*>(view.values) + at)};
  }
};

/// A row of B, kVector columns at once; zeros where there is none and beyond its last column.
template <int kMmas, int kVector>
__device__ void load_row(const View& view, std::int32_t row, float (&to)[2 * kMmas]) {
  const float* from = view.b + std::int64_t{max(row, 0)} * view.n;
#pragma unroll
  for (int j = 0; j < 2 * kMmas; j += kVector) {
    const bool real = row >= 0 && j < view.n;
    if constexpr (kVector == 4) {
      const float4 four =
          real ? __ldg(reinterpret_cast<const float4*>(from + j)) : float4{0, 0, 0, 0};
      to[j] = four.x, to[j + 1] = four.y, to[j + 2] = four.z, to[j + 3] = four.w;
    } else if constexpr (kVector == 2) {
      const float2 two = real ? __ldg(reinterpret_cast<const float2*>(from + j)) : float2{0, 0};
      to[j] = two.x, to[j + 1] = two.y;
    } else {
      to[j] = real ? __ldg(from + j) : 0.0f;
    }
  }
}

/// The chunk's elements of B as left operands: of MMA m rows g are slots at column 2m, rows g + 8
/// slots at column 2m + 1.
template <int kMmas, int kVector>
__device__ void load_left(const View& view, const Places& places, std::uint32_t (&left)[kMmas][2]) {
  float even[2 * kMmas], odd[2 * kMmas];
  load_row<kMmas, kVector>(view, places.col[0], even);
  load_row<kMmas, kVector>(view, places.col[1], odd);
#pragma unroll
  for (int m = 0; m < kMmas; ++m)
    for (int i = 0; i < 2; ++i) left[m][i] = PackedFp16::pair(even[2 * m + i], odd[2 * m + i]);
}

template <int kMmas>
using Sums = float[kMmas][4];

/// The lane's slot at column j, if it is the one that has it.
template <int kMmas>
__device__ float on_diagonal(const Sums<kMmas>& sums, int g, int j) {
  const float* sum = sums[j / 2] + j % 2 * 2;
  return g % 2 == 0 ? sum[0] : sum[1];
}

/// A slot's sums into a row of C, by the lane that has them.
template <int kMmas, bool kWide>
__device__ void store_row(const View& view, const Sums<kMmas>& sums, std::int32_t row, int lane) {
  const int g = lane / 4;
  if (lane % 4 != g / 2 || row < 0) return;
  float* to = view.c + std::int64_t{row} * view.n;
  if constexpr (kWide) {
#pragma unroll
    for (int j = 0; j < 2 * kMmas; j += 4)
      store_16_bytes<true>(to + j,
                           {on_diagonal<kMmas>(sums, g, j), on_diagonal<kMmas>(sums, g, j + 1),
                            on_diagonal<kMmas>(sums, g, j + 2), on_diagonal<kMmas>(sums, g, j + 3)},
                           view.n - j, view.scaling);
  } else {
#pragma unroll
    for (int j = 0; j < 2 * kMmas; ++j)
      if (j < view.n) to[j] = scaled(view.scaling, on_diagonal<kMmas>(sums, g, j), to + j);
  }
}

/// The sum of all slots, of a part of a long row. On the diagonal g ^ 1, g ^ 2 and g ^ 4 are lanes
/// ^ 4, ^ 9 and ^ 18.
template <int kMmas>
__device__ void store_part(const View& view, const Sums<kMmas>& sums, std::uint32_t part,
                           int lane) {
#pragma unroll
  for (int j = 0; j < 2 * kMmas; ++j) {
    float sum = on_diagonal<kMmas>(sums, lane / 4, j);
    for (const int apart : {4, 9, 18}) sum += __shfl_xor_sync(~0u, sum, apart);
    if (lane == 0 && j < view.n) view.slots[std::uint64_t{part} * kMaxCols + j] = sum;
  }
}

template <int kMmas, int kVector>
__global__ void __launch_bounds__(kThreads, 8) multiply(View view) {
  const std::uint32_t index = blockIdx.x * kWarps + threadIdx.x / 32;
  if (index >= view.num_tasks) return;
  const int lane = static_cast<int>(threadIdx.x % 32), g = lane / 4;
  const Task task = view.tasks[index];
  Sums<kMmas> sums = {};
  Places next = Places::load(view, task.first, lane);
  std::uint32_t left[kMmas][2];
  if (task.kind == Task::kShort) {
    // Each row's own places, and zeros for both operands in the other's: the two do not meet.
    load_left<kMmas, kVector>(view, next, left);
    Sums<kMmas> others = {};
    const bool first_row = lane % 4 < 2;
    const std::uint32_t right[1] = {first_row ? next.values : 0u};
    const std::uint32_t other_right[1] = {first_row ? 0u : next.values};
#pragma unroll
    for (int m = 0; m < kMmas; ++m) {
      const std::uint32_t mine[2] = {first_row ? left[m][0] : 0u, first_row ? left[m][1] : 0u};
      const std::uint32_t other[2] = {first_row ? 0u : left[m][0], first_row ? 0u : left[m][1]};
      mma_m16n8k8_fp16(sums[m], mine, right);
      mma_m16n8k8_fp16(others[m], other, other_right);
    }
    store_row<kMmas, kVector == 4>(view, sums, view.rows[task.index + g], lane);
    store_row<kMmas, kVector == 4>(view, others, view.rows[task.index + kSlots + g], lane);
    return;
  }
#pragma unroll 2
  for (std::uint32_t chunk = task.first; chunk < task.last; ++chunk) {
    const Places places = next;
    if (chunk + 1 < task.last) next = Places::load(view, chunk + 1, lane);
    load_left<kMmas, kVector>(view, places, left);
    const std::uint32_t right[1] = {places.values};
#pragma unroll
    for (int m = 0; m < kMmas; ++m) mma_m16n8k8_fp16(sums[m], left[m], right);
  }
  if (task.kind == Task::kLong)
    store_part<kMmas>(view, sums, task.index, lane);
  else
    store_row<kMmas, kVector == 4>(view, sums, view.rows[task.index + g], lane);
}

/// Parts of long rows, in their order: a thread for an element.
__global__ void __launch_bounds__(kThreads) add_parts(View view) {
  const std::uint32_t index = blockIdx.x * (kThreads / kMaxCols) + threadIdx.x / kMaxCols;
  const int j = static_cast<int>(threadIdx.x % kMaxCols);
  if (index >= view.num_long_rows || j >= view.n) return;
  const LongRow row = view.long_rows[index];
  const float* from = view.slots + std::uint64_t{row.first_part} * kMaxCols + j;
  float sum = *from;
#pragma unroll 4
  for (std::uint32_t part = 1; part < row.parts; ++part) sum += from[part * kMaxCols];
  float* to = view.c + std::int64_t{row.row} * view.n + j;
  *to = scaled(view.scaling, sum, to);
}

using Kernel = void (*)(View);

/// `aligned`: rows of B and C begin at 16 bytes as far as their width lets them.
Kernel instance(std::int64_t n, bool aligned) {
  if (aligned && n == 4) return multiply<2, 4>;
  if (aligned && n == 8) return multiply<4, 4>;
  if (aligned && n == 2) return multiply<1, 2>;
  if (aligned && n == 6) return multiply<3, 2>;
  switch (num_mmas(n)) {
    case 1:
      return multiply<1, 1>;
    case 2:
      return multiply<2, 1>;
    case 3:
      return multiply<3, 1>;
    default:
      return multiply<4, 1>;
  }
}

/// A's values in their places, zeros in the others.
std::vector<std::uint16_t> values_of(const CsrMatrix& a, const Packing& packing) {
  std::vector<std::uint16_t> values;
  values.reserve(packing.nonzeros.size());
  for (const std::int64_t nonzero : packing.nonzeros)
    values.push_back(nonzero < 0 ? std::uint16_t{0}
                                 : fp16_bits(convert(a.values[nonzero], Conversion::kFp16)));
  return values;
}

class DaspMultiplication final : public GpuMultiplication {
 public:
  DaspMultiplication(const CsrMatrix& a, std::int64_t n, const Packing& packing)
      : tasks_(packing.tasks),
        rows_(packing.rows),
        col_indices_(packing.col_indices),
        values_(values_of(a, packing)),
        long_rows_(packing.long_rows),
        slots_(static_cast<std::size_t>(packing.num_parts * kMaxCols)) {
    view_ = {.n = static_cast<int>(n),
             .tasks = tasks_.data(),
             .num_tasks = static_cast<std::uint32_t>(packing.tasks.size()),
             .rows = rows_.data(),
             .col_indices = col_indices_.data(),
             .values = values_.data(),
             .long_rows = long_rows_.data(),
             .num_long_rows = static_cast<std::uint32_t>(packing.long_rows.size()),
             .slots = slots_.data(),
             .b = nullptr,
             .c = nullptr,
             .scaling = {}};
    load_now(instance(n, false), instance(n, true), add_parts);
  }

  std::vector<int> registers() const override {
    std::vector<int> registers{registers_of(instance(view_.n, true))};
    if (view_.num_long_rows > 0) registers.push_back(registers_of(add_parts));
    return registers;
  }

  void launch(int, const Operands& operands, cudaStream_t stream) override {
    if (view_.num_tasks == 0) return;
    View view = view_;
    view.b = operands.b, view.c = operands.c, view.scaling = operands.scaling;
    const bool aligned = reinterpret_cast<std::uintptr_t>(operands.b) % 16 == 0 &&
                         reinterpret_cast<std::uintptr_t>(operands.c) % 16 == 0;
    const auto blocks = [](std::uint32_t count, std::uint32_t each) {
      return (count + each - 1) / each;
    };
    instance(view.n, aligned)<<<blocks(view.num_tasks, kWarps), kThreads, 0, stream>>>(view);
    cuda_check(cudaGetLastError(), "launching dasp");
    if (view.num_long_rows == 0) return;
    add_parts<<<blocks(view.num_long_rows, kThreads / kMaxCols), kThreads, 0, stream>>>(view);
    cuda_check(cudaGetLastError(), "launching dasp's sums");
  }

 private:
  DeviceArray<Task> tasks_;
  DeviceArray<std::int32_t> rows_;
  DeviceArray<std::int32_t> col_indices_;
  DeviceArray<std::uint16_t> values_;
  DeviceArray<LongRow> long_rows_;
  DeviceArray<float> slots_;
  View view_ = {};
};

class GpuDasp final : public GpuSpmm {
 public:
  explicit GpuDasp(const Options& options) : options_(options) {}
  std::unique_ptr<GpuMultiplication> upload(const PackedMatrix& packed,
                                            std::int64_t n) const override {
    require_cols(n);
    const CsrMatrix& a = packed_as<CsrPacked>(packed).matrix;
    return std::make_unique<DaspMultiplication>(a, n, Packing(a, options_));
  }

 private:
  Options options_;
};

const Register<GpuSpmm> entry{{
    .name = "dasp",
    .summary = "device half of dasp",
    .make = [](const Params& params) { return std::make_unique<GpuDasp>(Options(params)); },
}};

}  // namespace
}  // namespace tessera
