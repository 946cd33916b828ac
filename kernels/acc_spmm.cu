// Device half of acc_spmm: one warp per 8-row window and 32 columns of C. See kernels/acc_spmm.cpp.
//
// While the MMAs of one TC block run, the rows of B of the next are on their way, and the column
// indices, bitmap and offset of the one after that.

#include "formats/base/registry.hpp"
#include "kernels/acc_spmm.hpp"
#include "kernels/gpu_spmm.hpp"
#include "kernels/precision.hpp"
#include "kernels/tf32_operands.cuh"
#include "kernels/window_tile.cuh"

namespace tessera {
namespace {

using window_tile::cell;
using window_tile::kTileCols;
using window_tile::View;

/// What the two k of a lane (t and t + 4) need of a TC block before its data can be loaded.
struct TileIndex {
  std::uint64_t bitmap;
  std::uint32_t first_value;
  std::int32_t col[2];
};

/// A lane's share of the operands: columns 4g to 4g + 3 of two rows of B, two cells of A.
struct TileData {
  float b[2][4];
  float a[2];
};

__device__ TileIndex load_index(const View& view, std::uint32_t tile, int t) {
  TileIndex index;
  index.bitmap = view.tc_local_bit[tile];
  index.first_value = view.tc_offset[tile];
  for (int half = 0; half < 2; ++half)
    index.col[half] = view.sparse_a_to_b[tile * std::int64_t{kTileCols} + t + 4 * half];
  return index;
}

/// Four columns of a row of B from `col` on; zeros beyond the edge and for a place without column.
template <bool kAligned>
__device__ void load_b(const View& view, const float* __restrict__ b, std::int32_t row,
                       std::int64_t col, float (&out)[4]) {
  const float* from = b + row * view.n + col;
  if constexpr (kAligned) {
    const float4 loaded =
        row >= 0 && col < view.n ? *reinterpret_cast<const float4*>(from) : float4{0, 0, 0, 0};
    out[0] = loaded.x, out[1] = loaded.y, out[2] = loaded.z, out[3] = loaded.w;
  } else {
    for (int i = 0; i < 4; ++i) out[i] = row >= 0 && col + i < view.n ? from[i] : 0.0f;
  }
}

template <bool kAligned>
__device__ TileData load_data(const View& view, const TileIndex& index, const float* b, int group,
                              int t, std::int64_t col) {
  TileData data;
  for (int half = 0; half < 2; ++half) {
    load_b<kAligned>(view, b, index.col[half], col, data.b[half]);
    data.a[half] = cell(index.bitmap, view.values, index.first_value, group, t + 4 * half);
  }
  return data;
}

template <Tf32Precision kPrecision>
__device__ void multiply(const TileData& data, float (&acc)[2][4]) {
  Tf32Operand<kPrecision, 2> tile;
  for (int half = 0; half < 2; ++half) tile.set(half, data.a[half]);
  window_tile::multiply(data.b, tile, acc);
}

/// A lane's sums while TC blocks go by: in the accumulators of the MMAs all the way, or added in
/// FP32 to nearest every so many TC blocks.
template <bool kPromotes>
class Sums {
 public:
  __device__ explicit Sums(int promote) : promote_(promote) {}

  template <Tf32Precision kPrecision>
  __device__ void add(const TileData& data) {
    multiply<kPrecision>(data, acc_);
    if constexpr (kPromotes)
      if (++tiles_ == promote_) move_on();
  }

  __device__ const float (&finish())[2][4] {
    if constexpr (!kPromotes) return acc_;
    move_on();
    return total_;
  }

 private:
  __device__ void move_on() {
    for (int mma = 0; mma < 2; ++mma) {
      for (int i = 0; i < 4; ++i) {
        total_[mma][i] += acc_[mma][i];
        acc_[mma][i] = 0;
      }
    }
    tiles_ = 0;
  }

