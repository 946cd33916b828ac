// Device half of flash_sddmm: its launches. The kernel is kernel.cuh.

#include "formats/base/registry.hpp"
#include "kernels/gpu_sddmm.hpp"
#include "kernels/gpu_spmm.hpp"
#include "kernels/sddmm/flash/kernel.cuh"
#include "kernels/sddmm/shared/device_half.hpp"

namespace tessera {
namespace {

using namespace flash_sddmm;

using Kernel = void (*)(Arguments);

template <bool kAligned>
Kernel kernel_of(ElementType type) {
  if (type == ElementType::kFp32) return run<ElementType::kFp32, true>;
  return type == ElementType::kFp16 ? run<ElementType::kFp16, kAligned>
                                    : run<ElementType::kBf16, kAligned>;
}

class FlashSampledProduct final : public GpuSampledProduct {
 public:
  FlashSampledProduct(const MeBcrs& a, const CsrMatrix& csr, std::int64_t k,
                      const FlashSddmmOptions& options)
      : aligned_(kernel_of<true>(options.storage.b)),
        unaligned_(kernel_of<false>(options.storage.b)),
        blocks_(blocks_of(a)),
        columns_(a.col_indices),
        places_(places_of(a, csr)),
        factors_(options.scales_by_a ? DeviceArray<float>(csr.values) : DeviceArray<float>()),
        arguments_{.blocks = blocks_.data(),
                   .num_blocks = static_cast<std::uint32_t>(blocks_.size()),
                   .columns = columns_.data(),
                   .places = places_.data(),
                   .factors = options.scales_by_a ? factors_.data() : nullptr,
                   .rows = a.rows(),
                   .row_bytes = static_cast<std::uint32_t>(k * options.bytes()),
                   .x = nullptr,
                   .y = nullptr,
                   .s = nullptr,
                   .type = options.storage.c} {
    load_now(aligned_, unaligned_);
  }

  std::vector<int> registers() const override { return {registers_of(aligned_)}; }

  void launch(const SddmmOperands& operands, cudaStream_t stream) override {
    if (arguments_.num_blocks == 0) return;
    const auto at_word = [](const void* data) {
      return reinterpret_cast<std::uintptr_t>(data) % 4 == 0;
    };
    const bool aligned =
        arguments_.row_bytes % 4 == 0 && at_word(operands.x) && at_word(operands.y);
    Arguments arguments = arguments_;
    arguments.x = static_cast<const char*>(operands.x);
    arguments.y = static_cast<const char*>(operands.y);
    arguments.s = operands.s;
    const unsigned blocks = (arguments.num_blocks + kWarps - 1) / kWarps;
    (aligned ? aligned_ : unaligned_)<<<blocks, 32 * kWarps, 0, stream>>>(arguments);
    cuda_check(cudaGetLastError(), "launching flash_sddmm");
  }

  void set_values(const float* values, cudaStream_t stream) override {
    sddmm::replace_factors(factors_, values, stream);
  }

 private:
  Kernel aligned_, unaligned_;
  DeviceArray<Block> blocks_;
  DeviceArray<std::int32_t> columns_;
  DeviceArray<std::uint32_t> places_;
  DeviceArray<float> factors_;  // empty where sums are not multiplied
  Arguments arguments_;
};

class GpuFlashSddmm final : public GpuSddmm {
 public:
  explicit GpuFlashSddmm(FlashSddmmOptions options) : options_(std::move(options)) {}
  std::unique_ptr<GpuSampledProduct> upload(const PackedMatrix& packed,
                                            std::int64_t k) const override {
    sddmm::require_addressable("flash_sddmm", k);
    const auto& a = packed_as<MeBcrs>(packed);
    return std::make_unique<FlashSampledProduct>(a, a.unpack(), k, options_);
  }

 private:
  FlashSddmmOptions options_;
};

const Register<GpuSddmm> entry{{
    .name = "flash_sddmm",
    .summary = "device half of flash_sddmm",
    .make =
        [](const Params& params) {
          return std::make_unique<GpuFlashSddmm>(FlashSddmmOptions(params));
        },
}};

}  // namespace
}  // namespace tessera
