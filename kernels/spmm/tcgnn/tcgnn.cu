// Device half of tcgnn: a thread block for a row window and some columns of C. See
// kernels/spmm/tcgnn/tcgnn.cpp.
//
// Eight threads examine the next edges of each of the window's rows, one TC block ahead. They write
// the edges that belong to the TC block to its tile in shared memory; the warps then copy its rows
// of B.

#include <cstddef>
#include <iterator>
#include <utility>

#include "formats/base/registry.hpp"
#include "kernels/gpu_spmm.hpp"
#include "kernels/spmm/row_windows/staged_rows.cuh"
#include "kernels/spmm/row_windows/window16_tile.cuh"
#include "kernels/spmm/tcgnn/tcgnn.hpp"

namespace tessera {
namespace {

using namespace tcgnn;
using window16_tile::Accumulators;

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

/// A TC block of A in shared memory, and its column indices.
struct Tile {
  float elements[kTileElements];
  std::int32_t cols[kTileCols];
};

/// A thread's edges of the window: one of the next eight of each of its rows.
template <int kWarps>
class EdgeReader {
 public:
  __device__ EdgeReader(const KernelArguments& arguments, std::uint32_t window)
      : arguments_(arguments) {
    for (int i = 0; i < kRounds; ++i) {
      const std::int64_t row = std::int64_t{window} * window16_tile::kWindowRows + id(i) / kEdges;
      next_[i] = end_[i] = 0;
      if (id(i) >= kTileElements || row >= arguments.rows) continue;
      next_[i] = arguments.row_offsets[row];
      end_[i] = arguments.row_offsets[row + 1];
    }
    load();
  }

