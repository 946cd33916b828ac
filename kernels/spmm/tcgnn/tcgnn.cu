// Device half of tcgnn: a thread block for a row window and some columns of C. See
// kernels/spmm/tcgnn/tcgnn.cpp.
//
// Eight threads look at the next edges of each of the window's rows, a TC block ahead. Those that
// belong to the TC block go to its tile in shared memory; the warps then copy its rows of B.

#include "formats/base/registry.hpp"
#include "kernels/gpu_spmm.hpp"
#include "kernels/spmm/row_windows/staged_rows.cuh"
#include "kernels/spmm/row_windows/window16_tile.cuh"
#include "kernels/spmm/tcgnn/tcgnn.hpp"

namespace tessera {
namespace {

using namespace tcgnn;
using window16_tile::kCells;
using window16_tile::kTileCols;
using window16_tile::kWarpCols;

struct KernelArguments {
  std::int64_t rows, n;
  std::uint32_t windows;
  const std::int32_t* row_offsets;      // [rows + 1]
  const std::int32_t* col_indices;      // [nnz]
  const std::int32_t* edge_to_column;   // [nnz]
  const std::int32_t* block_partition;  // [windows]
  const float* values;                  // [nnz]
  const float* b;
  float* c;
  Scaling scaling;
};

/// A TC block of A in shared memory, and the columns that it stands for.
struct Tile {
  float cells[kCells];
  std::int32_t cols[kTileCols];
};

/// What a thread has of the window's edges: one of the next eight of each of its rows.
template <int kWarps>
class EdgeReader {
 public:
  __device__ EdgeReader(const KernelArguments& product, std::uint32_t window) : product_(product) {
    for (int i = 0; i < kRounds; ++i) {
      const std::int64_t row = std::int64_t{window} * window16_tile::kWindowRows + id(i) / kEdges;
      next_[i] = end_[i] = 0;
      if (id(i) >= kCells || row >= product.rows) continue;
      next_[i] = product.row_offsets[row];
      end_[i] = product.row_offsets[row + 1];
    }
    load();
  }

  /// TC block `block` of the window to `tile`, which is clear; then the next edges begin to come.
  __device__ void scatter(int block, Tile& tile) {
    const int first = block * kTileCols;
    for (int i = 0; i < kRounds; ++i) {
      if (id(i) >= kCells) break;  // whole warps do
      const bool mine = edge(i) < end_[i] && place_[i] < first + kTileCols;
      if (mine) {
        const int col = place_[i] - first;
        tile.cells[window16_tile::place_of_cell(id(i) / kEdges * kTileCols + col)] =
            __uint_as_float(value_[i]);
        tile.cols[col] = col_[i];
      }
      const std::uint32_t of_row = __ballot_sync(~0u, mine) >> (threadIdx.x % 32 & ~7u) & 0xff;
      next_[i] += __popc(of_row);
    }
    load();
  }

  __device__ void clear(Tile& tile) const {
    for (int i = 0; i < kRounds; ++i)
      if (id(i) < kCells) tile.cells[id(i)] = 0;
    if (threadIdx.x < kTileCols) tile.cols[threadIdx.x] = kNoColumn;
  }

 private:
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kRounds = kThreads < kCells ? kCells / kThreads : 1;

  __device__ int id(int i) const { return static_cast<int>(threadIdx.x) + i * kThreads; }
  /// At most nnz + 7, which has no more bits than an unsigned number.
  __device__ std::uint32_t edge(int i) const { return next_[i] + threadIdx.x % kEdges; }

  __device__ void load() {
    for (int i = 0; i < kRounds; ++i) {
      if (edge(i) >= end_[i]) continue;
      place_[i] = load_ahead(product_.edge_to_column + edge(i));
      col_[i] = load_ahead(product_.col_indices + edge(i));
      value_[i] = load_ahead(reinterpret_cast<const std::uint32_t*>(product_.values) + edge(i));
    }
  }

