// Device half of smat: one kernel for each rung. See kernels/spmm/smat/smat.cpp.
//
// Lane 4g + t has columns 4g to 4g + 3 of every 32, rows 2t, 2t + 1, 2t + 8 and 2t + 9 of the
// sixteen of B that a piece meets, and rows 2t and 2t + 1 of eight of C. Pairs of rows share the
// registers of a 16-bit operand.

#include <climits>

#include "formats/base/registry.hpp"
#include "kernels/gpu_spmm.hpp"
#include "kernels/spmm/smat/operands.cuh"
#include "kernels/spmm/smat/smat.hpp"

namespace tessera {
namespace {

using namespace smat;

/// Of a warp: its strip and its first column of C.
struct Task {
  std::int64_t strip, first_col;

  __device__ Task(const View& view, int cols) {
    const std::int64_t chunks = (view.n + cols - 1) / cols;
    const std::int64_t warp = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
    strip = warp / chunks;
    first_col = warp % chunks * cols;
  }
};

/// CUDA cores, a row of C: a lane's column.
__global__ void __launch_bounds__(kThreads)
    multiply_rows(View view, const float* __restrict__ b, float* __restrict__ c, Scaling scaling) {
  const Task task(view, kGroupCols);
  const std::int64_t row = task.strip;  // a warp has but one of them
  const std::int64_t col = task.first_col + threadIdx.x % 32;
  if (row >= view.rows || col >= view.n) return;
  const std::int64_t strip = view.strip_of(row);
  const float* const cells = view.cells + view.row_in_strip(row) * kDepth;
  const std::int64_t size = std::int64_t{view.height} * kDepth;
  float sum = 0;
  for (std::int64_t p = view.strip_offset[strip]; p < view.strip_offset[strip + 1]; ++p) {
    const RowsOfB rows = view.rows_of_b[p];
    for (std::uint32_t cols = rows.cols; cols != 0; cols &= cols - 1) {
      const int k = __ffs(static_cast<int>(cols)) - 1;
      sum = fmaf(cells[p * size + k], b[(std::int64_t{rows.first} + k) * view.n + col], sum);
    }
  }
  float* const to = c + row * view.n + col;
  *to = scaled(scaling, sum, to);
}

/// CUDA cores, a strip: a lane's column of all its rows.
template <int kHeight>
__global__ void __launch_bounds__(kThreads)
    multiply_strips(View view, const float* __restrict__ b, float* __restrict__ c,
                    Scaling scaling) {
  const Task task(view, kGroupCols);
  const std::int64_t col = task.first_col + threadIdx.x % 32;
  if (task.strip >= view.strips || col >= view.n) return;
  float sum[kHeight] = {};
  for (std::int64_t p = view.strip_offset[task.strip]; p < view.strip_offset[task.strip + 1]; ++p) {
    const RowsOfB rows = view.rows_of_b[p];
    const float* const cells = view.cells + p * kHeight * kDepth;
    for (std::uint32_t cols = rows.cols; cols != 0; cols &= cols - 1) {
      const int k = __ffs(static_cast<int>(cols)) - 1;
      const float from_b = b[(std::int64_t{rows.first} + k) * view.n + col];
#pragma unroll
      for (int r = 0; r < kHeight; ++r) sum[r] = fmaf(cells[r * kDepth + k], from_b, sum[r]);
    }
  }
  const int rows = view.num_rows(task.strip);
  float* const to = c + view.first_row(task.strip) * view.n + col;
#pragma unroll
  for (int r = 0; r < kHeight; ++r)
    if (r < rows) to[r * view.n] = scaled(scaling, sum[r], to + r * view.n);
}

/// Tensor cores, straight from global memory: kFragments tells how A comes.
template <class Operands, int kGroups, int kParts, bool kFragments, bool kAligned>
__global__ void __launch_bounds__(kThreads)
    multiply_pieces(View view, const float* __restrict__ b, float* __restrict__ c,
                    Scaling scaling) {
  const Task task(view, kGroups * kGroupCols);
  if (task.strip >= view.strips) return;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const std::int64_t col = task.first_col + lane / 4 * 4;
  Sums<kParts> sums[kGroups] = {};
  const std::int64_t last = view.strip_offset[task.strip + 1];
  for (std::int64_t p = view.strip_offset[task.strip]; p < last; ++p) {
    const RowsOfB rows = view.rows_of_b[p];
    FragmentOfA<kParts> a;
    if constexpr (kFragments)
      a = *reinterpret_cast<const FragmentOfA<kParts>*>(view.fragment<kParts>(p, lane));
    else
      a = fragment_of_cells<Operands, kParts>(view, p, lane);
#pragma unroll
    for (int g = 0; g < kGroups; ++g)
      multiply<Operands, kParts>(load_rows<kAligned>(view, b, rows, lane % 4, col + g * kGroupCols),
                                 a, sums[g]);
  }
#pragma unroll
  for (int g = 0; g < kGroups; ++g)
    store<kParts, kAligned>(view, c, scaling, task.strip, lane % 4, col + g * kGroupCols, sums[g]);
}

/// Tensor cores, from stages in shared memory: pieces [p, p + stages - 1) are on their way while
/// the one before is multiplied.
template <class Operands, int kGroups, int kParts, bool kAligned>
__global__ void __launch_bounds__(kThreads)
    multiply_staged(View view, int stages, const float* __restrict__ b, float* __restrict__ c,
                    Scaling scaling) {
  extern __shared__ __align__(32) unsigned char shared[];
  const Task task(view, kGroups * kGroupCols);
  if (task.strip >= view.strips) return;
  using StageOf = Stage<kGroups, kParts>;
  StageOf* const ring = reinterpret_cast<StageOf*>(shared) + threadIdx.x / 32 * stages;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const std::int64_t first = view.strip_offset[task.strip];
  const std::int64_t last = view.strip_offset[task.strip + 1];
  Sums<kParts> sums[kGroups] = {};
  if (first < last) {
    const Copier<kGroups, kParts, kAligned> copier(view, b, task.first_col, lane);
    std::int64_t next = first;  // piece to copy
    RowsOfB rows = load_ahead(view.rows_of_b + first);
    const auto copy_next = [&](int slot) {
      if (next < last) copier.copy(next, rows, ring[slot]);
      ++next;
      close_group();
      rows = load_ahead(view.rows_of_b + min(next, last - 1));
    };
    for (int s = 0; s + 1 < stages; ++s) copy_next(s);
    int slot = 0;
    for (std::int64_t p = first; p < last; ++p) {
      wait_for_oldest(stages);
      __syncwarp();  // all lanes' copies are there, and nobody reads the stage before
      copy_next(slot == 0 ? stages - 1 : slot - 1);
      multiply_stage<Operands>(ring[slot], lane, sums);
      slot = slot + 1 == stages ? 0 : slot + 1;
    }
  }
  const std::int64_t col = task.first_col + lane / 4 * 4;
#pragma unroll
  for (int g = 0; g < kGroups; ++g)
    store<kParts, kAligned>(view, c, scaling, task.strip, lane % 4, col + g * kGroupCols, sums[g]);
}

/// Every kernel behind one signature; `stages` is for the last rung alone.
using Direct = void (*)(View, const float*, float*, Scaling);
using Staged = void (*)(View, int, const float*, float*, Scaling);
struct Kernel {
  Direct direct = nullptr;
  Staged staged = nullptr;
};

template <class Operands, int kGroups, int kParts, bool kAligned>
Kernel instance(Rung rung) {
  if (rung == Rung::kCbt) return {.staged = multiply_staged<Operands, kGroups, kParts, kAligned>};
  if (rung == Rung::kBt)
    return {.direct = multiply_pieces<Operands, kGroups, kParts, true, kAligned>};
  return {.direct = multiply_pieces<Operands, 1, kParts, false, kAligned>};
}

template <class Operands, int kGroups>
Kernel instance(Rung rung, int height, bool aligned) {
  if (height == kMmaRows)
    return aligned ? instance<Operands, kGroups, 1, true>(rung)
                   : instance<Operands, kGroups, 1, false>(rung);
  return aligned ? instance<Operands, kGroups, 2, true>(rung)
                 : instance<Operands, kGroups, 2, false>(rung);
}

template <class Operands>
Kernel instance(const SmatOptions& choices, std::int64_t n, int height, bool aligned) {
  switch (choices.cols_of_warp(n) / kGroupCols) {
    case 1:
      return instance<Operands, 1>(choices.rung, height, aligned);
    case 2:
      return instance<Operands, 2>(choices.rung, height, aligned);
    default:
      return instance<Operands, 4>(choices.rung, height, aligned);
  }
}

Kernel instance(const SmatOptions& choices, std::int64_t n, int height, bool aligned) {
  if (choices.rung == Rung::kNaive) return {.direct = multiply_rows};
  if (choices.rung == Rung::kB)
    return {.direct = height == kMmaRows ? multiply_strips<8> : multiply_strips<16>};
  if (choices.precision.conversion == Conversion::kFp16)
    return instance<PackedFp16>(choices, n, height, aligned);
  return instance<PackedBf16>(choices, n, height, aligned);
}

class SmatMultiplication final : public GpuMultiplication {
 public:
  SmatMultiplication(const Bcsr& a, std::int64_t n, const SmatOptions& choices)
      : choices_(choices), a_(a, choices), view_(a_.view(n)) {
    const std::int64_t cols = choices.cols_of_warp(n), chunks = (n + cols - 1) / cols;
    const std::int64_t warps = (choices.rung == Rung::kNaive ? view_.rows : view_.strips) * chunks;
    thread_blocks_ = (warps + kWarps - 1) / kWarps;
    require<Unsupported>(thread_blocks_ <= INT_MAX, "{} thread blocks are more than a grid holds",
                         thread_blocks_);
    shared_bytes_ = static_cast<int>(choices.shared_bytes(n, view_.height));
    for (const bool aligned : {false, true}) {
      kernels_[aligned] = instance(choices, n, view_.height, aligned);
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
    const Kernel& kernel = kernels_[aligned_to_16_bytes(view_.n, operands)];
    const auto blocks = static_cast<unsigned>(thread_blocks_);
    if (kernel.staged != nullptr)
      kernel.staged<<<blocks, kThreads, static_cast<unsigned>(shared_bytes_), stream>>>(
          view_, choices_.stages, operands.b, operands.c, operands.scaling);
    else
      kernel.direct<<<blocks, kThreads, 0, stream>>>(view_, operands.b, operands.c,
                                                     operands.scaling);
    cuda_check(cudaGetLastError(), "launching smat");
  }

 private:
  SmatOptions choices_;
  PiecesOnDevice a_;
  View view_;
  std::int64_t thread_blocks_;
  int shared_bytes_;
  Kernel kernels_[2];  // by whether rows come in pieces of 16 bytes
};

class GpuSmat final : public GpuSpmm {
 public:
  explicit GpuSmat(SmatOptions choices) : choices_(std::move(choices)) {}
  std::unique_ptr<GpuMultiplication> upload(const PackedMatrix& packed,
                                            std::int64_t n) const override {
    return std::make_unique<SmatMultiplication>(packed_as<Bcsr>(packed), n, choices_);
  }

 private:
  SmatOptions choices_;
};

const Register<GpuSpmm> entry{{
    .name = "smat",
    .summary = "device half of smat",
    .make = [](const Params& params) { return std::make_unique<GpuSmat>(SmatOptions(params)); },
}};

}  // namespace
}  // namespace tessera
