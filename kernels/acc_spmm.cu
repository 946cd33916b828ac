// Device half of acc_spmm: one warp per 8-row window and 32 columns of C. See kernels/acc_spmm.cpp.
//
// While the MMAs of one TC block run, the rows of B of the next are on their way, and the column
// indices, bitmap and offset of the one after that.

#include "formats/base/registry.hpp"
#include "formats/bit_tcf.hpp"
#include "kernels/acc_spmm.hpp"
#include "kernels/gpu_spmm.hpp"
#include "kernels/precision.hpp"
#include "kernels/tf32_operands.cuh"

namespace tessera {
namespace {

using acc_spmm::kTileCols;
using acc_spmm::kWindowRows;

struct View {
  std::int64_t rows;
  std::int64_t n;
  std::int64_t windows;
  const std::uint32_t* row_window_offset;  // [windows + 1]
  const std::uint32_t* tc_offset;          // [tc_blocks + 1]
  const std::int32_t* sparse_a_to_b;       // [tc_blocks * 8]
  const std::uint64_t* tc_local_bit;       // [tc_blocks]
  const float* values;                     // [nnz]
};

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

/// Cell (row, col) of the TC block: its value, or zero where the bitmap has none.
__device__ float load_a(const View& view, const TileIndex& index, int row, int col) {
  const int bit = row * kTileCols + col;
  if ((index.bitmap >> bit & 1) == 0) return 0;
  const int rank = __popcll(index.bitmap & ((1ull << bit) - 1));
  return view.values[index.first_value + rank];
}

template <bool kAligned>
__device__ TileData load_data(const View& view, const TileIndex& index, const float* b, int group,
                              int t, std::int64_t col) {
  TileData data;
  for (int half = 0; half < 2; ++half) {
    load_b<kAligned>(view, b, index.col[half], col, data.b[half]);
    data.a[half] = load_a(view, index, group, t + 4 * half);
  }
  return data;
}

/// Two products: 32 columns of C (rows of the swapped product) times the TC block.
template <Tf32Precision kPrecision>
__device__ void multiply(const TileData& data, float (&acc)[2][4]) {
  Tf32Operand<kPrecision, 2> tile;
  for (int half = 0; half < 2; ++half) tile.set(half, data.a[half]);
  for (int mma = 0; mma < 2; ++mma) {
    // Register r holds MMA row g + 8 (r % 2), which stands for column 4g + 2 mma + r % 2 of B
    // (acc_spmm::col_of_mma_row), and depth t + 4 (r / 2).
    Tf32Operand<kPrecision, 4> columns;
    for (int r = 0; r < 4; ++r) columns.set(r, data.b[r / 2][2 * mma + r % 2]);
    mma_m16n8k8_swapped(acc[mma], columns, tile);
  }
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

/// acc[mma][2 i + j] is C's row 2t + j of the window, column 4g + 2 mma + i of the warp's 32.
template <bool kAligned>
__device__ void store(const View& view, float* __restrict__ c, std::int64_t window, int t,
                      std::int64_t col, const float (&acc)[2][4]) {
  for (int j = 0; j < 2; ++j) {
    const std::int64_t row = window * kWindowRows + 2 * t + j;
    if (row >= view.rows) continue;
    float* to = c + row * view.n + col;
    const float values[4] = {acc[0][j], acc[0][2 + j], acc[1][j], acc[1][2 + j]};
    if constexpr (kAligned) {
      if (col < view.n)
        *reinterpret_cast<float4*>(to) = float4{values[0], values[1], values[2], values[3]};
    } else {
      for (int i = 0; i < 4; ++i)
        if (col + i < view.n) to[i] = values[i];
    }
  }
}

template <bool kAligned, Tf32Precision kPrecision, bool kPromotes>
__global__ void __launch_bounds__(acc_spmm::kThreads)
    multiply_windows(View view, int promote, const float* __restrict__ b, float* __restrict__ c) {
  const std::int64_t chunks = acc_spmm::num_col_chunks(view.n);
  const std::int64_t warp = std::int64_t{blockIdx.x} * acc_spmm::kWarps + threadIdx.x / 32;
  const std::int64_t window = warp / chunks;
  if (window >= view.windows) return;
  const int lane = static_cast<int>(threadIdx.x % 32), group = lane / 4, t = lane % 4;
  const std::int64_t col = warp % chunks * acc_spmm::kWarpCols + 4 * group;

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
  store<kAligned>(view, c, window, t, col, sums.finish());
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
        row_window_offset_(a.row_window_offset),
        tc_offset_(a.tc_offset),
        sparse_a_to_b_(a.sparse_a_to_b),
        tc_local_bit_(a.tc_local_bit),
        values_(a.values),
        view_{a.rows(),
              n,
              a.num_row_windows(),
              row_window_offset_.data(),
              tc_offset_.data(),
              sparse_a_to_b_.data(),
              tc_local_bit_.data(),
              values_.data()} {
    const std::int64_t warps = view_.windows * acc_spmm::num_col_chunks(n);
    thread_blocks_ = (warps + acc_spmm::kWarps - 1) / acc_spmm::kWarps;
    require<Unsupported>(thread_blocks_ <= 0x7fffffff,
                         "{} thread blocks are more than a grid holds", thread_blocks_);
  }

  void launch(int, const float* b, float* c, cudaStream_t stream) override {
    if (thread_blocks_ == 0) return;
    // 16-byte pieces of every row need n % 4 == 0; both arrays come from cudaMalloc or a piece of
    // one, whose alignment the caller vouches for only up to a float.
    const bool aligned = view_.n % 4 == 0 && reinterpret_cast<std::uintptr_t>(b) % 16 == 0 &&
                         reinterpret_cast<std::uintptr_t>(c) % 16 == 0;
    instance(
        precision_, aligned,
        promote_ > 0)<<<static_cast<unsigned>(thread_blocks_), acc_spmm::kThreads, 0, stream>>>(
        view_, promote_, b, c);
    cuda_check(cudaGetLastError(), "launching acc_spmm");
  }

 private:
  Tf32Precision precision_;
  int promote_;
  DeviceArray<std::uint32_t> row_window_offset_;
  DeviceArray<std::uint32_t> tc_offset_;
  DeviceArray<std::int32_t> sparse_a_to_b_;
  DeviceArray<std::uint64_t> tc_local_bit_;
  DeviceArray<float> values_;
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