  /// Writes TC block `block` of the window to `tile`, which is clear, and loads the next edges.
  __device__ void scatter(int block, Tile& tile) {
    const int first = block * kTileCols;
    for (int i = 0; i < kRounds; ++i) {
      if (id(i) >= kTileElements) break;  // uniform in a warp
      const bool mine = edge(i) < end_[i] && condensed_col_[i] < first + kTileCols;
      if (mine) {
        const int col = condensed_col_[i] - first;
        tile.elements[window16_tile::tile_position(id(i) / kEdges * kTileCols + col)] =
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
      if (id(i) < kTileElements) tile.elements[id(i)] = 0;
    if (threadIdx.x < kTileCols) tile.cols[threadIdx.x] = kNoColumn;
  }

 private:
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kRounds = kThreads < kTileElements ? kTileElements / kThreads : 1;

  __device__ int id(int i) const { return static_cast<int>(threadIdx.x) + i * kThreads; }
  /// At most nnz + 7, which an unsigned number holds.
  __device__ std::uint32_t edge(int i) const { return next_[i] + threadIdx.x % kEdges; }

  __device__ void load() {
    for (int i = 0; i < kRounds; ++i) {
      if (edge(i) >= end_[i]) continue;
      condensed_col_[i] = load_ahead(arguments_.edge_to_column + edge(i));
      col_[i] = load_ahead(arguments_.col_indices + edge(i));
      value_[i] = load_ahead(reinterpret_cast<const std::uint32_t*>(arguments_.values) + edge(i));
    }
  }

  const KernelArguments& arguments_;
  std::uint32_t next_[kRounds], end_[kRounds];  // the remaining edges of the rows
  std::int32_t condensed_col_[kRounds] = {}, col_[kRounds] = {};
  std::uint32_t value_[kRounds] = {};
};

/// sums = the window's TC blocks times the warp's columns of B.
template <bool kAligned, int kWarps>
__device__ void multiply_window(const KernelArguments& arguments, std::uint32_t window, int blocks,
                                std::int64_t first_col, int lane, Tile* tiles, float* stages,
                                Accumulators<1>& sums) {
  using Copier = row_windows::RowCopier<kAligned, 1, CopyCache::kL2>;
  constexpr int kPitch = row_windows::row_pitch(1);
  const bool has_cols = first_col < arguments.n;
  const Copier copier(nullptr, arguments.b, arguments.n, first_col, lane);
  EdgeReader<kWarps> edges(arguments, window);
  const auto copy_rows = [&](int block) {
    if (!has_cols) return;
    typename Copier::Rows rows;
    for (int i = 0; i < Copier::kSteps; ++i)
      rows.row[i] =
          tiles[block % kTiles].cols[i * Copier::kRowsAtOnce + lane / Copier::kLanesPerRow];
    copier.copy(rows, shared_address(stages + Schedule::stage_of(block)));
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
    edges.clear(tiles[(block + 2) % kTiles]);  // which was multiplied before the last barrier
    __syncthreads();
    if (block + 1 < blocks) copy_rows(block + 1);
    close_group();
    wait_groups<1>();
    __syncwarp();  // all lanes' copies of this TC block's rows are complete
    if (!has_cols) continue;
    const window16_tile::TileOperand<kTileCols> operand(tiles[block % kTiles].elements, lane);
    float b[2][4];
    for (int half = 0; half < 2; ++half)
      window16_tile::read_vector(
          stages + Schedule::stage_of(block) + (lane % 4 + 4 * half) * kPitch, lane, b[half]);
    window16_tile::multiply(operand, b, 0, sums);
  }
}

template <bool kAligned, int kWarps>
__global__ void __launch_bounds__(Schedule{kWarps}.threads()) multiply(KernelArguments arguments) {
  constexpr Schedule kSchedule{kWarps};
  __shared__ __align__(32) float stages[kWarps][kStages * row_windows::stage_floats(1)];
  __shared__ Tile tiles[kTiles];
  static_assert(sizeof stages + sizeof tiles == kSchedule.shared_bytes(),
                "the work description states this size");
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  const auto [window, first_col] = kSchedule.item_of(blockIdx.x, warp, arguments.windows);
  const int blocks = arguments.block_partition[window];
  Accumulators<1> sums = {};
  if (blocks > 0)
    multiply_window<kAligned, kWarps>(arguments, window, blocks, first_col, lane, tiles,
                                      stages[warp], sums);
  if (first_col < arguments.n)
    window16_tile::for_each_sum<4>(arguments.c, arguments.rows, arguments.n, window, first_col,
                                   lane, sums, [&](float* to, const float4& values, int cols) {
                                     store_16_bytes<kAligned>(to, values, cols, arguments.scaling);
                                   });
}

using Kernel = void (*)(KernelArguments);

/// The kernel for a number of warps of kWarpChoices.
Kernel kernel_of(int warps, bool aligned) {
  Kernel found = nullptr;
  [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
    ((kWarpChoices[kIndex] == warps
          ? static_cast<void>(found = aligned ? multiply<true, kWarpChoices[kIndex]>
                                              : multiply<false, kWarpChoices[kIndex]>)
          : static_cast<void>(0)),
     ...);
  }
  (std::make_index_sequence<std::size(kWarpChoices)>());
  return found;
}

class TcgnnMultiplication final : public GpuMultiplication {
 public:
  TcgnnMultiplication(const Tcf& a, std::int64_t n, const Schedule& schedule)
      : schedule_(schedule),
        row_offsets_(a.row_offsets),
        col_indices_(a.col_indices),
        edge_to_column_(a.edge_to_column),
        block_partition_(a.block_partition),
        values_(a.values),
        thread_blocks_(schedule.thread_blocks(a.num_row_windows(), n)) {
    check_blocks(a);
    require<Unsupported>(thread_blocks_ <= 0x7fffffff,
                         "{} thread blocks are more than a grid holds", thread_blocks_);
    require<Unsupported>(n <= 0x7fffffff, "{} columns of B are more than the kernel can count", n);
    arguments_ = {.rows = a.rows(),
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
    load_now(kernel(true), kernel(false));
  }

  std::vector<int> registers() const override { return {registers_of(kernel(true))}; }

  void launch(int, const Operands& operands, cudaStream_t stream) override {
    if (thread_blocks_ == 0) return;
    KernelArguments arguments = arguments_;
    arguments.b = operands.b_fp32(), arguments.c = operands.c_fp32(),
    arguments.scaling = operands.scaling;
    const Kernel multiply = kernel(aligned_to_16_bytes(arguments.n, operands));
    multiply<<<static_cast<unsigned>(thread_blocks_), schedule_.threads(), 0, stream>>>(arguments);
    cuda_check(cudaGetLastError(), "launching tcgnn");
  }

 private:
  Kernel kernel(bool aligned) const { return kernel_of(schedule_.warps, aligned); }

  Schedule schedule_;
  DeviceArray<std::int32_t> row_offsets_;
  DeviceArray<std::int32_t> col_indices_;
  DeviceArray<std::int32_t> edge_to_column_;
  DeviceArray<std::int32_t> block_partition_;
  DeviceArray<float> values_;
  std::int64_t thread_blocks_;
  KernelArguments arguments_ = {};
};

class GpuTcgnn final : public GpuSpmm {
 public:
  explicit GpuTcgnn(const TcgnnOptions& options) : options_(options) {}
  std::unique_ptr<GpuMultiplication> upload(const PackedMatrix& packed,
                                            std::int64_t n) const override {
    return std::make_unique<TcgnnMultiplication>(packed_as<Tcf>(packed), n, options_.schedule());
  }

 private:
  TcgnnOptions options_;
};

const Register<GpuSpmm> entry{{
    .name = "tcgnn",
    .summary = "device half of tcgnn",
    .make = [](const Params& params) { return std::make_unique<GpuTcgnn>(TcgnnOptions(params)); },
}};

}  // namespace
}  // namespace tessera
