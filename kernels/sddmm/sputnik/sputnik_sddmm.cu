// Device half of sputnik_sddmm: its launch. The kernel is kernel.cuh.

#include "formats/base/registry.hpp"
#include "kernels/gpu_sddmm.hpp"
#include "kernels/gpu_spmm.hpp"
#include "kernels/sddmm/shared/device_half.hpp"
#include "kernels/sddmm/sputnik/kernel.cuh"

namespace tessera {
namespace {

using namespace sputnik_sddmm;

using Kernel = void (*)(Arguments);

template <bool kAligned>
Kernel kernel_of(int lanes) {
  if (lanes == 8) return run<8, kAligned>;
  return lanes == 16 ? run<16, kAligned> : run<32, kAligned>;
}

class SputnikSampledProduct final : public GpuSampledProduct {
 public:
  SputnikSampledProduct(const CsrMatrix& a, std::int64_t k, const sddmm::SddmmOptions& options)
      : schedule_(Schedule::of(a, k)),
        aligned_(kernel_of<true>(schedule_.lanes)),
        unaligned_(kernel_of<false>(schedule_.lanes)),
        rows_(swizzled_rows(a)),
        row_offsets_(a.row_offsets),
        columns_(a.col_indices),
        factors_(options.scales_by_a ? DeviceArray<float>(a.values) : DeviceArray<float>()),
        arguments_{.rows = rows_.data(),
                   .row_offsets = row_offsets_.data(),
                   .columns = columns_.data(),
                   .factors = options.scales_by_a ? factors_.data() : nullptr,
                   .num_rows = a.rows,
                   .k = static_cast<std::uint32_t>(k),
                   .x = nullptr,
                   .y = nullptr,
                   .s = nullptr} {
    require<Unsupported>(schedule_.strips <= kMaxGridY,
                         "sputnik_sddmm takes rows of up to {} nonzeros", kMaxGridY * kStrip);
    load_now(aligned_, unaligned_);
  }

  std::vector<int> registers() const override { return {registers_of(aligned_)}; }

  void launch(const SddmmOperands& operands, cudaStream_t stream) override {
    if (schedule_.thread_blocks() == 0) return;
    const bool aligned =
        sddmm::rows_are_aligned(4 * std::int64_t{arguments_.k}, operands.x, operands.y);
    Arguments arguments = arguments_;
    arguments.x = static_cast<const char*>(operands.x);
    arguments.y = static_cast<const char*>(operands.y);
    arguments.s = static_cast<float*>(operands.s);
    const dim3 grid(static_cast<unsigned>(schedule_.row_groups()),
                    static_cast<unsigned>(schedule_.strips));
    (aligned ? aligned_ : unaligned_)<<<grid, kThreads, 0, stream>>>(arguments);
    cuda_check(cudaGetLastError(), "launching sputnik_sddmm");
  }

  void set_values(const float* values, cudaStream_t stream) override {
    sddmm::replace_factors(factors_, values, stream);
  }

 private:
  Schedule schedule_;
  Kernel aligned_, unaligned_;
  DeviceArray<std::int32_t> rows_;
  DeviceArray<std::int64_t> row_offsets_;
  DeviceArray<std::int32_t> columns_;
  DeviceArray<float> factors_;  // empty where sums are not multiplied
  Arguments arguments_;
};

class GpuSputnikSddmm final : public GpuSddmm {
 public:
  explicit GpuSputnikSddmm(const sddmm::SddmmOptions& options) : options_(options) {}
  std::unique_ptr<GpuSampledProduct> upload(const PackedMatrix& packed,
                                            std::int64_t k) const override {
    sddmm::require_addressable("sputnik_sddmm", k);
    return std::make_unique<SputnikSampledProduct>(packed_as<CsrPacked>(packed).matrix, k,
                                                   options_);
  }

 private:
  sddmm::SddmmOptions options_;
};

const Register<GpuSddmm> entry{{
    .name = "sputnik_sddmm",
    .summary = "device half of sputnik_sddmm",
    .make =
        [](const Params& params) {
          return std::make_unique<GpuSputnikSddmm>(sddmm::SddmmOptions(params));
        },
}};

}  // namespace
}  // namespace tessera
