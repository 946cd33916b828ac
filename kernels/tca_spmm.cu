// Device half of tca_spmm: dot products of a row of A and columns of B as traces of MMAs. See
// kernels/tca_spmm.cpp.
//
// The warps of a row copy a chunk's rows of B to shared memory together, a whole row of the tile by
// neighbouring lanes in pieces of 16 bytes, while the chunk before is multiplied. Columns of B are
// dealt to the fragments so that a lane reads four at once for two of them.

#include <cuda_fp16.h>

#include <climits>

#include "formats/base/registry.hpp"
#include "formats/csr.hpp"
#include "kernels/gpu_spmm.hpp"
#include "kernels/staged_tiles.cuh"
#include "kernels/tca_spmm.hpp"

namespace tessera {
namespace {

using namespace tca_spmm;
using window_tile::load_ahead;

struct View {
  std::int64_t n;
  int blocks;  // thread blocks of a tile of columns
  int warp_floats;
  const Task* tasks;                // [blocks * kWarps]
  const std::int64_t* row_offsets;  // [rows + 1]
  const std::int32_t* col_indices;  // [nnz]
  const float* values;              // [nnz]
};

/// Operands of m16n8k8 in TF32: a lane has depths t and t + 4.
template <Tf32Precision kPrecision>
struct Tf32Operands {
  static constexpr int depth(int t, int half) { return t + 4 * half; }
  static constexpr int t_of(int depth) { return depth % 4; }
  static constexpr int half_of(int depth) { return depth / 4; }

  Tf32Operand<kPrecision, 2> right;

  __device__ Tf32Operands(float low, float high) {
    right.set(0, low);
    right.set(1, high);
  }
  /// Values of rows g and g + 8 of the left operand, at both depths.
  __device__ void multiply(float (&d)[4], float2 low, float2 high) const {
    Tf32Operand<kPrecision, 4> left;
    left.set(0, low.x);
    left.set(1, low.y);
    left.set(2, high.x);
    left.set(3, high.y);
    mma_m16n8k8_swapped(d, left, right);
  }
};

/// In FP16: depths 2 t and 2 t + 1, in one register.
struct Fp16Operands {
  static constexpr int depth(int t, int half) { return 2 * t + half; }
  static constexpr int t_of(int depth) { return depth / 2; }
  static constexpr int half_of(int depth) { return depth % 2; }

  std::uint32_t right[1];

  __device__ Fp16Operands(float low, float high) : right{pack(low, high)} {}
  __device__ void multiply(float (&d)[4], float2 low, float2 high) const {
    const std::uint32_t left[2] = {pack(low.x, high.x), pack(low.y, high.y)};
    mma_m16n8k8_fp16(d, left, right);
  }
  __device__ static std::uint32_t pack(float low, float high) {
    const __half2 both = __floats2half2_rn(low, high);
    return *reinterpret_cast<const std::uint32_t*>(&both);
  }
};

/// The value, but as if it were new: what follows from it is worked out where it is needed, and not
/// kept in registers from one chunk to the next.
__device__ inline int anew(int value) {
  asm volatile("" : "+r"(value));
  return value;
}

/// The warps of a row, and what a lane of them is in an MMA.
struct Group {
  int p, log_p;
  int warps, warp;
  int id;       // of the thread among them
  int barrier;  // one of the 16 of a thread block; 0 is __syncthreads's
  int g, t;     // of the lane

  __device__ Group(const Task& task, int warp_of_block, int lane_of_warp)
      : p(task.p),
        log_p(log2_of(task.p)),
        warps(task.warps),
        warp(task.warp),
        id(32 * task.warp + lane_of_warp),
        barrier(1 + warp_of_block - task.warp),
        g(lane_of_warp / 4),
        t(lane_of_warp % 4) {}