  float acc_[2][4] = {};
  float total_[2][4] = {};  // no register without promotion
  int tiles_ = 0;
  int promote_;
};

template <bool kAligned>
__device__ void store_window(const View& view, float* __restrict__ c, std::int64_t window, int t,
                             std::int64_t col, const float (&acc)[2][4]) {
  window_tile::for_each_row(view, c, window, t, col, acc, [&](float* to, float4 values) {
    if constexpr (kAligned) {
      if (col < view.n) *reinterpret_cast<float4*>(to) = values;
    } else {
      const float each[4] = {values.x, values.y, values.z, values.w};
      for (int i = 0; i < 4; ++i)
        if (col + i < view.n) to[i] = each[i];
    }
  });
}

template <bool kAligned, Tf32Precision kPrecision, bool kPromotes>
__global__ void __launch_bounds__(acc_spmm::kThreads)
    multiply_windows(View view, int promote, const float* __restrict__ b, float* __restrict__ c) {
  const std::int64_t chunks = acc_spmm::num_col_chunks(view.n);
  const std::int64_t warp = std::int64_t{blockIdx.x} * acc_spmm::kWarps + threadIdx.x / 32;
  const std::int64_t window = warp / chunks;
  if (window >= view.windows) return;
  const int lane = static_cast<int>(threadIdx.x % 32), group = lane / 4, t = lane % 4;
  const std::int64_t col = warp % chunks * window_tile::kWarpCols + 4 * group;

  Sums<kPromotes> sums(promote);
  const std::uint32_t first = view.row_window_offset[window];
  const std::uint32_t last = view.row_window_offset[window + 1];
  if (first < last) {
    TileData data = load_data<kAligned>(view, load_index(view, first, t), b, group, t, col);
    TileIndex index = load_index(view, min(first + 1, last - 1), t);
    for (std::uint32_t tile = first; tile + 1 < last; ++tile) {
      const TileData next = load_data<kAligned>(view, index, b, group, t, col);
      index = load_index(view, min(tile + 2, last - 1), t);
      sums.template add<kPrecision>(data);
      data = next;
    }
    sums.template add<kPrecision>(data);
  }
  store_window<kAligned>(view, c, window, t, col, sums.finish());
}

using Kernel = void (*)(View, int, const float*, float*);

template <Tf32Precision kPrecision>
Kernel instance(bool aligned, bool promotes) {
  if (aligned)
    return promotes ? multiply_windows<true, kPrecision, true>
                    : multiply_windows<true, kPrecision, false>;
  return promotes ? multiply_windows<false, kPrecision, true>
                  : multiply_windows<false, kPrecision, false>;
}

Kernel instance(Tf32Precision precision, bool aligned, bool promotes) {
  switch (precision) {
    case Tf32Precision::kRounded:
      return instance<Tf32Precision::kRounded>(aligned, promotes);
    case Tf32Precision::kRaw:
      return instance<Tf32Precision::kRaw>(aligned, promotes);
    case Tf32Precision::kSplit:
      return instance<Tf32Precision::kSplit>(aligned, promotes);
  }
  return nullptr;
}

class AccMultiplication final : public GpuMultiplication {
 public:
  AccMultiplication(const BitTcf& a, std::int64_t n, const Precision& precision)
      : precision_(tf32_precision(precision.name)),
        promote_(precision.promote),
        a_(a),
        view_(a_.view(n)) {
    const std::int64_t warps = view_.windows * acc_spmm::num_col_chunks(n);
    thread_blocks_ = (warps + acc_spmm::kWarps - 1) / acc_spmm::kWarps;
    require<Unsupported>(thread_blocks_ <= 0x7fffffff,
                         "{} thread blocks are more than a grid holds", thread_blocks_);
  }

  void launch(int, const float* b, float* c, cudaStream_t stream) override {
    if (thread_blocks_ == 0) return;
    const bool aligned = window_tile::in_16_bytes(view_.n, b, c);
    instance(
        precision_, aligned,
        promote_ > 0)<<<static_cast<unsigned>(thread_blocks_), acc_spmm::kThreads, 0, stream>>>(
        view_, promote_, b, c);
    cuda_check(cudaGetLastError(), "launching acc_spmm");
  }

 private:
  Tf32Precision precision_;
  int promote_;
  window_tile::PackedOnDevice a_;
  View view_;
  std::int64_t thread_blocks_;
};

class GpuAccSpmm final : public GpuSpmm {
 public:
  explicit GpuAccSpmm(Precision precision) : precision_(std::move(precision)) {}
  std::unique_ptr<GpuMultiplication> upload(const PackedMatrix& packed,
                                            std::int64_t n) const override {
    return std::make_unique<AccMultiplication>(packed_as<BitTcf>(packed), n, precision_);
  }

 private:
  Precision precision_;
};

const Register<GpuSpmm> entry{{
    .name = "acc_spmm",
    .summary = "device half of acc_spmm",
    .make =
        [](const Params& params) {
          return std::make_unique<GpuAccSpmm>(
              find_precision(params.text("precision"), params.integer("promote")));
        },
}};

}  // namespace
}  // namespace tessera
