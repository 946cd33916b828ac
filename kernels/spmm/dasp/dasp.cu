// Device half of dasp: a launch with a warp for each task, and one that adds the parts of long
// rows. See kernels/spmm/dasp/dasp.cpp.

#include <climits>
#include <string>

#include "formats/base/registry.hpp"
#include "formats/csr.hpp"
#include "kernels/device/loads.cuh"
#include "kernels/device/store_16_bytes.cuh"
#include "kernels/gpu_spmm.hpp"
#include "kernels/spmm/dasp/dasp.hpp"
#include "kernels/tensor_core/half_operands.cuh"
#include "kernels/tensor_core/number_format.hpp"

namespace tessera {
namespace {

using namespace dasp;

struct KernelArguments {
  int n;
  const Task* tasks;  // [num_tasks]
  std::uint32_t num_tasks;
  const std::int32_t* rows;         // of the slots of medium and short tasks
  const std::int32_t* col_indices;  // [chunks * kPlaces]
  const std::uint16_t* values;      // [chunks * kPlaces] FP16
  const LongRow* long_rows;         // [num_long_rows]
  std::uint32_t num_long_rows;
  float* slots;  // [parts of long rows][kMaxCols]
  const float* b;
  float* c;
  Scaling scaling;
};

/// The part of a chunk in a lane: places 2t and 2t + 1 of slot g.
struct LanePlaces {
  std::int32_t col[2];
  std::uint32_t values;