  __device__ int r() const { return g & (p - 1); }
  __device__ int block() const { return g >> log_p; }
  __device__ void sync() const {
    if (warps == 1)
      __syncwarp();
    else
      asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(32 * warps) : "memory");
  }
};

/// A lane's part of the copies of a row's chunks: the same piece of every so many rows of B.
template <class Operands, int kCopies, bool kAligned>
class Copier {
 public:
  /// Columns [col, col + cols) of B.
  __device__ Copier(const View& view, const Group& group, const float* b, std::int64_t col,
                    int cols, int pitch)
      : chunk_size_(kDepth * group.p),
        p_(group.p),
        n_(static_cast<std::uint32_t>(view.n)),
        pitch_(pitch) {
    const int pieces = pieces_of(group.p, cols), log_pieces = log2_of(pieces);
    piece_ = group.id & (pieces - 1);
    first_ = group.id >> log_pieces;
    step_ = (32 * group.warps) >> log_pieces;
    cols_ = min(max(cols - 4 * piece_, 0), 4);
    b_ = b + col + (cols_ > 0 ? 4 * piece_ : 0);
  }

  /// Rows of B of a chunk with these column indices, `left` to the end of the row; -1 for none.
  __device__ void load_index(const std::int32_t* col_indices, int left,
                             std::int32_t (&rows)[kCopies]) const {
    const int real = min(left, chunk_size_), first = anew(first_);
    for (int i = 0; i < kCopies; ++i) {
      const int place = first + i * step_;
      rows[i] = place < real ? load_ahead(col_indices + place) : -1;
    }
  }

  __device__ void copy(const std::int32_t (&rows)[kCopies], float* stage) const {
    const int first = anew(first_);
    for (int i = 0; i < kCopies; ++i) {
      const int place = first + i * step_, depth = place % kDepth;
      if (place >= chunk_size_) break;
      const int at =
          place_of(p_, place / kDepth, Operands::t_of(depth), Operands::half_of(depth), pitch_);
      copy_piece(rows[i], stage + at + 4 * piece_);
    }
    staged_tiles::close_group();
  }

 private:
  /// Zeros where there is no row, or no column.
  __device__ void copy_piece(std::int32_t row, float* to) const {
    const float* from = b_ + std::uint64_t{static_cast<std::uint32_t>(max(row, 0))} * n_;
    if constexpr (kAligned) {
      staged_tiles::copy_async<16>(to, from, row >= 0 && cols_ > 0);
    } else {
      for (int i = 0; i < 4; ++i) {
        const bool real = row >= 0 && i < cols_;
        staged_tiles::copy_async<4>(to + i, real ? from + i : b_, real);
      }
    }
  }

  int chunk_size_, p_;
  std::uint32_t n_;
  int pitch_;
  int piece_;         // of a row of B
  int first_, step_;  // places of a chunk
  int cols_;          // of the piece, those within B
  const float* b_;    // the piece of row 0
};

/// The right operand of a chunk, `left` to the end of the row: column g repeats column g mod p.
template <class Operands>
__device__ void load_chunk(const float* values, int left, const Group& group, float (&a)[2]) {
  for (int half = 0; half < 2; ++half) {
    const int place = kDepth * group.r() + Operands::depth(group.t, half);
    const auto* from = reinterpret_cast<const std::int32_t*>(values + place);
    a[half] = place < left ? __int_as_float(load_ahead(from)) : 0.0f;
  }
}

/// The traces of a lane's fragments, and their way into a row of C. Partial sums of a block are
/// added with their neighbours, then pairs with pairs, then fours with fours.
class Traces {
 public:
  /// `row` has `cols` columns.
  __device__ Traces(const Group& group, float* row, int cols)
      : group_(group),
        row_(row),
        cols_(cols),
        odd_((group.g & 1) != 0),
        on_diagonal_(group.t == group.g / 2) {}

