// Device half of tessera_spmm: its launches. The kernels are kernel.cuh. See
// kernels/spmm/tessera/tessera_spmm.cpp.

#include "formats/base/registry.hpp"
#include "kernels/gpu_spmm.hpp"
#include "kernels/spmm/tessera/kernel.cuh"
#include "kernels/spmm/tessera/scaled_rows.hpp"

namespace tessera {
namespace {

using namespace tessera_spmm;

class GpuTesseraSpmm final : public GpuSpmm {
 public:
  explicit GpuTesseraSpmm(TesseraSpmmOptions options) : options_(std::move(options)) {}
  std::unique_ptr<GpuMultiplication> upload(const PackedMatrix& packed,
                                            std::int64_t n) const override {
    const auto& a = packed_as<Mosaic>(packed);
    return made(window_tile::PackedOnDevice(a, kBlocksAhead, kValuesAhead), a.window_offset,
                size_of(a), n);
  }
  /// The windows' first TC blocks come to the host, which cuts them into tasks.
  std::unique_ptr<GpuMultiplication> adopt(const PackedOnGpu& a, std::int64_t n) const override {
    return made(window_tile::PackedOnDevice(a, kBlocksAhead, kValuesAhead),
                a.copy<std::uint32_t>("window_offset").download(), {a.rows, a.cols, a.bytes()}, n);
  }

 private:
  std::unique_ptr<GpuMultiplication> made(window_tile::PackedOnDevice a,
                                          const std::vector<std::uint32_t>& window_offset,
                                          const PackedSize& size, std::int64_t n) const {
    // A row of B is addressed by 32 bits.
    require<Unsupported>(n < std::int64_t{1} << 30,
                         "tessera_spmm takes less than 2^30 columns, not {}", n);
    const window_tasks::Tasks tasks = window_tasks::merge_shares(options_.cut(window_offset, n));
    const row_windows::Schedule schedule = options_.schedule(size.cols, n);
    return std::make_unique<row_windows::TaskMultiplication<bool, bool>>(
        std::move(a), tasks, n,
        row_windows::TaskLaunch<bool, bool>{
            .kernel_name = "tessera_spmm",
            .aligned = kernel(schedule.groups, true),
            .unaligned = kernel(schedule.groups, false),
            .scaled_aligned = scaled_kernel(schedule.groups, true),
            .scaled_unaligned = scaled_kernel(schedule.groups, false),
            .options = {options_.storage().c != ElementType::kFp32, options_.prefetches(size, n)},
            .schedule = schedule,
            .shared_bytes = options_.shared_bytes(schedule),
            .b_bytes = bytes_of(options_.storage().b),
            .combine = options_.combine(),
            .fetches_early = true,
            .b_rows = size.cols,
            .overlap = options_.overlap(),
            .places_rows = true});
  }

  /// The kernel that scales its sums; null where none is compiled.
  Kernel scaled_kernel(int groups, bool aligned) const {
    if (options_.storage() != Storage{ElementType::kFp16, ElementType::kFp32}) return nullptr;
    return kernel_of<ScaledFp16Numbers>(groups, aligned);
  }

  Kernel kernel(int groups, bool aligned) const {
    if (options_.storage().b == ElementType::kFp16)
      return kernel_of<HalfNumbers<PackedFp16>>(groups, aligned);
    if (options_.storage().b == ElementType::kBf16)
      return kernel_of<HalfNumbers<PackedBf16>>(groups, aligned);
    return tf32_precision(options_.precision().name) == Tf32Precision::kSplit
               ? kernel_of<Fp32Numbers<Tf32Precision::kSplit>>(groups, aligned)
               : kernel_of<Fp32Numbers<Tf32Precision::kEven>>(groups, aligned);
  }

  TesseraSpmmOptions options_;
};

const Register<GpuSpmm> entry{{
    .name = "tessera_spmm",
    .summary = "device half of tessera_spmm",
    .make = [](const Params& params) -> std::unique_ptr<GpuSpmm> {
      if (is_narrowed(params)) return narrowed::make_gpu(narrowed_recipe(params));
      return std::make_unique<GpuTesseraSpmm>(TesseraSpmmOptions(params));
    },
}};

}  // namespace
}  // namespace tessera
