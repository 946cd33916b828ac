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
  int n;  // what a grid holds tiles of columns for: four times that is below 2^31
  int warp_floats;
  const Task* tasks;                // [thread blocks of a tile of columns * kWarps]
  const std::int64_t* row_offsets;  // [rows + 1]
  const std::int32_t* col_indices;  // [nnz]
  const float* values;              // [nnz]
};

/// Operands of m16n8k8 in TF32: a lane has depths t and t + 4.
template <Tf32Precision kPrecision>
struct Tf32Operands {
  static constexpr int depth(int t, int half) { return t + 4 * half; }
  static constexpr int t_of(unsigned depth) { return depth % 4; }
  static constexpr int half_of(unsigned depth) { return depth / 4; }

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
  static constexpr int t_of(unsigned depth) { return depth / 2; }
  static constexpr int half_of(unsigned depth) { return depth % 2; }

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
template <class T>
__device__ T anew(T value) {
  asm volatile("" : "+r"(value));
  return value;
}

/// The warps of a row, and what a lane of them is in an MMA.
struct Group {
  int log_p, log_warps;
  int warp;
  int barrier;  // one of the 16 of a thread block; 0 is __syncthreads's
  int g, t;     // of the lane

  __device__ Group(const Task& task, int warp_of_block, int lane)
      : log_p(task.log_p),
        log_warps(task.log_warps),
        warp(task.warp),
        barrier(1 + warp_of_block - task.warp),
        g(lane / 4),
        t(lane % 4) {}

  __device__ int chunk_size() const { return kDepth << log_p; }
  __device__ int r() const { return g & ((1 << log_p) - 1); }
  __device__ int block() const { return g >> log_p; }
  /// Of the thread among the warps.
  __device__ int id() const { return 32 * warp + 4 * g + t; }
  __device__ void sync() const {
    if (log_warps == 0)
      __syncwarp();
    else
      asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(32 << log_warps) : "memory");
  }
};

/// A lane's part of the copies of a row's chunks: the same piece of every so many rows of B.
template <class Operands, int kCopies, bool kAligned>
class Copier {
 public:
  /// Columns [col, col + cols) of B.
  __device__ Copier(const View& view, const Group& group, const float* b, int col, int cols,
                    int pitch)
      : chunk_size_(static_cast<unsigned>(group.chunk_size())),
        log_p_(group.log_p),
        stride_(4u * static_cast<unsigned>(view.n)),
        pitch_(pitch) {
    const int log_pieces = log_pieces_of(group.log_p, cols);
    const auto id = static_cast<unsigned>(group.id());
    piece_ = static_cast<int>(id & ((1u << log_pieces) - 1));
    first_ = id >> log_pieces;
    step_ = (32u << group.log_warps) >> log_pieces;
    cols_ = min(max(cols - 4 * piece_, 0), 4);
    b_ = reinterpret_cast<const char*>(b + col + (cols_ > 0 ? 4 * piece_ : 0));
  }

  /// Rows of B of a chunk with these column indices, `left` to the end of the row; -1 for none.
  __device__ void load_index(const std::int32_t* col_indices, int left,
                             std::int32_t (&rows)[kCopies]) const {
    const unsigned real = min(static_cast<unsigned>(left), chunk_size_), first = anew(first_);
    for (int i = 0; i < kCopies; ++i) {
      const unsigned place = first + i * step_;
      rows[i] = place < real ? load_ahead(col_indices + place) : -1;
    }
  }

  __device__ void copy(const std::int32_t (&rows)[kCopies], float* stage) const {
    const unsigned first = anew(first_);
    for (int i = 0; i < kCopies; ++i) {
      const unsigned place = first + i * step_, depth = place % kDepth;
      if (place >= chunk_size_) break;
      const int at = place_of(log_p_, static_cast<int>(place / kDepth), Operands::t_of(depth),
                              Operands::half_of(depth), pitch_);
      copy_piece(rows[i], stage + at + 4 * piece_);
    }
    staged_tiles::close_group();
  }

 private:
  /// Zeros where there is no row, or no column.
  __device__ void copy_piece(std::int32_t row, float* to) const {
    const bool is_row = row >= 0;
    const char* from =
        b_ + std::uint64_t{is_row ? static_cast<std::uint32_t>(row) : 0u} * std::uint64_t{stride_};
    if constexpr (kAligned) {
      staged_tiles::copy_async<16>(to, from, is_row && cols_ > 0);
    } else {
      for (int i = 0; i < 4; ++i) {
        const bool real = is_row && i < cols_;
        staged_tiles::copy_async<4>(to + i, real ? from + 4 * i : b_, real);
      }
    }
  }

