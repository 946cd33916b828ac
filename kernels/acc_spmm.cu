// Device half of acc_spmm: which of its pipelines runs, and the launches around it. See
// kernels/acc_spmm.cpp; the pipelines are acc_staged.cuh and acc_registers.cuh.

#include "formats/base/registry.hpp"
#include "kernels/acc_registers.cuh"
#include "kernels/acc_staged.cuh"
#include "kernels/gpu_spmm.hpp"

namespace tessera {
namespace {

using namespace acc_spmm;

using Kernel = void (*)(Product);

/// The variants that only the speed depends on exist for the paper's precision.
template <bool kAligned, Tf32Precision kPrecision, bool kPromotes, int kGroups>
Kernel staged(const Choices& choices) {
  if constexpr (kAligned && kPrecision == Tf32Precision::kRounded && !kPromotes) {
    const bool through = choices.through_l1;
    switch (choices.stages) {
      case 2:
        return through ? run_staged<true, kPrecision, false, kGroups, 2, Copy::kThroughL1>
                       : run_staged<true, kPrecision, false, kGroups, 2, Copy::kPastL1>;
      case 3:
        return through ? run_staged<true, kPrecision, false, kGroups, 3, Copy::kThroughL1>
                       : run_staged<true, kPrecision, false, kGroups, 3, Copy::kPastL1>;
      default:
        return through ? run_staged<true, kPrecision, false, kGroups, 4, Copy::kThroughL1>
                       : run_staged<true, kPrecision, false, kGroups, 4, Copy::kPastL1>;
    }
  } else {
    return run_staged<kAligned, kPrecision, kPromotes, kGroups, 2, Copy::kPastL1>;
  }
}

template <bool kAligned, Tf32Precision kPrecision, bool kPromotes>
Kernel instance(const Choices& choices, int groups) {
  if (choices.pipeline == Pipeline::kRegisters)
    return run_registers<kAligned, kPrecision, kPromotes>;
  if (groups == 1) return staged<kAligned, kPrecision, kPromotes, 1>(choices);
  if (groups == 2) return staged<kAligned, kPrecision, kPromotes, 2>(choices);
  return staged<kAligned, kPrecision, kPromotes, 4>(choices);
}

template <Tf32Precision kPrecision>
Kernel instance(const Choices& choices, int groups, bool aligned) {
  if (choices.precision.promote > 0)
    return aligned ? instance<true, kPrecision, true>(choices, groups)
                   : instance<false, kPrecision, true>(choices, groups);
  return aligned ? instance<true, kPrecision, false>(choices, groups)
                 : instance<false, kPrecision, false>(choices, groups);
}

Kernel instance(const Choices& choices, int groups, bool aligned) {
  switch (tf32_precision(choices.precision.name)) {
    case Tf32Precision::kRounded:
      return instance<Tf32Precision::kRounded>(choices, groups, aligned);
    case Tf32Precision::kRaw:
      return instance<Tf32Precision::kRaw>(choices, groups, aligned);
    case Tf32Precision::kSplit:
      return instance<Tf32Precision::kSplit>(choices, groups, aligned);
  }
  return nullptr;
}

/// beta C where atomics add: a thread block for a split window.
__global__ void clear_split_windows(Product product) {
  const std::int64_t row =
      std::int64_t{product.tasks[product.splits[blockIdx.x].first_task].window} *
      window_tile::kWindowRows;
  const std::int64_t rows = min(std::int64_t{window_tile::kWindowRows}, product.view.rows - row);
  float* c = product.c + row * product.view.n;
  begin_adding(c, threadIdx.x, rows * product.view.n, product.scaling);
}

class AccMultiplication final : public GpuMultiplication {
 public:
  AccMultiplication(const BitTcf& a, std::int64_t n, const Choices& choices)
      : AccMultiplication(a, n, choices, choices.cut(a)) {}

  std::vector<int> registers() const override { return {registers_of(kernel(true))}; }

  void launch(int, const Operands& operands, cudaStream_t stream) override {
    if (thread_blocks_ == 0) return;
    Product product = product_;
    product.b = operands.b, product.c = operands.c, product.scaling = operands.scaling;
    if (product.atomic && product.num_splits > 0) {
      clear_split_windows<<<product.num_splits, 256, 0, stream>>>(product);
      cuda_check(cudaGetLastError(), "launching acc_spmm's clearing");
    }
    const Kernel run = kernel(in_16_bytes(product.view.n, operands));
    run<<<static_cast<unsigned>(thread_blocks_), kThreads, shared_bytes_, stream>>>(product);
    cuda_check(cudaGetLastError(), "launching acc_spmm");
  }

 private:
  AccMultiplication(const BitTcf& a, std::int64_t n, const Choices& choices,
                    const window_tasks::Tasks& cut)
      : choices_(choices),
        groups_(choices.groups(n)),
        a_(a),
        tasks_(cut.tasks),
        splits_(cut.splits),
        slots_(static_cast<std::size_t>(num_chunks(n, groups_) * cut.slots * 64 * groups_)),
        arrivals_(std::vector<std::uint32_t>(static_cast<std::size_t>(num_chunks(n, groups_)) *
                                             cut.splits.size())) {
    product_ = {.view = a_.view(n),
                .tasks = tasks_.data(),
                .num_tasks = static_cast<std::uint32_t>(cut.tasks.size()),
                .splits = splits_.data(),
                .num_splits = static_cast<std::uint32_t>(cut.splits.size()),
                .num_slots = cut.slots,
                .slots = slots_.data(),
                .arrivals = arrivals_.data(),
                .atomic = choices.combine == Combine::kAtomic,
                .promote = choices.precision.promote,
                .b = nullptr,
                .c = nullptr,
                .scaling = {}};
    const auto rows_of_blocks = (static_cast<std::int64_t>(cut.tasks.size()) + kWarps - 1) / kWarps;
    thread_blocks_ = rows_of_blocks * num_chunks(n, groups_);
    require<Unsupported>(thread_blocks_ <= 0x7fffffff,
                         "{} thread blocks are more than a grid holds", thread_blocks_);
    load_now(clear_split_windows, kernel(true), kernel(false));
    if (choices.pipeline == Pipeline::kRegisters) return;
    shared_bytes_ = static_cast<std::size_t>(acc_spmm::shared_bytes(groups_, choices.stages));
    for (const bool aligned : {false, true})
      cuda_check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel(aligned)),
                                      cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      static_cast<int>(shared_bytes_)),
                 "asking for shared memory");
  }

  Kernel kernel(bool aligned) const { return instance(choices_, groups_, aligned); }

  Choices choices_;
  int groups_;
  window_tile::PackedOnDevice a_;
  DeviceArray<Task> tasks_;
  DeviceArray<Split> splits_;
  DeviceArray<float4> slots_;
  DeviceArray<std::uint32_t> arrivals_;
  Product product_ = {};
  std::int64_t thread_blocks_ = 0;
  std::size_t shared_bytes_ = 0;
};

class GpuAccSpmm final : public GpuSpmm {
 public:
  explicit GpuAccSpmm(Choices choices) : choices_(std::move(choices)) {}
  std::unique_ptr<GpuMultiplication> upload(const PackedMatrix& packed,
                                            std::int64_t n) const override {
    return std::make_unique<AccMultiplication>(packed_as<BitTcf>(packed), n, choices_);
  }

 private:
  Choices choices_;
};

const Register<GpuSpmm> entry{{
    .name = "acc_spmm",
    .summary = "device half of acc_spmm",
    .make = [](const Params& params) { return std::make_unique<GpuAccSpmm>(Choices(params)); },
}};

}  // namespace
}  // namespace tessera
