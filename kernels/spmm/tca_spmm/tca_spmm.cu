// Device half of tca_spmm: dot products of a row of A and columns of B as traces of MMAs. See
// kernels/spmm/tca_spmm/tca_spmm.cpp.

#include <climits>

#include "formats/base/registry.hpp"
#include "formats/csr.hpp"
#include "kernels/gpu_spmm.hpp"
#include "kernels/spmm/tca_spmm/tca_spmm.cuh"

namespace tessera {
namespace {

using namespace tca_spmm;

/// The rest of a row of A.
struct Row {
  const std::int32_t* col_indices;
  const float* values;
  int nnz;

  __device__ Row(const KernelArguments& product, std::int32_t row)
      : Row(product, product.row_offsets[row], product.row_offsets[row + 1]) {}
  __device__ void drop(int count) {
    col_indices += count;
    values += count;
    nnz -= count;
  }

 private:
  __device__ Row(const KernelArguments& product, std::int64_t first, std::int64_t last)
      : col_indices(product.col_indices + first),
        values(product.values + first),
        nnz(static_cast<int>(last - first)) {}
};

/// Computes columns [col, col + cols) of a row of C with all warps of its group; `c` points to the
/// first. `shared` has the output buffer of the row, if any, and its stages.
template <class Operands, int kFragments, bool kAligned, bool kBuffered>
__device__ void multiply_row(const KernelArguments& product, const Group& group, Row row,
                             const float* b, int col, int cols, float* c, Scaling scaling,
                             float* shared) {
  constexpr int kTileCols = kMmaRows * kFragments;
  float* const stages = shared + output_floats(kBuffered, kTileCols, group.log_p, group.log_warps);
  const int pitch = pitch_of(kTileCols, group.log_p, group.log_warps);
  const int size = group.chunk_size();
  const Fragments mine = fragments_of(kBuffered, group.log_p, group.log_warps, group.warp, cols);
  const Copier<Operands, kFragments, kAligned> copier(product, group, b, col, cols, pitch);

  std::int32_t rows[kFragments];
  float acc[kFragments][4] = {};
  copier.load_index(row.col_indices, row.nnz, rows);
  float a[2];
  load_chunk<Operands>(row.values, row.nnz, group, a);
  if (row.nnz > 0) copier.copy(rows, stages);
  if (row.nnz > size) copier.load_index(row.col_indices + size, row.nnz - size, rows);
  for (int stage = 0; row.nnz > 0; stage ^= 1) {
    wait_groups<0>();
    group.sync();  // all copies are done, and the other stage is free
    const Operands operands(a[0], a[1]);
    row.drop(size);
    if (row.nnz > 0) {
      copier.copy(rows, stages + (stage ^ 1) * size * pitch);
      if (row.nnz > size) copier.load_index(row.col_indices + size, row.nnz - size, rows);
      load_chunk<Operands>(row.values, row.nnz, group, a);
    }
    multiply(stages + stage * size * pitch, group, pitch, mine, operands, acc);
  }

  const Traces<kBuffered> traces(group, kBuffered ? shared : c, cols, scaling);
  for (int f = 0; f < kFragments; f += 2) {
    const int fragment = mine.first + f;
    if (fragment >= mine.last) break;
    const int at = cols_of(group.log_p, fragment);
    if (fragment + 1 < mine.last)
      traces.template store_two<kAligned>(acc[f], acc[f + 1], at);
    else
      traces.store_one(acc[f], at);
  }
  if constexpr (kBuffered) flush<kAligned>(group, shared, c, cols, scaling);
}

/// Loads a task in one load.
__device__ Task load_task(const Task* from) {
  const int2 words = *reinterpret_cast<const int2*>(from);
  Task task;
  task.row = words.x;
  task.log_p = static_cast<std::uint8_t>(words.y);
  task.log_warps = static_cast<std::uint8_t>(words.y >> 8);
  task.warp = static_cast<std::uint8_t>(words.y >> 16);
  return task;
}

template <class Operands, int kFragments, bool kAligned, bool kBuffered>
__global__ void __launch_bounds__(kThreads, kFragments == 4 ? 3 : 2)
    multiply_rows(KernelArguments product, const float* __restrict__ b, float* __restrict__ c,
                  Scaling scaling) {
  extern __shared__ float4 shared[];
  constexpr int kTileCols = kMmaRows * kFragments;
  const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  const Task task = load_task(product.tasks + task_of(blockIdx.x, warp));
  if (task.row < 0) return;
  const Group group(task, warp, lane);
  float* of_row = reinterpret_cast<float*>(shared) + (warp - task.warp) * product.warp_floats;
  const BlockCols mine =
      product.cols != nullptr
          ? product.cols[blockIdx.x]
          : cols_of_tile(static_cast<std::int32_t>(blockIdx.y), kTileCols, product.n);
  const int step = group_cols(kTileCols, group.log_p, group.log_warps);
  for (int col = mine.first; col < mine.end; col += step) {
    multiply_row<Operands, kFragments, kAligned, kBuffered>(
        product, group, Row(product, task.row), b, col, min(mine.end - col, step),
        c + std::int64_t{task.row} * product.n + col, scaling, of_row);
    if (col + step < mine.end) group.sync();  // no warp reads the shared memory any more
  }
}

using Kernel = void (*)(KernelArguments, const float*, float*, Scaling);

template <class Operands, int kFragments, bool kBuffered = false>
Kernel instance(bool aligned) {
  return aligned ? multiply_rows<Operands, kFragments, true, kBuffered>
                 : multiply_rows<Operands, kFragments, false, kBuffered>;
}
template <class Operands>
Kernel instance(int tile_cols, bool aligned) {
  return tile_cols == kNarrowTile ? instance<Operands, kNarrowTile / kMmaRows>(aligned)
                                  : instance<Operands, 2 * kNarrowTile / kMmaRows>(aligned);
}

Kernel instance(std::string_view precision, const TcaSpmmOptions& options, bool aligned) {
  const int tile_cols = options.tile_cols;
  if (options.output_buffer) return instance<Fp16Operands, kNarrowTile / kMmaRows, true>(aligned);
  if (precision == "fp16") return instance<Fp16Operands>(tile_cols, aligned);
  if (precision == "tf32_raw")
    return instance<Tf32Operands<Tf32Precision::kRaw>>(tile_cols, aligned);
  return instance<Tf32Operands<Tf32Precision::kRounded>>(tile_cols, aligned);
}

class TcaMultiplication final : public GpuMultiplication {
 public:
  TcaMultiplication(const CsrMatrix& a, std::int64_t n, const TcaSpmmOptions& options,
                    std::string_view precision)
      : TcaMultiplication(a, options, precision, plan(a, options, n)) {}

