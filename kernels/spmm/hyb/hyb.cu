// Device half of hyb_spmm. See kernels/spmm/hyb/hyb.cpp.

#include "kernels/spmm/hyb/hyb.hpp"

#include "formats/base/registry.hpp"
#include "formats/csr.hpp"
#include "kernels/gpu_spmm.hpp"
#include "kernels/spmm/hyb/schedule.hpp"

namespace tessera {
namespace {

using namespace hyb;

struct KernelArguments {
  std::int64_t n;
  const Task* tasks;
  std::uint32_t num_tasks, blocks_of_tasks;
  const EllRow* rows;
  const std::int32_t* col_indices;  // [entries]
  const float* values;              // [entries]
  const FinishedRow* finished_rows;
  std::uint32_t num_finished_rows;
  float* slots;  // [slots][n]
  const float* b;
  float* c;
  Scaling scaling;
};

/// A lane's columns of C, 32 apart. In place of one beyond the last, the lane reads the last, or
/// its first one where the column is beyond the last for the whole warp.
template <int kCoarsen>
struct Columns {
  __device__ Columns(const KernelArguments& product, std::int64_t first_of_warp)
      : row_bytes(static_cast<std::uint32_t>(product.n) * 4) {
#pragma unroll
    for (int v = 0; v < kCoarsen; ++v) {
      const std::int64_t first_of_v = first_read(first_of_warp, v, product.n);
      const std::int64_t mine = first_of_warp + 32 * v + threadIdx.x % 32;
      has[v] = mine < product.n;
      col[v] = static_cast<std::uint32_t>(min(first_of_v + threadIdx.x % 32, product.n - 1));
      b[v] = reinterpret_cast<const char*>(product.b + col[v]);
    }
  }

  /// The element of a row of B in column v of the lane.
  __device__ float load(std::uint32_t row, int v) const {
    return __ldg(reinterpret_cast<const float*>(b[v] + std::uint64_t{row} * row_bytes));
  }

  std::uint32_t row_bytes, col[kCoarsen];
  const char* b[kCoarsen];
  bool has[kCoarsen];
};

/// Adds kEntries entries times their rows of B to the sums of a lane. An entry without a nonzero
/// reads a row, too, so that no load waits for its column to be compared.
template <int kEntries, int kCoarsen>
__device__ void add_entries(const KernelArguments& product, std::uint32_t entry,
                            const Columns<kCoarsen>& columns, float (&sums)[kCoarsen]) {
  int cols[kEntries];
  float values[kEntries], rows[kEntries][kCoarsen];
#pragma unroll
  for (int j = 0; j < kEntries; ++j) cols[j] = __ldg(product.col_indices + entry + j);
#pragma unroll
  for (int j = 0; j < kEntries; ++j) {
    values[j] = __ldg(product.values + entry + j);
    const std::uint32_t row = row_to_read(cols[j]);
#pragma unroll
    for (int v = 0; v < kCoarsen; ++v) rows[j][v] = columns.load(row, v);
  }
#pragma unroll
  for (int j = 0; j < kEntries; ++j)
#pragma unroll
    for (int v = 0; v < kCoarsen; ++v)
      sums[v] = cols[j] >= 0 ? fmaf(values[j], rows[j][v], sums[v]) : sums[v];
}

template <int kCoarsen>
__device__ void store_sums(const KernelArguments& product, const EllRow& row,
                           const Columns<kCoarsen>& columns, const float (&sums)[kCoarsen]) {
#pragma unroll
  for (int v = 0; v < kCoarsen; ++v) {
    if (!columns.has[v]) continue;
    const std::uint32_t at = columns.col[v];
    if (row.slot != 0) {
      product.slots[std::int64_t{row.slot - 1} * product.n + at] = sums[v];
    } else {
      float* to = product.c + std::int64_t{row.row} * product.n + at;
      *to = scaled(product.scaling, sums[v], to);
    }
  }
}

/// Multiplies the ELL rows of a task, kEntries entries at a time; they have `width` entries each.
template <int kEntries, int kCoarsen>
__device__ void multiply_rows(const KernelArguments& product, const Task& task, std::uint32_t width,
                              const Columns<kCoarsen>& columns) {
  std::uint32_t entry = task.first_entry;
  for (std::uint32_t r = 0; r < task.rows; ++r) {
    float sums[kCoarsen] = {};
    const EllRow row = product.rows[task.first_row + r];
    for (const std::uint32_t end = entry + width; entry < end; entry += kEntries)
      add_entries<kEntries, kCoarsen>(product, entry, columns, sums);
    store_sums<kCoarsen>(product, row, columns, sums);
  }
}

/// Thread blocks of an SM. They bound the registers of a thread; without a bound the compiler takes
/// few and loads the rows of B one by one.
constexpr int blocks_of_sm(int coarsen) { return coarsen == 4 ? 3 : 4; }

template <int kCoarsen>
__global__ void __launch_bounds__(kThreads, blocks_of_sm(kCoarsen))
    multiply(KernelArguments product) {
  const WarpItem item = item_of(blockIdx.x, threadIdx.x / 32, product.blocks_of_tasks, kCoarsen);
  if (item.task >= product.num_tasks) return;
  const Task task = product.tasks[item.task];
  const Columns<kCoarsen> columns(product, item.first_col);
  switch (task.log_width) {
    case 0:
      return multiply_rows<1, kCoarsen>(product, task, 1, columns);
    case 1:
      return multiply_rows<2, kCoarsen>(product, task, 2, columns);
    case 2:
      return multiply_rows<4, kCoarsen>(product, task, 4, columns);
    default:
      return multiply_rows<kUnroll, kCoarsen>(product, task, 1u << task.log_width, columns);
  }
}

/// Writes the rows without a nonzero, and adds the parts of the others in their order.
__global__ void __launch_bounds__(kThreads) finish(KernelArguments product) {
  const std::uint32_t index = finished_row_of(blockIdx.x, threadIdx.x / 32);
  if (index >= product.num_finished_rows) return;
  const FinishedRow row = product.finished_rows[index];
  for (std::int64_t col = threadIdx.x % 32; col < product.n; col += 32) {
    const float* from = product.slots + std::int64_t{row.first_slot} * product.n + col;
    float sum = row.parts == 0 ? 0 : *from;
    for (std::uint32_t part = 1; part < row.parts; ++part) sum += from[part * product.n];
    float* to = product.c + std::int64_t{row.row} * product.n + col;
    *to = scaled(product.scaling, sum, to);
  }
}

using Kernel = void (*)(KernelArguments);

Kernel kernel_for(int coarsen) {
  return coarsen == 1 ? multiply<1> : coarsen == 2 ? multiply<2> : multiply<4>;
}

/// A's values in their entries, zeros in the others.
std::vector<float> values_of(const CsrMatrix& a, const Packing& packing) {
  std::vector<float> values;
  values.reserve(packing.nonzeros.size());
  for (const std::int64_t k : packing.nonzeros) values.push_back(k < 0 ? 0 : a.values[k]);
  return values;
}

class HybMultiplication final : public GpuMultiplication {
 public:
  HybMultiplication(const CsrMatrix& a, const Packing& packing, const Schedule& schedule)
      : schedule_(schedule),
        tasks_(packing.tasks),
        rows_(packing.rows),
        col_indices_(packing.col_indices),
        values_(values_of(a, packing)),
        finished_rows_(packing.finished_rows),
        slots_(static_cast<std::size_t>(packing.num_slots * schedule.n)) {
    arguments_ = {.n = schedule.n,
                  .tasks = tasks_.data(),
                  .num_tasks = static_cast<std::uint32_t>(packing.tasks.size()),
                  .blocks_of_tasks = static_cast<std::uint32_t>(schedule.blocks_of_tasks()),
                  .rows = rows_.data(),
                  .col_indices = col_indices_.data(),
                  .values = values_.data(),
                  .finished_rows = finished_rows_.data(),
                  .num_finished_rows = static_cast<std::uint32_t>(packing.finished_rows.size()),
                  .slots = slots_.data(),
                  .b = nullptr,
                  .c = nullptr,
                  .scaling = {}};
    load_now(kernel_for(schedule_.coarsen), finish);
  }