  /// Of two fragments with the columns from `col` on: a block of MMA rows has four in a row.
  template <bool kAligned>
  __device__ void store_two(const float (&d)[4], const float (&e)[4], int col) const {
    const int first = col + 4 * group_.block();
    if (group_.p == 1) {
      store_four<kAligned>(first, {upper(d), lower(d), upper(e), lower(e)});
      return;
    }
    const float sum = add_neighbours(d), other = add_neighbours(e);
    if (group_.p == 2) {
      store(first + odd_, sum);
      store(first + 2 + odd_, other);
      return;
    }
    // Lanes of odd pairs go on with the second fragment.
    const bool second = (group_.g & 2) != 0;
    const float pairs = add_pairs(second ? other : sum, second ? sum : other);
    if (group_.g < 4 || group_.p == 4) store(first + (group_.g & 3), pairs);
  }

  __device__ void store_one(const float (&d)[4], int col) const {
    const int first = col + 2 * group_.block();
    if (group_.p == 1) {
      store(first, upper(d));
      store(first + 1, lower(d));
      return;
    }
    float sum = add_neighbours(d);
    if (group_.p > 2) sum = add_pairs(sum, sum);
    if (group_.r() < 2) store(first + odd_, sum);
  }

 private:
  // Lane 4 g + g / 2 holds (g, g) and (g + 8, g) of the result, in the registers of its parity: on
  // the diagonal for every p, since the right operand repeats its p columns.
  __device__ float upper(const float (&d)[4]) const { return odd_ ? d[1] : d[0]; }
  __device__ float lower(const float (&d)[4]) const { return odd_ ? d[3] : d[2]; }

  // On the diagonal g ^ 1, g ^ 2 and g ^ 4 are lanes ^ 4, ^ 9 and ^ 18. Even lanes go on with the
  // upper block, odd ones with the lower.
  __device__ float add_neighbours(const float (&d)[4]) const {
    return (odd_ ? d[3] : d[0]) + __shfl_xor_sync(0xffffffff, odd_ ? d[1] : d[2], 4);
  }
  __device__ float add_pairs(float keep, float give) const {
    float sum = keep + __shfl_xor_sync(0xffffffff, give, 9);
    if (group_.p == 8) sum += __shfl_xor_sync(0xffffffff, sum, 18);
    return sum;
  }

  __device__ void store(int col, float value) const {
    if (on_diagonal_ && col < cols_) row_[col] = value;
  }
  template <bool kAligned>
  __device__ void store_four(int col, float4 values) const {
    if constexpr (kAligned) {
      if (on_diagonal_ && col < cols_) window_tile::store_16(row_ + col, values);
    } else {
      const float each[4] = {values.x, values.y, values.z, values.w};
      for (int i = 0; i < 4; ++i) store(col + i, each[i]);
    }
  }

  const Group& group_;
  float* row_;
  int cols_;
  bool odd_;
  bool on_diagonal_;
};

/// acc += a stage's rows of B times the chunk of A, in fragments [mine.first, mine.last).
template <class Operands, int kFragments>
__device__ void multiply(const float* stage, const Group& group, int pitch, const Fragments& mine,
                         const Operands& operands, float (&acc)[kFragments][4]) {
  pitch = anew(pitch);
  const float* low = stage + place_of(group.p, group.r(), group.t, 0, pitch);
  const float* high = stage + place_of(group.p, group.r(), group.t, 1, pitch);
  const int first = anew(mine.first);
  for (int f = 0; f < kFragments; f += 2) {
    const int fragment = first + f;
    if (fragment >= mine.last) break;
    const int col = fragment * (kMmaRows >> group.log_p);
    if (fragment + 1 < mine.last) {
      const int at = col + 4 * group.block();
      const float4 b = *reinterpret_cast<const float4*>(low + at);
      const float4 c = *reinterpret_cast<const float4*>(high + at);
      operands.multiply(acc[f], {b.x, b.y}, {c.x, c.y});
      operands.multiply(acc[f + 1], {b.z, b.w}, {c.z, c.w});
    } else {
      const int at = col + 2 * group.block();
      operands.multiply(acc[f], *reinterpret_cast<const float2*>(low + at),
                        *reinterpret_cast<const float2*>(high + at));
    }
  }
}

/// What is left of a row of A.
struct Row {
  const std::int32_t* col_indices;
  const float* values;
  int nnz;

