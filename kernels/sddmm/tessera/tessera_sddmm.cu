// Device half of tessera_sddmm: its launches. The kernel is kernel.cuh. See
// kernels/sddmm/tessera/tessera_sddmm.cpp.

#include "formats/base/registry.hpp"
#include "kernels/gpu_sddmm.hpp"
#include "kernels/gpu_spmm.hpp"
#include "kernels/sddmm/shared/device_half.hpp"
#include "kernels/sddmm/tessera/kernel.cuh"
#include "kernels/sddmm/tessera/tessera_sddmm.hpp"

namespace tessera {
namespace {

using namespace tessera_sddmm;

using Kernel = void (*)(Arguments);

/// The kernel with so many steps; operands that are not aligned have one for all widths.
template <class Step>
Kernel kernel_of(int steps, bool aligned) {
  constexpr int kMost = most_steps(Step::kSplit);
  if (!aligned) return run<Step, kMost, false>;
  if (steps == 2) return run<Step, 2, true>;
  if constexpr (kMost > 4)
    if (steps == 4) return run<Step, 4, true>;
  return run<Step, kMost, true>;
}

Kernel kernel_of(const TesseraSddmmOptions& options, int steps, bool aligned) {
  if (options.storage.b == ElementType::kFp16)
    return kernel_of<HalfStep<PackedFp16>>(steps, aligned);
  if (options.storage.b == ElementType::kBf16)
    return kernel_of<HalfStep<PackedBf16>>(steps, aligned);
  if (options.splits()) return kernel_of<Tf32Step<Tf32Precision::kSplit>>(steps, aligned);
  return kernel_of<Tf32Step<Tf32Precision::kEven>>(steps, aligned);
}

/// The columns of TC blocks with those behind them that warps load ahead of their last TC block.
DeviceArray<std::int32_t> padded_columns(std::vector<std::int32_t> columns) {
  columns.resize(columns.size() + std::size_t{kBlocksAhead} * kTileCols, kNoColumn);
  return DeviceArray<std::int32_t>(columns);
}

std::vector<float> factors_of(const Mosaic& a, bool scales) {
  if (!scales) return {};
  const CsrMatrix csr = a.unpack();
  return {csr.values.begin(), csr.values.end()};
}

class TesseraSampledProduct final : public GpuSampledProduct {
 public:
  TesseraSampledProduct(const Mosaic& a, std::int64_t k, const TesseraSddmmOptions& options)
      : schedule_(options.schedule(k)),
        aligned_(kernel_of(options, schedule_.steps, true)),
        unaligned_(kernel_of(options, schedule_.steps, false)),
        unaligned_schedule_{most_steps(options.splits()), chunks_of(k * options.bytes(), options)},
        tasks_(options.tasks(a, k)),
        tile_cols_(padded_columns(a.tile_cols)),
        bitmaps_(a.bitmaps),
        factors_(factors_of(a, options.scales_by_a)),
        arguments_{.tasks = tasks_.data(),
                   .num_tasks = static_cast<std::uint32_t>(tasks_.size()),
                   .tile_cols = tile_cols_.data(),
                   .bitmaps = reinterpret_cast<const uint4*>(bitmaps_.data()),
                   .factors = options.scales_by_a ? factors_.data() : nullptr,
                   .rows = a.rows(),
                   .row_bytes = static_cast<std::uint32_t>(k * options.bytes()),
                   .chunks = static_cast<std::uint32_t>(schedule_.chunks),
                   .x = nullptr,
                   .y = nullptr,
                   .s = nullptr,
                   .type = options.storage.c} {
    load_now(aligned_, unaligned_);
    if (schedule_.shared_bytes() > 0) allow_shared_memory(schedule_.shared_bytes(), aligned_);
    if (unaligned_schedule_.shared_bytes() > 0)
      allow_shared_memory(unaligned_schedule_.shared_bytes(), unaligned_);
  }

  std::vector<int> registers() const override { return {registers_of(aligned_)}; }

  void launch(const SddmmOperands& operands, cudaStream_t stream) override {
    if (arguments_.num_tasks == 0) return;
    const bool aligned = sddmm::rows_are_aligned(arguments_.row_bytes, operands.x, operands.y);
    const Schedule& schedule = aligned ? schedule_ : unaligned_schedule_;
    Arguments arguments = arguments_;
    arguments.x = static_cast<const char*>(operands.x);
    arguments.y = static_cast<const char*>(operands.y);
    arguments.s = operands.s;
    arguments.chunks = static_cast<std::uint32_t>(schedule.chunks);
    const unsigned blocks = (arguments.num_tasks + kWarps - 1) / kWarps;
    (aligned ? aligned_
             : unaligned_)<<<blocks, 32 * kWarps, static_cast<std::size_t>(schedule.shared_bytes()),
                             stream>>>(arguments);
    cuda_check(cudaGetLastError(), "launching tessera_sddmm");
  }

  void set_values(const float* values, cudaStream_t stream) override {
    sddmm::replace_factors(factors_, values, stream);
  }

 private:
  static std::int64_t chunks_of(std::int64_t row_bytes, const TesseraSddmmOptions& options) {
    const std::int64_t chunk = std::int64_t{most_steps(options.splits())} * kStepBytes;
    return (row_bytes + chunk - 1) / chunk;
  }

  Schedule schedule_;
  Kernel aligned_, unaligned_;
  Schedule unaligned_schedule_;
  DeviceArray<Task> tasks_;
  DeviceArray<std::int32_t> tile_cols_;
  DeviceArray<Mosaic::Bitmap> bitmaps_;
  DeviceArray<float> factors_;  // empty where sums are not multiplied
  Arguments arguments_;
};

class GpuTesseraSddmm final : public GpuSddmm {
 public:
  explicit GpuTesseraSddmm(TesseraSddmmOptions options) : options_(std::move(options)) {}
  std::unique_ptr<GpuSampledProduct> upload(const PackedMatrix& packed,
                                            std::int64_t k) const override {
    sddmm::require_addressable("tessera_sddmm", k);
    return std::make_unique<TesseraSampledProduct>(packed_as<Mosaic>(packed), k, options_);
  }

 private:
  TesseraSddmmOptions options_;
};

const Register<GpuSddmm> entry{{
    .name = "tessera_sddmm",
    .summary = "device half of tessera_sddmm",
    .make =
        [](const Params& params) {
          return std::make_unique<GpuTesseraSddmm>(TesseraSddmmOptions(params));
        },
}};

}  // namespace
}  // namespace tessera