  std::vector<int> registers() const override {
    std::vector<int> registers;
    if (schedule_.thread_blocks() > 0)
      registers.push_back(registers_of(kernel_for(schedule_.coarsen)));
    if (arguments_.num_finished_rows > 0) registers.push_back(registers_of(finish));
    return registers;
  }

  void launch(int, const Operands& operands, cudaStream_t stream) override {
    KernelArguments arguments = arguments_;
    arguments.b = operands.b_fp32(), arguments.c = operands.c_fp32(),
    arguments.scaling = operands.scaling;
    if (schedule_.thread_blocks() > 0) {
      kernel_for(
          schedule_
              .coarsen)<<<static_cast<unsigned>(schedule_.thread_blocks()), kThreads, 0, stream>>>(
          arguments);
      cuda_check(cudaGetLastError(), "launching hyb_spmm");
    }
    if (arguments.num_finished_rows == 0) return;
    finish<<<static_cast<unsigned>(finishing_blocks(arguments.num_finished_rows)), kThreads, 0,
             stream>>>(arguments);
    cuda_check(cudaGetLastError(), "launching the sums of hyb_spmm");
  }

 private:
  Schedule schedule_;
  DeviceArray<Task> tasks_;
  DeviceArray<EllRow> rows_;
  DeviceArray<std::int32_t> col_indices_;
  DeviceArray<float> values_;
  DeviceArray<FinishedRow> finished_rows_;
  DeviceArray<float> slots_;
  KernelArguments arguments_ = {};
};

class GpuHyb final : public GpuSpmm {
 public:
  explicit GpuHyb(const HybOptions& options) : options_(options) {}
  std::unique_ptr<GpuMultiplication> upload(const PackedMatrix& packed,
                                            std::int64_t n) const override {
    const CsrMatrix& a = packed_as<CsrPacked>(packed).matrix;
    const Packing packing(a, options_);
    const Schedule schedule{std::ssize(packing.tasks), n, options_.coarsen_for(n)};
    constexpr std::int64_t kMostBlocks = 2147483647, kMostCols = 1 << 30;
    require<Unsupported>(n < kMostCols, "hyb_spmm takes fewer than {} columns of B, not {}",
                         kMostCols, n);
    require<Unsupported>(schedule.thread_blocks() <= kMostBlocks,
                         "hyb_spmm launches {} thread blocks, more than a grid has",
                         schedule.thread_blocks());
    return std::make_unique<HybMultiplication>(a, packing, schedule);
  }

 private:
  HybOptions options_;
};

const Register<GpuSpmm> entry{{
    .name = "hyb_spmm",
    .summary = "device half of hyb_spmm",
    .make = [](const Params& params) { return std::make_unique<GpuHyb>(HybOptions(params)); },
}};

}  // namespace
}  // namespace tessera