  __device__ Row(const View& view, std::int32_t row)
      : Row(view, view.row_offsets[row], view.row_offsets[row + 1]) {}
  __device__ void drop(int count) {
    col_indices += count;
    values += count;
    nnz -= count;
  }

 private:
  __device__ Row(const View& view, std::int64_t first, std::int64_t last)
      : col_indices(view.col_indices + first),
        values(view.values + first),
        nnz(static_cast<int>(last - first)) {}
};

/// Columns [col, col + cols) of a row of C, by all warps of its group; `c` is the first.
template <class Operands, int kFragments, bool kAligned>
__device__ void multiply_row(const View& view, const Group& group, Row row, const float* b,
                             std::int64_t col, int cols, float* c, float* stages) {
  constexpr int kTileCols = kMmaRows * kFragments;
  const int pitch = group_cols(kTileCols, group.p, group.warps) + kPadding;
  const int size = kDepth * group.p;
  const Fragments mine = fragments_of(kTileCols, group.p, group.warps, group.warp, cols);
  const Copier<Operands, kFragments, kAligned> copier(view, group, b, col, cols, pitch);

  std::int32_t rows[kFragments];
  float acc[kFragments][4] = {};
  copier.load_index(row.col_indices, row.nnz, rows);
  if (row.nnz > 0) copier.copy(rows, stages);
  copier.load_index(row.col_indices + size, row.nnz - size, rows);
  for (int stage = 0; row.nnz > 0; stage ^= 1) {
    float a[2];
    load_chunk<Operands>(row.values, row.nnz, group, a);
    staged_tiles::wait_groups<0>();
    group.sync();  // all copies are there, and the other stage is free
    row.drop(size);
    if (row.nnz > 0) {
      copier.copy(rows, stages + (stage ^ 1) * size * pitch);
      copier.load_index(row.col_indices + size, row.nnz - size, rows);
    }
    multiply(stages + stage * size * pitch, group, pitch, mine, Operands(a[0], a[1]), acc);
  }

  const Traces traces(group, c, cols);
  for (int f = 0; f < kFragments; f += 2) {
    const int fragment = mine.first + f;
    if (fragment >= mine.last) break;
    const int at = fragment * (kMmaRows >> group.log_p);
    if (fragment + 1 < mine.last)
      traces.store_two<kAligned>(acc[f], acc[f + 1], at);
    else
      traces.store_one(acc[f], at);
  }
}

template <class Operands, int kFragments, bool kAligned>
__global__ void __launch_bounds__(kThreads, kFragments == 4 ? 3 : 2)
    multiply_rows(View view, const float* __restrict__ b, float* __restrict__ c) {
  extern __shared__ float4 shared[];
  constexpr int kTileCols = kMmaRows * kFragments;
  const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  const unsigned block = blockIdx.x % static_cast<unsigned>(view.blocks);
  const unsigned tile = blockIdx.x / static_cast<unsigned>(view.blocks);
  const Task task = view.tasks[std::int64_t{block} * kWarps + warp];
  if (task.row < 0) return;
  const Group group(task, warp, lane);
  float* stages = reinterpret_cast<float*>(shared) + (warp - task.warp) * view.warp_floats;
  const std::int64_t end = min(view.n, std::int64_t{kTileCols} * (tile + 1));
  const int step = group_cols(kTileCols, group.p, group.warps);
  for (std::int64_t col = std::int64_t{kTileCols} * tile; col < end; col += step) {
    const int cols = static_cast<int>(min(end - col, std::int64_t{step}));
    multiply_row<Operands, kFragments, kAligned>(view, group, Row(view, task.row), b, col, cols,
                                                 c + task.row * view.n + col, stages);
    if (col + step < end) group.sync();  // nobody reads the stages any more
  }
}

using Kernel = void (*)(View, const float*, float*);

template <class Operands>
Kernel instance(int tile_cols, bool aligned) {
  if (tile_cols == 64)
    return aligned ? multiply_rows<Operands, 4, true> : multiply_rows<Operands, 4, false>;
  return aligned ? multiply_rows<Operands, 8, true> : multiply_rows<Operands, 8, false>;
}

Kernel instance(std::string_view precision, int tile_cols, bool aligned) {
  if (precision == "fp16") return instance<Fp16Operands>(tile_cols, aligned);
  if (precision == "tf32_raw")
    return instance<Tf32Operands<Tf32Precision::kRaw>>(tile_cols, aligned);
  return instance<Tf32Operands<Tf32Precision::kRounded>>(tile_cols, aligned);
}

class TcaMultiplication final : public GpuMultiplication {
 public:
  TcaMultiplication(const CsrMatrix& a, std::int64_t n, const Options& options,
                    std::string_view precision)
      : TcaMultiplication(a, n, options.tile_cols, precision, plan(a, options)) {}