  unsigned chunk_size_;
  int log_p_;
  unsigned stride_;  // of B, bytes
  int pitch_;
  int piece_;              // of a row of B
  unsigned first_, step_;  // places of a chunk
  int cols_;               // of the piece, those within B
  const char* b_;          // the piece of row 0
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
    if (group_.log_p == 0) {
      store_four<kAligned>(first, {upper(d), lower(d), upper(e), lower(e)});
      return;
    }
    const float sum = add_neighbours(d), other = add_neighbours(e);
    if (group_.log_p == 1) {
      store(first + odd_, sum);
      store(first + 2 + odd_, other);
      return;
    }
    // Lanes of odd pairs go on with the second fragment.
    const bool second = (group_.g & 2) != 0;
    const float pairs = add_pairs(second ? other : sum, second ? sum : other);
    if (group_.g < 4 || group_.log_p == 2) store(first + (group_.g & 3), pairs);
  }

  __device__ void store_one(const float (&d)[4], int col) const {
    const int first = col + 2 * group_.block();
    if (group_.log_p == 0) {
      store(first, upper(d));
      store(first + 1, lower(d));
      return;
    }
    float sum = add_neighbours(d);
    if (group_.log_p > 1) sum = add_pairs(sum, sum);
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
    if (group_.log_p == 3) sum += __shfl_xor_sync(0xffffffff, sum, 18);
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
  const float* low = stage + place_of(group.log_p, group.r(), group.t, 0, pitch);
  const float* high = stage + place_of(group.log_p, group.r(), group.t, 1, pitch);
  const int first = anew(mine.first);
  for (int f = 0; f < kFragments; f += 2) {
    const int fragment = first + f;
    if (fragment >= mine.last) break;
    const int col = cols_of(group.log_p, fragment);
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
__device__ void multiply_row(const View& view, const Group& group, Row row, const float* b, int col,
                             int cols, float* c, float* stages) {
  constexpr int kTileCols = kMmaRows * kFragments;
  const int pitch = pitch_of(kTileCols, group.log_p, group.log_warps);
  const int size = group.chunk_size();
  const Fragments mine = fragments_of(kTileCols, group.log_p, group.log_warps, group.warp, cols);
  const Copier<Operands, kFragments, kAligned> copier(view, group, b, col, cols, pitch);

  std::int32_t rows[kFragments];
  float acc[kFragments][4] = {};
  copier.load_index(row.col_indices, row.nnz, rows);
  float a[2];
  load_chunk<Operands>(row.values, row.nnz, group, a);
  if (row.nnz > 0) copier.copy(rows, stages);
  if (row.nnz > size) copier.load_index(row.col_indices + size, row.nnz - size, rows);
  for (int stage = 0; row.nnz > 0; stage ^= 1) {
    staged_tiles::wait_groups<0>();
    group.sync();  // all copies are there, and the other stage is free
    const Operands operands(a[0], a[1]);
    row.drop(size);
    if (row.nnz > 0) {
      copier.copy(rows, stages + (stage ^ 1) * size * pitch);
      if (row.nnz > size) copier.load_index(row.col_indices + size, row.nnz - size, rows);
      load_chunk<Operands>(row.values, row.nnz, group, a);
    }
    multiply(stages + stage * size * pitch, group, pitch, mine, operands, acc);
  }

  const Traces traces(group, c, cols);
  for (int f = 0; f < kFragments; f += 2) {
    const int fragment = mine.first + f;
    if (fragment >= mine.last) break;
    const int at = cols_of(group.log_p, fragment);
    if (fragment + 1 < mine.last)
      traces.store_two<kAligned>(acc[f], acc[f + 1], at);
    else
      traces.store_one(acc[f], at);
  }
}

/// All of it at once.
__device__ Task load_task(const Task* from) {
  const int2 words = *reinterpret_cast<const int2*>(from);
  Task task;
  task.row = words.x;
  task.log_p = static_cast<std::uint8_t>(words.y);
  task.log_warps = static_cast<std::uint8_t>(words.y >> 8);
  task.warp = static_cast<std::uint8_t>(words.y >> 16);
  return task;
}

template <class Operands, int kFragments, bool kAligned>
__global__ void __launch_bounds__(kThreads, kFragments == 4 ? 3 : 2)
    multiply_rows(View view, const float* __restrict__ b, float* __restrict__ c) {
  extern __shared__ float4 shared[];
  constexpr int kTileCols = kMmaRows * kFragments;
  const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  const Task task = load_task(view.tasks + std::int64_t{blockIdx.x} * kWarps + warp);
  if (task.row < 0) return;
  const Group group(task, warp, lane);
  float* stages = reinterpret_cast<float*>(shared) + (warp - task.warp) * view.warp_floats;
  const int first = kTileCols * static_cast<int>(blockIdx.y), end = min(view.n, first + kTileCols);
  const int step = group_cols(kTileCols, group.log_p, group.log_warps);
  for (int col = first; col < end; col += step) {
    multiply_row<Operands, kFragments, kAligned>(view, group, Row(view, task.row), b, col,
                                                 min(end - col, step),
                                                 c + std::int64_t{task.row} * view.n + col, stages);
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
    if (grid_.x == 0 || grid_.y == 0) return;
    const Kernel kernel = kernels_[window_tile::in_16_bytes(view_.n, b, c)];
    kernel<<<grid_, kThreads, shared_bytes_, stream>>>(view_, b, c);
    cuda_check(cudaGetLastError(), "launching tca_spmm");
  }

 private:
  TcaMultiplication(const CsrMatrix& a, std::int64_t n, int tile_cols, std::string_view precision,
                    const Plan& plan)
      : tasks_(plan.tasks),
        row_offsets_(a.row_offsets),
        col_indices_(a.col_indices),
        values_(a.values),
        shared_bytes_(static_cast<std::size_t>(plan.shared_bytes())) {
    const std::int64_t tiles = (n + tile_cols - 1) / tile_cols;
    require<Unsupported>(tiles <= 65535, "tca_spmm takes at most {} columns of B, not {}",
                         std::int64_t{65535} * tile_cols, n);
    require<Unsupported>(plan.blocks() <= INT_MAX, "{} thread blocks are more than a grid holds",
                         plan.blocks());
    grid_ = dim3(static_cast<unsigned>(plan.blocks()), static_cast<unsigned>(tiles));
    view_ = {.n = static_cast<int>(n),
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
  std::size_t shared_bytes_;
  dim3 grid_;
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
