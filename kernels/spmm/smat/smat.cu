// Device half of smat: the kernels of the rungs. See kernels/spmm/smat/smat.cpp.

#include <climits>

#include "formats/base/registry.hpp"
#include "kernels/gpu_spmm.hpp"
#include "kernels/spmm/smat/operands.cuh"
#include "kernels/spmm/smat/smat.hpp"

namespace tessera {
namespace {

using namespace smat;

/// The item of a warp with `cols` columns of C.
__device__ WarpItem my_item(const KernelArguments& product, int cols) {
  return item_of(blockIdx.x, threadIdx.x / 32, product.n, cols);
}

/// Rung b, on CUDA cores: a warp has kCols columns of a strip, a lane one of them, of all rows or
/// of every fourth.
template <int kHeight, int kCols>
__global__ void __launch_bounds__(kThreads)
    multiply_strips(KernelArguments product, const float* __restrict__ b, float* __restrict__ c,
                    Scaling scaling) {
  constexpr int kApart = rows_at_once(kCols), kRows = kHeight / kApart;
  const WarpItem item = my_item(product, kCols);
  const int lane = static_cast<int>(threadIdx.x % 32), first_row = lane / kCols;
  const std::int64_t col = item.first_col + lane % kCols;
  if (item.strip >= product.strips || col >= product.n) return;
  float sum[kRows] = {};
  for (std::int64_t p = product.strip_offset[item.strip]; p < product.strip_offset[item.strip + 1];
       ++p) {
    const RowsOfB rows = product.rows_of_b[p];
    const float* const cells = product.cells + (p * kHeight + first_row) * kDepth;
    const float* const from = b + std::int64_t{rows.first} * product.n + col;
#pragma unroll 1
    for (int first = 0; first < kDepth; first += kColsAtOnce) {
      const std::uint32_t needed = cols_at_once(rows.cols, first);
      if (needed == 0) continue;
      float of_b[kColsAtOnce];
#pragma unroll
      for (int k = 0; k < kColsAtOnce; ++k)
        of_b[k] = (needed >> k & 1) != 0 ? from[(first + k) * product.n] : 0.0f;
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        const auto a = *reinterpret_cast<const float4*>(cells + i * kApart * kDepth + first);
        const float of_a[kColsAtOnce] = {a.x, a.y, a.z, a.w};
#pragma unroll
        for (int k = 0; k < kColsAtOnce; ++k)
          if ((needed >> k & 1) != 0) sum[i] = fmaf(of_a[k], of_b[k], sum[i]);
      }
    }
  }
  const int rows = product.num_rows(item.strip);
  float* const to = c + (product.first_row(item.strip) + first_row) * product.n + col;
#pragma unroll
  for (int i = 0; i < kRows; ++i)
    if (first_row + i * kApart < rows)
      to[i * kApart * product.n] = scaled(scaling, sum[i], to + i * kApart * product.n);
}

/// Rungs t and bt, on tensor cores with rows of B from global memory. kFragments: A is stored as
/// fragments, not as cells.
template <class Operands, int kCols, int kParts, bool kFragments, bool kAligned>
__global__ void __launch_bounds__(kThreads)
    multiply_tiles(KernelArguments product, const float* __restrict__ b, float* __restrict__ c,
                   Scaling scaling) {
  const WarpItem item = my_item(product, kCols);
  if (item.strip >= product.strips) return;
  const int lane = static_cast<int>(threadIdx.x % 32);
  ColsOfWarp<Operands, kCols, kParts, kAligned> cols(product, item.first_col, lane);
  const std::int64_t last = product.strip_offset[item.strip + 1];
  for (std::int64_t p = product.strip_offset[item.strip]; p < last; ++p) {
    const RowsOfB rows = product.rows_of_b[p];
    FragmentOfA<kParts> a;
    if constexpr (kFragments)
      a = *reinterpret_cast<const FragmentOfA<kParts>*>(product.fragment<kParts>(p, lane));
    else
      a = fragment_of_cells<Operands, kParts>(product, p, lane);
    cols.multiply(a, b, rows);
  }
  cols.store(c, scaling, item.strip);
}

/// Rung cbt, on tensor cores with rows of B from stages in shared memory: while the warp multiplies
/// a tile, copies of the next stages - 1 tiles are in flight.
template <class Operands, int kCols, int kParts, bool kAligned>
__global__ void __launch_bounds__(kThreads)
    multiply_staged(KernelArguments product, int stages, const float* __restrict__ b,
                    float* __restrict__ c, Scaling scaling) {
  extern __shared__ __align__(32) unsigned char shared[];
  const WarpItem item = my_item(product, kCols);
  if (item.strip >= product.strips) return;
  using StageOf = Stage<kCols, kParts>;
  StageOf* const ring = reinterpret_cast<StageOf*>(shared) + threadIdx.x / 32 * stages;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const std::int64_t first = product.strip_offset[item.strip];
  const std::int64_t last = product.strip_offset[item.strip + 1];
  ColsOfWarp<Operands, kCols, kParts, kAligned> cols(product, item.first_col, lane);
  if (first < last) {
    const Copier<kCols, kParts, kAligned> copier(product, b, item.first_col, lane);
    std::int64_t next = first;  // tile to copy
    RowsOfB rows = load_ahead(product.rows_of_b + first);
    const auto copy_next = [&](int slot) {
      if (next < last) copier.copy(next, rows, ring[slot]);
      ++next;
      close_group();
      rows = load_ahead(product.rows_of_b + min(next, last - 1));
    };
    for (int s = 0; s + 1 < stages; ++s) copy_next(s);
    int slot = 0;
    for (std::int64_t p = first; p < last; ++p) {
      wait_for_oldest(stages);
      __syncwarp();  // the copies of all lanes are done, and no lane reads the previous stage
      copy_next(slot == 0 ? stages - 1 : slot - 1);
      cols.multiply(ring[slot]);
      slot = slot + 1 == stages ? 0 : slot + 1;
    }
  }
  cols.store(c, scaling, item.strip);
}

/// A compiled kernel: `staged` for rung cbt, `direct` for the others.
using Direct = void (*)(KernelArguments, const float*, float*, Scaling);
using Staged = void (*)(KernelArguments, int, const float*, float*, Scaling);
struct Kernel {
  Direct direct = nullptr;
  Staged staged = nullptr;
};

/// The kernel of row `i` of kInstances.
template <std::size_t i, class Operands, bool kAligned>
Kernel kernel_at() {
  constexpr Instance kOf = kInstances[i];
  constexpr int kParts = kOf.height / kMmaRows;
  if constexpr (kOf.rung == Rung::kB)
    return {.direct = multiply_strips<kOf.height, kOf.cols>};
  else if constexpr (kOf.rung == Rung::kCbt)
    return {.staged = multiply_staged<Operands, kOf.cols, kParts, kAligned>};
  else
    return {.direct = multiply_tiles<Operands, kOf.cols, kParts, by_blocks(kOf.rung), kAligned>};
}

template <std::size_t i>
Kernel kernel_at(bool fp16, bool aligned) {
  if (fp16) return aligned ? kernel_at<i, PackedFp16, true>() : kernel_at<i, PackedFp16, false>();
  return aligned ? kernel_at<i, PackedBf16, true>() : kernel_at<i, PackedBf16, false>();
}

template <std::size_t... i>
Kernel find_kernel(std::size_t index, bool fp16, bool aligned, std::index_sequence<i...>) {
  Kernel kernel = {};
  ((i == index ? static_cast<void>(kernel = kernel_at<i>(fp16, aligned)) : static_cast<void>(0)),
   ...);
  return kernel;
}

/// `aligned`: rows of B and C are aligned to 16 bytes.
Kernel kernel_for(const SmatOptions& options, std::int64_t n, int height, bool aligned) {
  return find_kernel(options.instance(n, height), options.precision.conversion == Conversion::kFp16,
                     aligned, std::make_index_sequence<kInstances.size()>());
}

class SmatMultiplication final : public GpuMultiplication {
 public:
  SmatMultiplication(const HostTiles& a, std::int64_t n, const SmatOptions& options)
      : options_(options), a_(a), arguments_(a_.arguments(n)) {
    thread_blocks_ =
        thread_blocks(arguments_.strips, n, options.cols_of_warp(n, arguments_.height));
    require<Unsupported>(thread_blocks_ <= INT_MAX,
                         "smat needs {} thread blocks; a grid has at most {}", thread_blocks_,
                         INT_MAX);
    shared_bytes_ = static_cast<int>(options.shared_bytes(n, arguments_.height));
    for (const bool aligned : {false, true}) {
      kernels_[aligned] = kernel_for(options, n, arguments_.height, aligned);
      if (kernels_[aligned].staged == nullptr)
        load_now(kernels_[aligned].direct);
      else
        allow_shared_memory(shared_bytes_, kernels_[aligned].staged);
    }
  }