  const KernelArguments& product_;
  std::uint32_t next_[kRounds], end_[kRounds];  // edges of the rows that are left
  std::int32_t place_[kRounds] = {}, col_[kRounds] = {};
  std::uint32_t value_[kRounds] = {};
};

/// sums = the window's TC blocks times the warp's columns of B.
template <bool kAligned, int kWarps>
__device__ void multiply_window(const KernelArguments& product, std::uint32_t window, int blocks,
                                std::int64_t first_col, int lane, Tile* tiles, float* stages,
                                window16_tile::Sums<1>& sums) {
  using Copier = row_windows::RowCopier<kAligned, 1, CopyCache::kL2>;
  constexpr int kPitch = row_windows::row_pitch(1), kStageFloats = kTileCols * kPitch;
  const bool has_cols = first_col < product.n;
  const Copier copier(nullptr, product.b, product.n, first_col, lane);
  EdgeReader<kWarps> edges(product, window);
  const auto copy_rows = [&](int block) {
    if (!has_cols) return;
    typename Copier::Rows rows;
    for (int i = 0; i < Copier::kSteps; ++i)
      rows.row[i] =
          tiles[block % kTiles].cols[i * Copier::kRowsAtOnce + lane / Copier::kLanesPerRow];
    copier.copy(rows, shared_address(stages + block % kStages * kStageFloats));
  };

  edges.clear(tiles[0]);
  edges.clear(tiles[1]);
  __syncthreads();
  edges.scatter(0, tiles[0]);
  __syncthreads();
  copy_rows(0);
  close_group();
  for (int block = 0; block < blocks; ++block) {
    if (block + 1 < blocks) edges.scatter(block + 1, tiles[(block + 1) % kTiles]);
    edges.clear(tiles[(block + 2) % kTiles]);  // multiplied before the last barrier
    __syncthreads();
    if (block + 1 < blocks) copy_rows(block + 1);
    close_group();
    wait_groups<1>();
    __syncwarp();  // all lanes' copies of this TC block's rows are there
    if (!has_cols) continue;
    const window16_tile::TileOperand<kTileCols> operand(tiles[block % kTiles].cells, lane);
    float b[2][4];
    for (int half = 0; half < 2; ++half)
      window16_tile::read_piece(
          stages + block % kStages * kStageFloats + (lane % 4 + 4 * half) * kPitch, lane, b[half]);
    window16_tile::multiply(operand, b, 0, sums);
  }
}

template <bool kAligned, int kWarps>
__global__ void __launch_bounds__(32 * kWarps) multiply(KernelArguments product) {
  __shared__ __align__(32) float stages[kWarps][kStages * kTileCols * row_windows::row_pitch(1)];
  __shared__ Tile tiles[kTiles];
  static_assert(sizeof stages + sizeof tiles == shared_bytes(kWarps), "what the launch says");
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  const std::uint32_t window = blockIdx.x % product.windows, chunk = blockIdx.x / product.windows;
  const std::int64_t first_col = (std::int64_t{chunk} * kWarps + warp) * kWarpCols;
  const int blocks = product.block_partition[window];
  window16_tile::Sums<1> sums = {};
  if (blocks > 0)
    multiply_window<kAligned, kWarps>(product, window, blocks, first_col, lane, tiles, stages[warp],
                                      sums);
  if (first_col < product.n)
    window16_tile::for_each_sum<4>(product.c, product.rows, product.n, window, first_col, lane,
                                   sums, [&](float* to, const float4& values, int cols) {
                                     store_16_bytes<kAligned>(to, values, cols, product.scaling);
                                   });
}

using Kernel = void (*)(KernelArguments);

Kernel kernel_of(int warps, bool aligned) {
  if (warps == 1) return aligned ? multiply<true, 1> : multiply<false, 1>;
  if (warps == 2) return aligned ? multiply<true, 2> : multiply<false, 2>;
  if (warps == 4) return aligned ? multiply<true, 4> : multiply<false, 4>;
  return aligned ? multiply<true, 8> : multiply<false, 8>;
}

class TcgnnMultiplication final : public GpuMultiplication {
 public:
  TcgnnMultiplication(const Tcf& a, std::int64_t n, int warps)
      : warps_(warps),
        row_offsets_(a.row_offsets),
        col_indices_(a.col_indices),
        edge_to_column_(a.edge_to_column),
        block_partition_(a.block_partition),
        values_(a.values),
        thread_blocks_(a.num_row_windows() * num_chunks(n, warps)) {
    check_blocks(a);
    require<Unsupported>(thread_blocks_ <= 0x7fffffff,
                         "{} thread blocks are more than a grid holds", thread_blocks_);
    require<Unsupported>(n <= 0x7fffffff, "{} columns of B are more than the kernels count", n);
    product_ = {.rows = a.rows(),
                .n = n,
                .windows = static_cast<std::uint32_t>(a.num_row_windows()),
                .row_offsets = row_offsets_.data(),
                .col_indices = col_indices_.data(),
                .edge_to_column = edge_to_column_.data(),
                .block_partition = block_partition_.data(),
                .values = values_.data(),
                .b = nullptr,
                .c = nullptr,
                .scaling = {}};
    load_now(kernel_of(warps, true), kernel_of(warps, false));
  }

  std::vector<int> registers() const override { return {registers_of(kernel_of(warps_, true))}; }

  void launch(int, const Operands& operands, cudaStream_t stream) override {
    if (thread_blocks_ == 0) return;
    KernelArguments product = product_;
    product.b = operands.b, product.c = operands.c, product.scaling = operands.scaling;
    kernel_of(
        warps_,
        aligned_to_16_bytes(
            product.n,
            operands))<<<static_cast<unsigned>(thread_blocks_), 32 * warps_, 0, stream>>>(product);
    cuda_check(cudaGetLastError(), "launching tcgnn");
  }

 private:
  int warps_;
  DeviceArray<std::int32_t> row_offsets_;
  DeviceArray<std::int32_t> col_indices_;
  DeviceArray<std::int32_t> edge_to_column_;
  DeviceArray<std::int32_t> block_partition_;
  DeviceArray<float> values_;
  std::int64_t thread_blocks_;
  KernelArguments product_ = {};
};

class GpuTcgnn final : public GpuSpmm {
 public:
  explicit GpuTcgnn(int warps) : warps_(warps) {}
  std::unique_ptr<GpuMultiplication> upload(const PackedMatrix& packed,
                                            std::int64_t n) const override {
    return std::make_unique<TcgnnMultiplication>(packed_as<Tcf>(packed), n, warps_);
  }

 private:
  int warps_;
};

const Register<GpuSpmm> entry{{
    .name = "tcgnn",
    .summary = "device half of tcgnn",
    .make =
        [](const Params& params) {
          return std::make_unique<GpuTcgnn>(static_cast<int>(params.integer("warps")));
        },
}};

}  // namespace
}  // namespace tessera
