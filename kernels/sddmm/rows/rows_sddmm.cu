// Device half of rows_sddmm. See kernels/sddmm/rows/rows_sddmm.cpp.
//
// All groups of a warp go through as many nonzeros, whether they have them or not: what does not
// exist is not loaded, and its sum is not stored.

#include "formats/base/registry.hpp"
#include "kernels/gpu_sddmm.hpp"
#include "kernels/gpu_spmm.hpp"
#include "kernels/sddmm/rows/rows_sddmm.hpp"
#include "kernels/sddmm/shared/device_half.hpp"
#include "kernels/sddmm/shared/elements.cuh"

namespace tessera {
namespace {

using namespace rows_sddmm;

struct Arguments {
  const std::int32_t* rows;  // [nnz]
  const std::int32_t* cols;  // [nnz]
  const float* factors;      // [nnz] or null
  std::int64_t nnz;
  std::uint32_t run, chunks;
  std::uint32_t row_bytes;  // of X and Y
  const char* x;
  const char* y;
  void* s;
  ElementType type;  // of S
};

/// The elements of a word, widened.
template <ElementType kType>
struct Word {
  static constexpr int kElements = kType == ElementType::kFp32 ? 1 : 2;
  __device__ static float element(float word, int i) {
    if constexpr (kType == ElementType::kFp32) return word;
    const std::uint32_t bits = __float_as_uint(word);
    if constexpr (kType == ElementType::kBf16)
      return i == 0 ? PackedBf16::low(bits) : PackedBf16::high(bits);
    return i == 0 ? PackedFp16::low(bits) : PackedFp16::high(bits);
  }
};

/// The rows of X and Y of a group's next nonzeros, in registers or on the way there. With chunks, a
/// unit is a chunk of a nonzero; without (kInChunks is false), a nonzero.
template <ElementType kType, int kVectors, bool kInChunks, bool kAligned>
class Pairs {
 public:
  static constexpr int kAhead = nonzeros_in_flight(kVectors);
  static constexpr int kElementBytes = kType == ElementType::kFp32 ? 4 : 2;

  __device__ Pairs(const Arguments& arguments, std::int64_t first, int count)
      : a_(arguments), rows_(arguments.rows + first), cols_(arguments.cols + first), left_(count) {
    load_indices();
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      held_[i] = -1;
      load(i);
    }
  }

  /// Adds the products of the unit in place i, which the loads of a later one then take.
  __device__ void multiply(int i, float& sum) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v)
#pragma unroll
      for (int w = 0; w < 4; ++w)
#pragma unroll
        for (int e = 0; e < Word<kType>::kElements; ++e)
          sum =
              fmaf(Word<kType>::element(x_[i][v][w], e), Word<kType>::element(y_[i][v][w], e), sum);
    load(i);
  }

 private:
  __device__ void load_indices() {
    if (left_ <= 0) return;
    row_ = __ldg(rows_);
    col_ = __ldg(cols_);
  }

  __device__ void load(int i) {
    const bool exists = left_ > 0, changes = exists && (kInChunks || row_ != held_[i]);
    const std::uint32_t begin = kInChunks ? chunk_ * (kVectors * kTurnBytes) : 0;
    const std::uint32_t offset = begin + threadIdx.x % kLanes * kVectorBytes;
    const char* from_x = row(a_.x, row_) + offset;
    const char* from_y = row(a_.y, col_) + offset;
    const int left = static_cast<int>(
        min(std::int64_t{a_.row_bytes} - offset, std::int64_t{kVectors} * kTurnBytes));
    if (kInChunks) clear(i);  // of the chunk before, which may have more columns
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      sddmm::load_words<kElementBytes, kAligned>(exists, from_y + v * kTurnBytes,
                                                 left - v * kTurnBytes, y_[i][v]);
      sddmm::load_words<kElementBytes, kAligned>(changes, from_x + v * kTurnBytes,
                                                 left - v * kTurnBytes, x_[i][v]);
    }
    held_[i] = row_;
    if (kInChunks && ++chunk_ < a_.chunks) return;
    chunk_ = 0;
    ++rows_, ++cols_, --left_;
    load_indices();
  }

  __device__ const char* row(const char* matrix, std::int32_t index) const {
    return matrix + std::uint64_t{static_cast<std::uint32_t>(index)} * a_.row_bytes;
  }

  __device__ void clear(int i) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v)
#pragma unroll
      for (int w = 0; w < 4; ++w) x_[i][v][w] = y_[i][v][w] = 0;
  }

  const Arguments& a_;
  const std::int32_t* rows_;  // of the nonzero that is loaded next
  const std::int32_t* cols_;
  int left_;  // nonzeros that are not loaded yet
  std::uint32_t chunk_ = 0;
  std::int32_t row_ = 0, col_ = 0;
  std::int32_t held_[kAhead];  // the rows of X
  float x_[kAhead][kVectors][4] = {}, y_[kAhead][kVectors][4] = {};
};