  __device__ static LanePlaces load(const KernelArguments& product, std::uint32_t chunk, int lane) {
    const std::uint64_t at = std::uint64_t{chunk} * (kPlaces / kLanePlaces) + lane;
    const std::uint64_t cols =
        load_ahead(reinterpret_cast<const std::uint64_t*>(product.col_indices) + at);
    return {{static_cast<std::int32_t>(cols), static_cast<std::int32_t>(cols >> 32)},
            load_ahead(reinterpret_cast<const std::uint32_t*>(product.values) + at)};
  }
};

/// Loads a row of B, kVector columns at once; zeros where there is no row or column.
template <int kMmas, int kVector>
__device__ void load_row(const KernelArguments& product, std::int32_t row, float (&to)[2 * kMmas]) {
  const float* from = product.b + std::int64_t{max(row, 0)} * product.n;
#pragma unroll
  for (int j = 0; j < 2 * kMmas; j += kVector) {
    const bool real = row >= 0 && j < product.n;
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

/// Loads the elements of B of a chunk as left operands: rows g of MMA m are the slots at column 2m,
/// rows g + 8 the slots at column 2m + 1.
template <int kMmas, int kVector>
__device__ void load_left(const KernelArguments& product, const LanePlaces& places,
                          std::uint32_t (&left)[kMmas][2]) {
  float even[2 * kMmas], odd[2 * kMmas];
  load_row<kMmas, kVector>(product, places.col[0], even);
  load_row<kMmas, kVector>(product, places.col[1], odd);
#pragma unroll
  for (int m = 0; m < kMmas; ++m)
    for (int i = 0; i < 2; ++i) left[m][i] = PackedFp16::pair(even[2 * m + i], odd[2 * m + i]);
}

template <int kMmas>
using Sums = float[kMmas][4];

/// The sum of the lane's slot at column j; only one lane of the slot has it.
template <int kMmas>
__device__ float on_diagonal(const Sums<kMmas>& sums, int g, int j) {
  const float* sum = sums[j / 2] + j % 2 * 2;
  return g % 2 == 0 ? sum[0] : sum[1];
}

/// Writes the sums of a slot to a row of C from the lane that has them.
template <int kMmas, bool kWide>
__device__ void store_row(const KernelArguments& product, const Sums<kMmas>& sums, std::int32_t row,
                          int lane) {
  const int g = lane / 4;
  if (lane % 4 != g / 2 || row < 0) return;
  float* to = product.c + std::int64_t{row} * product.n;
  if constexpr (kWide) {
#pragma unroll
    for (int j = 0; j < 2 * kMmas; j += 4)
      store_16_bytes<true>(to + j,
                           {on_diagonal<kMmas>(sums, g, j), on_diagonal<kMmas>(sums, g, j + 1),
                            on_diagonal<kMmas>(sums, g, j + 2), on_diagonal<kMmas>(sums, g, j + 3)},
                           product.n - j, product.scaling);
  } else {
#pragma unroll
    for (int j = 0; j < 2 * kMmas; ++j)
      if (j < product.n) to[j] = scaled(product.scaling, on_diagonal<kMmas>(sums, g, j), to + j);
  }
}

/// Stores the sum of all slots of a part of a long row. On the diagonal g ^ 1, g ^ 2 and g ^ 4 are
/// lanes ^ 4, ^ 9 and ^ 18.
template <int kMmas>
__device__ void store_part(const KernelArguments& product, const Sums<kMmas>& sums,
                           std::uint32_t part, int lane) {
#pragma unroll
  for (int j = 0; j < 2 * kMmas; ++j) {
    float sum = on_diagonal<kMmas>(sums, lane / 4, j);
    for (const int apart : {4, 9, 18}) sum += __shfl_xor_sync(~0u, sum, apart);
    if (lane == 0 && j < product.n) product.slots[std::uint64_t{part} * kMaxCols + j] = sum;
  }
}

template <int kMmas, int kVector>
__global__ void __launch_bounds__(kThreads, 8) multiply(KernelArguments product) {
  const std::uint32_t index = task_of(blockIdx.x, threadIdx.x / 32);
  if (index >= product.num_tasks) return;
  const int lane = static_cast<int>(threadIdx.x % 32), g = lane / 4;
  const Task task = product.tasks[index];
  Sums<kMmas> sums = {};
  LanePlaces next = LanePlaces::load(product, task.first, lane);
  std::uint32_t left[kMmas][2];
  if (task.kind == Task::kShort) {
    // Each MMA has the places of one of the two rows and zeros in those of the other.
    load_left<kMmas, kVector>(product, next, left);
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
    store_row<kMmas, kVector == 4>(product, sums, product.rows[task.index + g], lane);
    store_row<kMmas, kVector == 4>(product, others, product.rows[task.index + kSlots + g], lane);
    return;
  }
#pragma unroll 2
  for (std::uint32_t chunk = task.first; chunk < task.last; ++chunk) {
    const LanePlaces places = next;
    if (chunk + 1 < task.last) next = LanePlaces::load(product, chunk + 1, lane);
    load_left<kMmas, kVector>(product, places, left);
    const std::uint32_t right[1] = {places.values};
#pragma unroll
    for (int m = 0; m < kMmas; ++m) mma_m16n8k8_fp16(sums[m], left[m], right);
  }
  if (task.kind == Task::kLong)
    store_part<kMmas>(product, sums, task.index, lane);
  else
    store_row<kMmas, kVector == 4>(product, sums, product.rows[task.index + g], lane);
}

/// Adds the parts of long rows in their order: a thread for each element.
__global__ void __launch_bounds__(kThreads) add_parts(KernelArguments product) {
  const std::uint32_t index = long_row_of(blockIdx.x, threadIdx.x / kMaxCols);
  const int j = static_cast<int>(threadIdx.x % kMaxCols);
  if (index >= product.num_long_rows || j >= product.n) return;
  const LongRow row = product.long_rows[index];
  const float* from = product.slots + std::uint64_t{row.first_part} * kMaxCols + j;
  float sum = *from;
#pragma unroll 4
  for (std::uint32_t part = 1; part < row.parts; ++part) sum += from[part * kMaxCols];
  float* to = product.c + std::int64_t{row.row} * product.n + j;
  *to = scaled(product.scaling, sum, to);
}

using Kernel = void (*)(KernelArguments);

/// The kernel of row `i` of kInstances. `aligned`: B and C are aligned to 16 bytes.
template <std::size_t i>
Kernel kernel_at(bool aligned) {
  constexpr Instance kOf = kInstances[i];
  return aligned ? multiply<kOf.mmas, kOf.vector> : multiply<kOf.mmas, 1>;
}

/// The kernel for n columns of B.
template <std::size_t... i>
Kernel find_kernel(std::int64_t n, bool aligned, std::index_sequence<i...>) {
  Kernel kernel = nullptr;
  ((kInstances[i].cols == n ? static_cast<void>(kernel = kernel_at<i>(aligned))
                            : static_cast<void>(0)),
   ...);
  return kernel;
}
Kernel kernel_for(std::int64_t n, bool aligned) {
  return find_kernel(instance_for(n).cols, aligned, std::make_index_sequence<kInstances.size()>());
}

/// A's values in FP16 in their places, zeros in the others.
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
    arguments_ = {.n = static_cast<int>(n),
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
    load_now(kernel_for(n, false), kernel_for(n, true), add_parts);
  }

  std::vector<int> registers() const override {
    std::vector<int> registers{registers_of(kernel_for(arguments_.n, true))};
    if (arguments_.num_long_rows > 0) registers.push_back(registers_of(add_parts));
    return registers;
  }

  void launch(int, const Operands& operands, cudaStream_t stream) override {
    if (arguments_.num_tasks == 0) return;
    KernelArguments arguments = arguments_;
    arguments.b = operands.b_fp32(), arguments.c = operands.c_fp32(),
    arguments.scaling = operands.scaling;
    const bool aligned = reinterpret_cast<std::uintptr_t>(operands.b) % 16 == 0 &&
                         reinterpret_cast<std::uintptr_t>(operands.c) % 16 == 0;
    const auto blocks = static_cast<unsigned>(thread_blocks(arguments.num_tasks));
    kernel_for(arguments.n, aligned)<<<blocks, kThreads, 0, stream>>>(arguments);
    cuda_check(cudaGetLastError(), "launching dasp");
    if (arguments.num_long_rows == 0) return;
    add_parts<<<static_cast<unsigned>(sum_blocks(arguments.num_long_rows)), kThreads, 0, stream>>>(
        arguments);
    cuda_check(cudaGetLastError(), "launching the sums of dasp");
  }

 private:
  DeviceArray<Task> tasks_;
  DeviceArray<std::int32_t> rows_;
  DeviceArray<std::int32_t> col_indices_;
  DeviceArray<std::uint16_t> values_;
  DeviceArray<LongRow> long_rows_;
  DeviceArray<float> slots_;
  KernelArguments arguments_ = {};
};

class GpuDasp final : public GpuSpmm {
 public:
  explicit GpuDasp(const DaspOptions& options) : options_(options) {}
  std::unique_ptr<GpuMultiplication> upload(const PackedMatrix& packed,
                                            std::int64_t n) const override {
    instance_for(n);
    const CsrMatrix& a = packed_as<CsrPacked>(packed).matrix;
    return std::make_unique<DaspMultiplication>(a, n, Packing(a, options_));
  }

 private:
  DaspOptions options_;
};

const Register<GpuSpmm> entry{{
    .name = "dasp",
    .summary = "device half of dasp",
    .make = [](const Params& params) { return std::make_unique<GpuDasp>(DaspOptions(params)); },
}};

}  // namespace
}  // namespace tessera
