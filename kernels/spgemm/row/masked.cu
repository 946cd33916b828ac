// The device half of row_spgemm under a mask. The host waits for nothing. See
// kernels/spgemm/row/masked.hpp.

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>

#include "formats/base/check.hpp"
#include "kernels/device/limits_of_gpu.hpp"
#include "kernels/device/overlapped_launch.cuh"
#include "kernels/spgemm/row/description.cuh"
#include "kernels/spgemm/row/masked_rows.cuh"
#include "kernels/spgemm/row/operands.cuh"

namespace tessera::row_spgemm {
namespace {

/// The thread blocks of a kernel that run side by side on the device.
template <class Kernel>
unsigned blocks_side_by_side(Kernel kernel, int shared_bytes) {
  int each = 0;
  cuda_check(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes),
      "raising the limit of shared memory");
  cuda_check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, kMaskedThreads,
                                                           static_cast<std::size_t>(shared_bytes)),
             "asking for the occupancy");
  return static_cast<unsigned>(sms_of_gpu() * std::max(each, 1));
}

/// Products under a mask.
class MaskedRowProduct final : public GpuSparseProduct {
 public:
  MaskedRowProduct(const CsrMatrix& a, const CsrMatrix& b, const CsrMatrix& mask, bool reuse)
      : reuse_(reuse),
        plan_(plan_masked(a.rows, a.nnz(), b.rows, b.nnz())),
        operands_(a, b),
        mask_(mask),
        is_by_words_(can_go_by_words(plan_) && words_are_faster(sample_masked(a, b, mask))),
        queued_(is_by_words_ ? make_queued_rows<true> : make_queued_rows<false>),
        windows_(is_by_words_ ? make_masked_windows<true> : make_masked_windows<false>),
        queued_blocks_(blocks_side_by_side(queued_, 0)),
        window_blocks_(blocks_side_by_side(windows_, kWindowBytes)) {}

  void multiply(float alpha, ProductRun& run) override {
    RunBlock block;
    const SparseResult::Places places_of_c(block, mask_.rows, mask_.nnz);
    const std::int64_t counters = block.place<std::uint32_t>(2 * MaskedQueue::kKinds);
    const std::int64_t warps = block.place<std::int32_t>(mask_.rows);
    const std::int64_t blocks = block.place<std::int32_t>(mask_.rows);
    const std::int64_t windows = block.place<MaskedItem>(MaskedQueue::most_windows(mask_.nnz));
    std::optional<DescriptionOfB> of_b;
    if (is_by_words_) of_b.emplace(block, operands_.view(), true, true);
    take_result(mask_.nnz, block.bytes(), [&] { block.take(run); });
    auto* const counts = block.data<std::uint32_t>(counters);
    queue_ = {counts, counts + MaskedQueue::kKinds, block.data<std::int32_t>(warps),
              block.data<std::int32_t>(blocks), block.data<MaskedItem>(windows)};
    if (of_b) {
      of_b->assign(operands_.view(), block);
      run.stage("words of B");
      describe_b(operands_.view(), run.stream());
    }
    c_ = SparseResult::in_block(std::move(block), places_of_c, mask_.rows, mask_.cols, mask_.nnz);
    launch(alpha, true, run);
  }

  bool keeps_structure() const override { return reuse_; }

  void multiply_again(float alpha, ProductRun& run) override {
    require<Unsupported>(reuse_, "row_spgemm needs reuse = true to repeat a product");
    require(queue_.has_value(), "row_spgemm has no product to repeat: multiply first");
    launch(alpha, false, run);
  }

  void set_values(std::span<const float> a, std::span<const float> b) override {
    operands_.set_values(a, b);
  }

  void release() override {
    queue_.reset();
    c_ = {};
  }
  const SparseResult* result() const override { return &c_; }
  CsrMatrix download() const override { return c_.download(); }

 private:
  static constexpr int kWindowBytes = masked_bytes(kCellsOfMaskWindow, kPartsOfRow);

  void launch(float alpha, bool copies_structure, ProductRun& run) {
    const cudaStream_t stream = run.stream();
    run.stage("rows");
    const MaskedOutput output{mask_.nnz,
                              mask_.row_offsets.data(),
                              mask_.col_indices.data(),
                              copies_structure ? c_.row_offsets.data() : nullptr,
                              c_.col_indices.data(),
                              c_.values.data(),
                              alpha};
    cuda_check(
        cudaMemsetAsync(queue_->counts, 0, 2 * MaskedQueue::kKinds * sizeof(std::uint32_t), stream),
        "clearing");
    launch_rows(output, stream);
    if (mask_.nnz == 0) return;
    run.stage("windows");
    launch_queued(windows_, window_blocks_, kWindowBytes, output, stream);
    run.stage("queued rows");
    const unsigned most = static_cast<unsigned>(mask_.rows);
    launch_queued(queued_, std::min(queued_blocks_, most), 0, output, stream);
  }

  using Kernel = void (*)(OperandsView, MaskedOutput, MaskedQueue);

  void launch_queued(Kernel kernel, unsigned blocks, std::size_t shared_bytes,
                     const MaskedOutput& output, cudaStream_t stream) const {
    cuda_check(tessera::launch(kernel, dim3(blocks), kMaskedThreads, shared_bytes, stream,
                               overlaps_, operands_.view(), output, *queue_),
               "launching row_spgemm under a mask");
  }

  template <int kLanes = 4>
  void launch_rows(const MaskedOutput& output, cudaStream_t stream) const {
    if (kLanes < plan_.lanes) {
      if constexpr (kLanes < kWarpLanes) launch_rows<2 * kLanes>(output, stream);
      return;
    }
    if constexpr (kLanes == kWarpLanes)
      if (is_by_words_)
        return launch_rows_by(make_masked_rows<kLanes, true>, kLanes, output, stream);
    launch_rows_by(make_masked_rows<kLanes, false>, kLanes, output, stream);
  }

  template <class RowKernel>
  void launch_rows_by(RowKernel kernel, int lanes, const MaskedOutput& output,
                      cudaStream_t stream) const {
    const std::int64_t offsets = std::int64_t{mask_.rows} + 1;
    kernel<<<static_cast<unsigned>(parts(offsets, kMaskedThreads / lanes)), kMaskedThreads, 0,
             stream>>>(operands_.view(), output, plan_, *queue_);
    cuda_check(cudaGetLastError(), "launching row_spgemm under a mask");
  }

  bool reuse_;
  MaskedPlan plan_;
  Operands<float> operands_;
  DeviceMask mask_;
  bool is_by_words_, overlaps_ = can_overlap_launches();
  Kernel queued_, windows_;
  unsigned queued_blocks_, window_blocks_;
  SparseResult c_;
  std::optional<MaskedQueue> queue_;  // in C's block
};

}  // namespace

std::unique_ptr<GpuSparseProduct> upload_masked(const CsrMatrix& a, const CsrMatrix& b,
                                                const CsrMatrix& mask, bool reuse) {
  return std::make_unique<MaskedRowProduct>(a, b, mask, reuse);
}

}  // namespace tessera::row_spgemm
