// Device half of windows_spmm: one thread block per row window. See
// kernels/spmm/row_windows/windows_spmm.cpp.

#include "formats/base/registry.hpp"
#include "kernels/gpu_spmm.hpp"
#include "kernels/spmm/row_windows/staged_tiles.cuh"
#include "kernels/spmm/row_windows/windows_spmm.hpp"

namespace tessera {
namespace {

using staged_tiles::kStages;
using staged_tiles::kWarps;
using window_tile::View;

template <bool kAligned>
__global__ void __launch_bounds__(staged_tiles::kThreads, 8)
    multiply_windows(View view, const float* __restrict__ b, float* __restrict__ c,
                     Scaling scaling) {
  __shared__ staged_tiles::Stage stages[kWarps][kStages];
  const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  const std::uint32_t window = windows_spmm::window_of(blockIdx.x);
  const std::uint32_t first = view.row_window_offset[window];
  const std::uint32_t last = view.row_window_offset[window + 1];
  for (std::int64_t col = staged_tiles::first_col(warp, 0); col < view.n;
       col += staged_tiles::kBlockCols) {
    float acc[2][4] = {};
    if (first < last) {
      const staged_tiles::Copier<kAligned> copier(view, b, col, lane);
      staged_tiles::Pipeline pipeline(copier, stages[warp], first, last);
      for (std::uint32_t step = 0; step < last - first; ++step) pipeline.advance(step, acc);
    }
    window_tile::store<kAligned>(view, c, scaling, window, lane % 4, col + lane / 4 * 4, acc);
  }
}

class WindowsMultiplication final : public GpuMultiplication {
 public:
  WindowsMultiplication(const BitTcf& a, std::int64_t n) : a_(a), view_(a_.view(n)) {
    load_now(multiply_windows<true>, multiply_windows<false>);
  }

  std::vector<int> registers() const override { return {registers_of(multiply_windows<true>)}; }

  void launch(int, const Operands& operands, cudaStream_t stream) override {
    const std::int64_t thread_blocks = windows_spmm::thread_blocks(view_.windows);
    if (thread_blocks == 0 || view_.n == 0) return;
    const auto kernel =
        aligned_to_16_bytes(view_.n, operands) ? multiply_windows<true> : multiply_windows<false>;
    kernel<<<static_cast<unsigned>(thread_blocks), staged_tiles::kThreads, 0, stream>>>(
        view_, operands.b_fp32(), operands.c_fp32(), operands.scaling);
    cuda_check(cudaGetLastError(), "launching windows_spmm");
  }

 private:
  window_tile::PackedOnDevice a_;
  View view_;
};

class GpuWindowsSpmm final : public GpuSpmm {
 public:
  std::unique_ptr<GpuMultiplication> upload(const PackedMatrix& packed,
                                            std::int64_t n) const override {
    return std::make_unique<WindowsMultiplication>(packed_as<BitTcf>(packed), n);
  }
};

const Register<GpuSpmm> entry{{
    .name = "windows_spmm",
    .summary = "device half of windows_spmm",
    .make = [](const Params&) { return std::make_unique<GpuWindowsSpmm>(); },
}};

}  // namespace
}  // namespace tessera
