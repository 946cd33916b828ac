// Device half of shares_spmm: equal shares of the stream of TC blocks. See
// kernels/spmm/row_windows/shares_spmm.cpp.

#include "formats/base/registry.hpp"
#include "kernels/gpu_spmm.hpp"
#include "kernels/spmm/row_windows/shares_spmm.hpp"
#include "kernels/spmm/row_windows/staged_tiles.cuh"

namespace tessera {
namespace {

using shares_spmm::Share;
using staged_tiles::kStages;
using staged_tiles::kWarps;
using window_tile::View;

__global__ void __launch_bounds__(shares_spmm::kClearThreads)
    clear(float* c, std::int64_t size, Scaling scaling) {
  const auto for_each = [&](auto write) {
    for (int i = 0; i < shares_spmm::kClearStores; ++i) {
      const std::int64_t at = shares_spmm::cleared_value(blockIdx.x, i, threadIdx.x);
      if (at < size) write(c[at]);
    }
  };
  if (scaling.beta == 0)
    for_each([](float& value) { value = 0; });
  else
    for_each([&](float& value) { value *= scaling.beta; });
}

/// The windows of a share's TC blocks, one after another.
class Windows {
 public:
  __device__ Windows(const View& view, const Share& share)
      : view_(view),
        window_(share.window),
        whole_(share.window_first == share.first),
        last_(load_ahead(view.row_window_offset + window_ + 1)) {
    read_ahead();
  }

  __device__ std::uint32_t window() const { return window_; }
  /// The end of its TC blocks.
  __device__ std::uint32_t last() const { return last_; }
  /// True when its first TC block is in the share.
  __device__ bool begins_here() const { return whole_; }

  /// Goes to the next window that is not empty; there is one.
  __device__ void advance() {
    const std::uint32_t first = last_;
    do {
      ++window_;
      last_ = next_last_;
      read_ahead();
    } while (last_ == first);
    whole_ = true;
  }

 private:
  __device__ void read_ahead() {
    const auto next = static_cast<std::uint32_t>(min(window_ + std::int64_t{2}, view_.windows));
    next_last_ = load_ahead(view_.row_window_offset + next);
  }

  const View& view_;
  std::uint32_t window_;
  bool whole_;
  std::uint32_t last_;
  std::uint32_t next_last_;  // of the window after this one, read ahead
};

template <bool kAligned>
__device__ void finish_window(const View& view, float* c, Scaling scaling, const Windows& windows,
                              std::uint32_t share_last, std::int64_t col, int t,
                              float (&acc)[2][4]) {
  if (windows.begins_here() && windows.last() <= share_last) {
    window_tile::store<kAligned>(view, c, {scaling.alpha, scaling.beta == 0 ? 0.0f : 1.0f},
                                 windows.window(), t, col, acc);
  } else {
    window_tile::for_each_row(view, c, windows.window(), t, col, acc, [&](float* to, float4 sums) {
      add_16_bytes(to, sums, view.n - col, scaling.alpha, kAligned);
    });
  }
  for (auto& sums : acc)
    for (float& sum : sums) sum = 0;
}

template <bool kAligned>
__global__ void __launch_bounds__(staged_tiles::kThreads, 8)
    multiply_shares(View view, const Share* __restrict__ shares, const float* __restrict__ b,
                    float* __restrict__ c, Scaling scaling) {
  __shared__ staged_tiles::Stage stages[kWarps][kStages];
  const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  const Share share = shares[blockIdx.x];
  if (share.first == share.last) return;
  for (std::int64_t first_col = staged_tiles::first_col(warp, 0); first_col < view.n;
       first_col += staged_tiles::kBlockCols) {
    const staged_tiles::Copier<kAligned> copier(view, b, first_col, lane);
    staged_tiles::Pipeline pipeline(copier, stages[warp], share.first, share.last);
    Windows windows(view, share);
    const std::int64_t col = first_col + lane / 4 * 4;
    float acc[2][4] = {};
    for (std::uint32_t step = 0; share.first + step < share.last; ++step) {
      if (share.first + step == windows.last()) {
        finish_window<kAligned>(view, c, scaling, windows, share.last, col, lane % 4, acc);
        windows.advance();
      }
      pipeline.advance(step, acc);
    }
    finish_window<kAligned>(view, c, scaling, windows, share.last, col, lane % 4, acc);
  }
}

class SharesMultiplication final : public GpuMultiplication {
 public:
  SharesMultiplication(const BitTcf& a, std::int64_t n, std::int64_t thread_blocks)
      : a_(a),
        view_(a_.view(n)),
        shares_(shares_spmm::plan_shares(a, thread_blocks)),
        clearings_(shares_spmm::clear_thread_blocks(view_.rows * n)) {
    require<Unsupported>(clearings_ <= INT_MAX, "{} thread blocks are more than a grid holds",
                         clearings_);
    load_now(clear, multiply_shares<true>, multiply_shares<false>);
  }

  std::vector<int> registers() const override {
    return {registers_of(clear), registers_of(multiply_shares<true>)};
  }

  void launch(int, const Operands& operands, cudaStream_t stream) override {
    if (clearings_ == 0) return;
    clear<<<static_cast<unsigned>(clearings_), shares_spmm::kClearThreads, 0, stream>>>(
        operands.c_fp32(), view_.rows * view_.n, operands.scaling);
    const auto kernel =
        aligned_to_16_bytes(view_.n, operands) ? multiply_shares<true> : multiply_shares<false>;
    kernel<<<static_cast<unsigned>(shares_.size()), staged_tiles::kThreads, 0, stream>>>(
        view_, shares_.data(), operands.b_fp32(), operands.c_fp32(), operands.scaling);
    cuda_check(cudaGetLastError(), "launching shares_spmm");
  }

 private:
  window_tile::PackedOnDevice a_;
  View view_;
  DeviceArray<Share> shares_;
  std::int64_t clearings_;
};

class GpuSharesSpmm final : public GpuSpmm {
 public:
  explicit GpuSharesSpmm(std::int64_t thread_blocks) : thread_blocks_(thread_blocks) {}
  std::unique_ptr<GpuMultiplication> upload(const PackedMatrix& packed,
                                            std::int64_t n) const override {
    return std::make_unique<SharesMultiplication>(packed_as<BitTcf>(packed), n, thread_blocks_);
  }

 private:
  std::int64_t thread_blocks_;
};

const Register<GpuSpmm> entry{{
    .name = "shares_spmm",
    .summary = "device half of shares_spmm",
    .make =
        [](const Params& params) {
          return std::make_unique<GpuSharesSpmm>(params.integer("thread_blocks"));
        },
}};

}  // namespace
}  // namespace tessera