  std::vector<int> registers() const override { return {registers_of(kernels_[true])}; }

  void launch(int, const float* b, float* c, cudaStream_t stream) override {
    if (thread_blocks_ == 0) return;
    kernels_[window_tile::in_16_bytes(
        view_.n, b, c)]<<<static_cast<unsigned>(thread_blocks_), kThreads, shared_bytes_, stream>>>(
        view_, b, c);
    cuda_check(cudaGetLastError(), "launching tca_spmm");
  }

 private:
  TcaMultiplication(const CsrMatrix& a, std::int64_t n, int tile_cols, std::string_view precision,
                    const Plan& plan)
      : tasks_(plan.tasks),
        row_offsets_(a.row_offsets),
        col_indices_(a.col_indices),
        values_(a.values),
        thread_blocks_(plan.blocks() * ((n + tile_cols - 1) / tile_cols)),
        shared_bytes_(static_cast<std::size_t>(plan.shared_bytes())) {
    require<Unsupported>(n <= INT_MAX, "{} columns of B are more than the kernel counts", n);
    require<Unsupported>(thread_blocks_ <= INT_MAX, "{} thread blocks are more than a grid holds",
                         thread_blocks_);
    view_ = {.n = n,
             .blocks = static_cast<int>(plan.blocks()),
             .warp_floats = plan.warp_floats,
             .tasks = tasks_.data(),
             .row_offsets = row_offsets_.data(),
             .col_indices = col_indices_.data(),
             .values = values_.data()};
    for (const bool aligned : {false, true}) {
      kernels_[aligned] = instance(precision, tile_cols, aligned);
      cuda_check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernels_[aligned]),
                                      cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      static_cast<int>(shared_bytes_)),
                 "asking for shared memory");
    }
  }

  DeviceArray<Task> tasks_;
  DeviceArray<std::int64_t> row_offsets_;
  DeviceArray<std::int32_t> col_indices_;
  DeviceArray<float> values_;
  std::int64_t thread_blocks_;
  std::size_t shared_bytes_;
  View view_;
  Kernel kernels_[2];  // by alignment
};

class GpuTcaSpmm final : public GpuSpmm {
 public:
  explicit GpuTcaSpmm(const Params& params) : params_(params) {}
  std::unique_ptr<GpuMultiplication> upload(const PackedMatrix& packed,
                                            std::int64_t n) const override {
    return std::make_unique<TcaMultiplication>(packed_as<CsrPacked>(packed).matrix, n,
                                               options_of(params_), params_.text("precision"));
  }

 private:
  Params params_;
};

const Register<GpuSpmm> entry{{
    .name = "tca_spmm",
    .summary = "device half of tca_spmm",
    .make = [](const Params& params) { return std::make_unique<GpuTcaSpmm>(params); },
}};

}  // namespace
}  // namespace tessera
