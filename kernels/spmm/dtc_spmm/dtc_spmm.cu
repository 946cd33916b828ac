// Device half of dtc_spmm: the launches around kernels.cuh. See kernels/spmm/dtc_spmm/dtc_spmm.cpp.

#include "formats/base/registry.hpp"
#include "kernels/gpu_spmm.hpp"
#include "kernels/spmm/dtc_spmm/kernels.cuh"

namespace tessera {
namespace {

using namespace dtc_spmm;
using window_tasks::Split;

constexpr auto clear_windows = row_windows::clear_split_windows<window16_tile::kWindowRows>;

class DtcMultiplication final : public GpuMultiplication {
 public:
  DtcMultiplication(const MeTcf& a, std::int64_t n, const DtcSpmmOptions& choices)
      : DtcMultiplication(a, n, choices, choices.cut(a)) {}

  std::vector<int> registers() const override {
    if (clears()) return {registers_of(clear_windows), registers_of(kernel(true))};
    return {registers_of(kernel(true))};
  }

  void launch(int, const Operands& operands, cudaStream_t stream) override {
    if (thread_blocks_ == 0) return;
    KernelArguments product = product_;
    product.b = operands.b, product.c = operands.c, product.scaling = operands.scaling;
    if (clears()) {
      clear_windows<<<product.num_splits, row_windows::kClearThreads, 0, stream>>>(product);
      cuda_check(cudaGetLastError(), "launching dtc_spmm's clearing");
    }
    kernel(aligned_to_16_bytes(
        product.view.n, operands))<<<static_cast<unsigned>(thread_blocks_), shape_.threads(),
                                     shared_bytes_, stream>>>(product, choices_.double_buffer);
    cuda_check(cudaGetLastError(), "launching dtc_spmm");
  }

 private:
  DtcMultiplication(const MeTcf& a, std::int64_t n, const DtcSpmmOptions& choices,
                    const window_tasks::Tasks& cut)
      : choices_(choices),
        shape_(choices.geometry(n)),
        shared_bytes_(static_cast<std::size_t>(choices.shared_bytes(shape_))),
        a_(a, window16_tile::kWindowRows),
        tasks_(cut.tasks),
        shares_(cut.shares),
        splits_(cut.splits),
        slots_(static_cast<std::size_t>(chunks(n) * cut.slots * 128 * shape_.groups)),
        arrivals_(
            std::vector<std::uint32_t>(static_cast<std::size_t>(chunks(n)) * cut.splits.size())),
        thread_blocks_(shape_.thread_blocks(cut, n)) {
    require<Unsupported>(thread_blocks_ <= 0x7fffffff,
                         "{} thread blocks are more than a grid holds", thread_blocks_);
    product_ = {.view = a_.view(n),
                .tasks = tasks_.data(),
                .shares = shares_.data(),
                .num_shares = static_cast<std::uint32_t>(cut.num_shares()),
                .splits = splits_.data(),
                .num_splits = static_cast<std::uint32_t>(cut.splits.size()),
                .num_slots = cut.slots,
                .slots = slots_.data(),
                .arrivals = arrivals_.data(),
                .atomic = choices.combine == row_windows::Combine::kAtomic,
                .store = Store::kWriteBack,
                .promote = 0,
                .b = nullptr,
                .c = nullptr,
                .scaling = {}};
    load_now(clear_windows, kernel(true), kernel(false));
    allow_shared_memory(static_cast<std::int64_t>(shared_bytes_), kernel(false), kernel(true));
  }

  /// Warps side by side in C, those beyond its edge too.
  std::int64_t chunks(std::int64_t n) const { return shape_.num_chunks(n) * shape_.team; }
  bool clears() const { return product_.atomic && product_.num_splits > 0; }
  Kernel kernel(bool aligned) const {
    return choices_.depth == 4 ? kernel_of_depth_4(choices_.fetch, shape_, aligned)
                               : kernel_of_depth_8(choices_.fetch, shape_, aligned);
  }

  DtcSpmmOptions choices_;
  Geometry shape_;
  std::size_t shared_bytes_;
  window_tile::PackedOnDevice a_;
  DeviceArray<Task> tasks_;
  DeviceArray<std::uint32_t> shares_;
  DeviceArray<Split> splits_;
  DeviceArray<float4> slots_;
  DeviceArray<std::uint32_t> arrivals_;
  std::int64_t thread_blocks_;
  KernelArguments product_ = {};
};

class GpuDtcSpmm final : public GpuSpmm {
 public:
  explicit GpuDtcSpmm(DtcSpmmOptions choices) : choices_(choices) {}
  std::unique_ptr<GpuMultiplication> upload(const PackedMatrix& packed,
                                            std::int64_t n) const override {
    return std::make_unique<DtcMultiplication>(packed_as<MeTcf>(packed), n, choices_);
  }

 private:
  DtcSpmmOptions choices_;
};

const Register<GpuSpmm> entry{{
    .name = "dtc_spmm",
    .summary = "device half of dtc_spmm",
    .make =
        [](const Params& params) { return std::make_unique<GpuDtcSpmm>(DtcSpmmOptions(params)); },
}};

}  // namespace
}  // namespace tessera