  std::vector<int> registers() const override { return {registers_of(kernels_[true])}; }

  void launch(int, const Operands& operands, cudaStream_t stream) override {
    if (grid_.x == 0 || grid_.y == 0) return;
    const Kernel kernel = kernels_[aligned_to_16_bytes(arguments_.n, operands)];
    kernel<<<grid_, kThreads, shared_bytes_, stream>>>(arguments_, operands.b_fp32(),
                                                       operands.c_fp32(), operands.scaling);
    cuda_check(cudaGetLastError(), "launching tca_spmm");
  }

 private:
  TcaMultiplication(const CsrMatrix& a, const TcaSpmmOptions& options, std::string_view precision,
                    const Plan& plan)
      : tasks_(plan.tasks),
        cols_(plan.cols),
        row_offsets_(a.row_offsets),
        col_indices_(a.col_indices),
        values_(a.values),
        shared_bytes_(static_cast<std::size_t>(plan.shared_bytes())) {
    require<Unsupported>(plan.tiles() <= 65535, "tca_spmm takes at most {} columns of B, not {}",
                         std::int64_t{65535} * plan.tile_cols, plan.n);
    require<Unsupported>(plan.blocks() <= INT_MAX,
                         "tca_spmm needs {} thread blocks; a grid has at most {}", plan.blocks(),
                         INT_MAX);
    grid_ = dim3(static_cast<unsigned>(plan.blocks()), static_cast<unsigned>(plan.tiles()));
    arguments_ = {.n = plan.n,
                  .warp_floats = plan.warp_floats,
                  .tasks = tasks_.data(),
                  .cols = plan.cols.empty() ? nullptr : cols_.data(),
                  .row_offsets = row_offsets_.data(),
                  .col_indices = col_indices_.data(),
                  .values = values_.data()};
    for (const bool aligned : {false, true}) {
      kernels_[aligned] = instance(precision, options, aligned);
      allow_shared_memory(kMaxSharedBytes, kernels_[aligned]);
    }
  }

  DeviceArray<Task> tasks_;
  DeviceArray<BlockCols> cols_;
  DeviceArray<std::int64_t> row_offsets_;
  DeviceArray<std::int32_t> col_indices_;
  DeviceArray<float> values_;
  std::size_t shared_bytes_;
  dim3 grid_;
  KernelArguments arguments_;
  Kernel kernels_[2];  // by alignment
};

class GpuTcaSpmm final : public GpuSpmm {
 public:
  explicit GpuTcaSpmm(const Params& params) : params_(params) {}
  std::unique_ptr<GpuMultiplication> upload(const PackedMatrix& packed,
                                            std::int64_t n) const override {
    return std::make_unique<TcaMultiplication>(packed_as<CsrPacked>(packed).matrix, n,
                                               options_of(params_), params_.text("precision"));
  }

 private:
  Params params_;
};

const Register<GpuSpmm> entry{{
    .name = "tca_spmm",
    .summary = "device half of tca_spmm",
    .make = [](const Params& params) { return std::make_unique<GpuTcaSpmm>(params); },
}};

}  // namespace
}  // namespace tessera