template <ElementType kType, int kVectors, bool kInChunks, bool kAligned>
__global__ void __launch_bounds__(kThreads, kResident) run(Arguments arguments) {
  using Rows = Pairs<kType, kVectors, kInChunks, kAligned>;
  const std::int64_t group = std::int64_t{blockIdx.x} * kGroups + threadIdx.x / kLanes;
  const std::int64_t first = group * arguments.run;
  const int count = static_cast<int>(
      max(min(arguments.nnz - first, std::int64_t{arguments.run}), std::int64_t{0}));
  Rows rows(arguments, count > 0 ? first : 0, count);
#pragma unroll 1
  for (int base = 0; base < static_cast<int>(arguments.run); base += Rows::kAhead) {
#pragma unroll
    for (int i = 0; i < Rows::kAhead; ++i) {
      float sum = 0;
#pragma unroll 1
      for (std::uint32_t chunk = 0; chunk < (kInChunks ? arguments.chunks : 1); ++chunk)
        rows.multiply(i, sum);
#pragma unroll
      for (int half = kLanes / 2; half > 0; half /= 2) sum += __shfl_xor_sync(~0u, sum, half);
      if (threadIdx.x % kLanes != 0 || base + i >= count) continue;
      sum += 0.0f;  // -0 becomes 0: whether there is one depends on the padding of the row
      const std::int64_t at = first + base + i;
      if (arguments.factors != nullptr) sum = __fmul_rn(sum, __ldg(arguments.factors + at));
      sddmm::store_element(arguments.s, arguments.type, static_cast<std::uint64_t>(at), sum);
    }
  }
}

using Kernel = void (*)(Arguments);

/// Operands that are not aligned have one kernel for all widths.
template <ElementType kType>
Kernel kernel_of(const Schedule& schedule, bool aligned) {
  if (!aligned) return run<kType, kMostVectors, true, false>;
  if (schedule.chunks > 1) return run<kType, kMostVectors, true, true>;
  if (schedule.vectors == 1) return run<kType, 1, false, true>;
  return schedule.vectors == 2 ? run<kType, 2, false, true> : run<kType, kMostVectors, false, true>;
}

Kernel kernel_of(ElementType type, const Schedule& schedule, bool aligned) {
  if (type == ElementType::kFp32) return kernel_of<ElementType::kFp32>(schedule, aligned);
  if (type == ElementType::kFp16) return kernel_of<ElementType::kFp16>(schedule, aligned);
  return kernel_of<ElementType::kBf16>(schedule, aligned);
}

class RowsSampledProduct final : public GpuSampledProduct {
 public:
  RowsSampledProduct(const Coo& a, std::int64_t k, const RowsSddmmOptions& options)
      : schedule_(options.schedule(a.nnz(), k)),
        aligned_(kernel_of(options.storage.b, schedule_, true)),
        unaligned_(kernel_of(options.storage.b, schedule_, false)),
        rows_(a.row_indices),
        cols_(a.col_indices),
        factors_(options.scales_by_a ? DeviceArray<float>(a.values) : DeviceArray<float>()),
        arguments_{.rows = rows_.data(),
                   .cols = cols_.data(),
                   .factors = options.scales_by_a ? factors_.data() : nullptr,
                   .nnz = a.nnz(),
                   .run = static_cast<std::uint32_t>(schedule_.run),
                   .chunks = static_cast<std::uint32_t>(schedule_.chunks),
                   .row_bytes = static_cast<std::uint32_t>(k * options.bytes()),
                   .x = nullptr,
                   .y = nullptr,
                   .s = nullptr,
                   .type = options.storage.c} {
    require<Unsupported>(schedule_.thread_blocks(a.nnz()) <= 0x7fffffff,
                         "{} thread blocks are more than a grid holds",
                         schedule_.thread_blocks(a.nnz()));
    load_now(aligned_, unaligned_);
  }

  std::vector<int> registers() const override { return {registers_of(aligned_)}; }

  void launch(const SddmmOperands& operands, cudaStream_t stream) override {
    if (arguments_.nnz == 0) return;
    const bool aligned = sddmm::rows_are_aligned(arguments_.row_bytes, operands.x, operands.y);
    Arguments arguments = arguments_;
    arguments.x = static_cast<const char*>(operands.x);
    arguments.y = static_cast<const char*>(operands.y);
    arguments.s = operands.s;
    // Chunks of the kernel for all widths are as long as the longest of the others.
    if (!aligned)
      arguments.chunks = static_cast<std::uint32_t>(
          (std::int64_t{arguments.row_bytes} + kMostVectors * kTurnBytes - 1) /
          (kMostVectors * kTurnBytes));
    (aligned ? aligned_
             : unaligned_)<<<static_cast<unsigned>(schedule_.thread_blocks(arguments.nnz)),
                             kThreads, 0, stream>>>(arguments);
    cuda_check(cudaGetLastError(), "launching rows_sddmm");
  }

  void set_values(const float* values, cudaStream_t stream) override {
    sddmm::replace_factors(factors_, values, stream);
  }

 private:
  Schedule schedule_;
  Kernel aligned_, unaligned_;
  DeviceArray<std::int32_t> rows_, cols_;
  DeviceArray<float> factors_;  // empty where sums are not multiplied
  Arguments arguments_;
};

class GpuRowsSddmm final : public GpuSddmm {
 public:
  explicit GpuRowsSddmm(RowsSddmmOptions options) : options_(options) {}
  std::unique_ptr<GpuSampledProduct> upload(const PackedMatrix& packed,
                                            std::int64_t k) const override {
    sddmm::require_addressable("rows_sddmm", k);
    return std::make_unique<RowsSampledProduct>(packed_as<Coo>(packed), k, options_);
  }

 private:
  RowsSddmmOptions options_;
};

const Register<GpuSddmm> entry{{
    .name = "rows_sddmm",
    .summary = "device half of rows_sddmm",
    .make =
        [](const Params& params) {
          return std::make_unique<GpuRowsSddmm>(RowsSddmmOptions(params));
        },
}};

}  // namespace
}  // namespace tessera