  std::vector<int> registers() const override {
    const Kernel& kernel = kernels_[true];
    return {kernel.staged != nullptr ? registers_of(kernel.staged) : registers_of(kernel.direct)};
  }

  void launch(int, const Operands& operands, cudaStream_t stream) override {
    if (thread_blocks_ == 0) return;
    const Kernel& kernel = kernels_[aligned_to_16_bytes(arguments_.n, operands)];
    const auto blocks = static_cast<unsigned>(thread_blocks_);
    if (kernel.staged != nullptr)
      kernel.staged<<<blocks, kThreads, static_cast<unsigned>(shared_bytes_), stream>>>(
          arguments_, options_.stages, operands.b_fp32(), operands.c_fp32(), operands.scaling);
    else
      kernel.direct<<<blocks, kThreads, 0, stream>>>(arguments_, operands.b_fp32(),
                                                     operands.c_fp32(), operands.scaling);
    cuda_check(cudaGetLastError(), "launching smat");
  }

 private:
  SmatOptions options_;
  DeviceTiles a_;
  KernelArguments arguments_;
  std::int64_t thread_blocks_;
  int shared_bytes_;
  Kernel kernels_[2];  // [rows of B and C are aligned to 16 bytes]
};

class GpuSmat final : public GpuSpmm {
 public:
  explicit GpuSmat(SmatOptions options) : options_(std::move(options)) {}

  void prepare(const PackedMatrix& packed) override {
    tiles_ = tiles_of(packed_as<Bcsr>(packed), options_);
    tiles_are_of_ = &packed;
  }

  std::unique_ptr<GpuMultiplication> upload(const PackedMatrix& packed,
                                            std::int64_t n) const override {
    if (tiles_are_of_ == &packed) return std::make_unique<SmatMultiplication>(tiles_, n, options_);
    return std::make_unique<SmatMultiplication>(tiles_of(packed_as<Bcsr>(packed), options_), n,
                                                options_);
  }

 private:
  SmatOptions options_;
  HostTiles tiles_ = {};  // of a prepared A
  const PackedMatrix* tiles_are_of_ = nullptr;
};

const Register<GpuSpmm> entry{{
    .name = "smat",
    .summary = "device half of smat",
    .make = [](const Params& params) { return std::make_unique<GpuSmat>(SmatOptions(params)); },
}};

}  // namespace
}  // namespace tessera
