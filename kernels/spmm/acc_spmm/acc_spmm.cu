// Device half of acc_spmm: the launches around its pipelines, which are staged.cuh,
// registers.cuh and buffered.cuh. See kernels/spmm/acc_spmm/acc_spmm.cpp.

#include "formats/base/registry.hpp"
#include "kernels/gpu_spmm.hpp"
#include "kernels/spmm/acc_spmm/variants.cuh"

namespace tessera {
namespace {

using namespace acc_spmm;

constexpr auto clear_windows = clear_split_windows<window_tile::kWindowRows>;

class AccMultiplication final : public GpuMultiplication {
 public:
  /// Of a BitTcf, or an MeTcf with the same TC blocks.
  template <class Packed>
  AccMultiplication(const Packed& a, std::int64_t n, const AccSpmmOptions& choices)
      : AccMultiplication(a, n, choices, choices.cut(a.row_window_offset)) {}

  std::vector<int> registers() const override {
    if (clears()) return {registers_of(clear_windows), registers_of(kernel(true))};
    return {registers_of(kernel(true))};
  }

  void launch(int, const Operands& operands, cudaStream_t stream) override {
    if (thread_blocks_ == 0) return;
    KernelArguments product = product_;
    product.b = operands.b, product.c = operands.c, product.scaling = operands.scaling;
    if (clears()) {
      clear_windows<<<product.num_splits, kClearThreads, 0, stream>>>(product);
      cuda_check(cudaGetLastError(), "launching acc_spmm's clearing");
    }
    const Kernel run = kernel(aligned_to_16_bytes(product.view.n, operands));
    run<<<static_cast<unsigned>(thread_blocks_), kThreads, shared_bytes_, stream>>>(product);
    cuda_check(cudaGetLastError(), "launching acc_spmm");
  }

 private:
  template <class Packed>
  AccMultiplication(const Packed& a, std::int64_t n, const AccSpmmOptions& choices,
                    const window_tasks::Tasks& cut)
      : choices_(choices),
        groups_(choices.groups(n)),
        a_(a),
        tasks_(cut.tasks),
        shares_(cut.shares),
        splits_(cut.splits),
        slots_(static_cast<std::size_t>(num_chunks(n, groups_) * cut.slots * 64 * groups_)),
        arrivals_(std::vector<std::uint32_t>(static_cast<std::size_t>(num_chunks(n, groups_)) *
                                             cut.splits.size())) {
    product_ = {.view = a_.view(n),
                .tasks = tasks_.data(),
                .shares = shares_.data(),
                .num_shares = static_cast<std::uint32_t>(cut.num_shares()),
                .splits = splits_.data(),
                .num_splits = static_cast<std::uint32_t>(cut.splits.size()),
                .num_slots = cut.slots,
                .slots = slots_.data(),
                .arrivals = arrivals_.data(),
                .atomic = choices.combine == Combine::kAtomic,
                .store = choices.store,
                .promote = choices.precision.promote,
                .b = nullptr,
                .c = nullptr,
                .scaling = {}};
    thread_blocks_ = (cut.num_shares() + kWarps - 1) / kWarps * num_chunks(n, groups_);
    require<Unsupported>(thread_blocks_ <= 0x7fffffff,
                         "{} thread blocks are more than a grid holds", thread_blocks_);
    load_now(clear_windows, kernel(true), kernel(false));
    if (choices.pipeline != Pipeline::kStaged) return;  // what they have is theirs at compile time
    shared_bytes_ = static_cast<std::size_t>(choices.shared_bytes(n));
    allow_shared_memory(static_cast<std::int64_t>(shared_bytes_), kernel(false), kernel(true));
  }

  bool clears() const { return product_.atomic && product_.num_splits > 0; }

  Kernel kernel(bool aligned) const {
    if (choices_.pipeline == Pipeline::kStaged) return staged_kernel(choices_, groups_, aligned);
    return choices_.pipeline == Pipeline::kRegisters ? registers_kernel(choices_, aligned)
                                                     : buffered_kernel(choices_, aligned);
  }

  AccSpmmOptions choices_;
  int groups_;
  window_tile::PackedOnDevice a_;
  DeviceArray<Task> tasks_;
  DeviceArray<std::uint32_t> shares_;
  DeviceArray<Split> splits_;
  DeviceArray<float4> slots_;
  DeviceArray<std::uint32_t> arrivals_;
  KernelArguments product_ = {};
  std::int64_t thread_blocks_ = 0;
  std::size_t shared_bytes_ = 0;
};

class GpuAccSpmm final : public GpuSpmm {
 public:
  explicit GpuAccSpmm(AccSpmmOptions choices) : choices_(std::move(choices)) {}
  std::unique_ptr<GpuMultiplication> upload(const PackedMatrix& packed,
                                            std::int64_t n) const override {
    if (choices_.encoding == NonzeroEncoding::kBytes)
      return std::make_unique<AccMultiplication>(packed_as<MeTcf>(packed), n, choices_);
    return std::make_unique<AccMultiplication>(packed_as<BitTcf>(packed), n, choices_);
  }

 private:
  AccSpmmOptions choices_;
};

const Register<GpuSpmm> entry{{
    .name = "acc_spmm",
    .summary = "device half of acc_spmm",
    .make =
        [](const Params& params) { return std::make_unique<GpuAccSpmm>(AccSpmmOptions(params)); },
}};

}  // namespace
}  // namespace tessera
