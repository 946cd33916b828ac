// Device half of cutespmm: a team of warps per row panel and 128 columns. See kernels/cutespmm.cpp.
//
// Lane l has g = l / 4 and t = l % 4. A is the left operand, so that lane l wants bits l and l + 32
// of a brick (formats/hrpb.hpp). Of each row t of a brick's four rows of B it reads 16 bytes from
// shared memory, which are one column of each of four MMAs (place_of_piece).

#include <climits>

#include "formats/base/registry.hpp"
#include "kernels/add_16.cuh"
#include "kernels/cutespmm.hpp"
#include "kernels/gpu_spmm.hpp"
#include "kernels/staged_tiles.cuh"

namespace tessera {
namespace {

using namespace cute_spmm;
using staged_tiles::close_group;
using staged_tiles::copy_async;
using staged_tiles::wait_groups;
using window_tile::load_ahead;

constexpr int kBrickCols = Hrpb::kBrickCols, kBrickRows = Hrpb::kBrickRows;

struct View {
  std::int64_t rows, n;
  int tile_cols;
  std::uint32_t num_tasks;
  const Task* tasks;                  // [num_tasks]
  const std::uint8_t* packed_blocks;  // as in Hrpb
  const std::int32_t* active_cols;
  const std::uint32_t* size_ptr;
  Geometry geometry;
};

/// What a kernel is compiled for.
template <int kDepth_, int kWarpCols_, int kWarps_, int kBricks_, bool kRounds_>
struct Variant {
  static constexpr int kDepth = kDepth_;        // condensed columns of an MMA
  static constexpr int kWarpCols = kWarpCols_;  // columns of C of a warp
  static constexpr int kWarps = kWarps_;        // of a team
  static constexpr int kBricks = kBricks_;      // of a brick column: TM / 16
  static constexpr bool kRounds = kRounds_;     // operands to TF32, to nearest

  static constexpr int kThreads = 32 * kWarps;         // of a team
  static constexpr int kHalves = kDepth / kBrickCols;  // brick columns of an MMA
  static constexpr int kChunks = kWarpCols / kChunkCols;
  static constexpr int kPitch = kWarpCols * kWarps + kPad;
  static constexpr int kPieces = kWarpCols * kWarps / 4;  // 16-byte pieces of a row, a thread each
  // Of the four rows of a brick column, those that a thread copies a piece of: one after another.
  static constexpr int kRowsOfThread = kBrickCols * kPieces / kThreads;
  static constexpr int kMaxThreads = 4 * kThreads;
  // As many warps of an SM as leave the accumulators the registers that they need.
  static constexpr int kTiles = kChunks * kBricks;
  static constexpr int kWarpsOfSm = kTiles > 4                              ? 8
                                    : kTiles == 4 && kBricks + !kRounds > 1 ? 12
                                                                            : 16;
  static constexpr int kMinBlocks = kWarpsOfSm / (4 * kWarps);
};

template <class V>
__device__ void sync_team(int team) {
  if constexpr (V::kWarps == 1)
    __syncwarp();
  else
    asm volatile("bar.sync %0, %1;" ::"r"(team + 1), "n"(V::kThreads) : "memory");
}

__device__ void wait_for_stage(int stages) {
  if (stages == 2) return wait_groups<0>();
  if (stages == 3) return wait_groups<1>();
  wait_groups<2>();
}

/// What a lane has to know of a block before it can be copied: column `lane`, and the extent.
struct BlockIndex {
  std::int32_t col;
  std::uint32_t first_byte, last_byte;
};

/// The copies of blocks, a thread's part of them.
template <class V>
class Copier {
 public:
  /// For columns of B from first_col on; `index` is shared memory of the warp.
  __device__ Copier(const View& view, const float* b, std::int64_t first_col, bool aligned,
                    int thread, std::int32_t* index)
      : view_(view),
        aligned_(aligned),
        thread_(thread),
        index_(index),
        row_bytes_(4 * static_cast<std::int32_t>(view.n)) {
    const std::int64_t col = first_col + 4 * (thread % V::kPieces);
    cols_ = static_cast<int>(min(max(view.n - col, std::int64_t{0}), std::int64_t{4}));
    b_ = reinterpret_cast<const char*>(b + (cols_ > 0 ? col : 0));
  }

  __device__ BlockIndex load_index(std::uint32_t block) const {
    const int lane = thread_ % 32;
    std::int32_t col = kNoColumn;
    if (lane < view_.tile_cols)
      col = load_ahead(view_.active_cols + std::int64_t{block} * view_.tile_cols + lane);
    return {col, load_ahead(view_.size_ptr + block), load_ahead(view_.size_ptr + block + 1)};
  }

  /// The block's rows of B and its own bytes. All threads of the team call it. Rows that fill up an
  /// MMA are zeros; those beyond that are left as they are, and nobody reads them.
  __device__ void copy(const BlockIndex& block, float* rows, std::uint8_t* bytes) const {
    __syncwarp();  // nobody reads the last block's index any more
    index_[thread_ % 32] = max(block.col, 0);
    const int cols = __popc(__ballot_sync(~0u, block.col >= 0));
    __syncwarp();
    if (aligned_)
      copy_rows<true>(cols, rows);
    else
      copy_rows<false>(cols, rows);
    const std::uint8_t* packed = view_.packed_blocks + block.first_byte;
    const auto size = static_cast<int>(block.last_byte - block.first_byte);
#pragma unroll 1
    for (int at = 16 * thread_; at < size; at += 16 * V::kThreads)
      copy_async<16>(bytes + at, packed + at, true);
  }

 private:
  template <bool kAligned>
  __device__ void copy_rows(int cols, float* rows) const {
    constexpr int kRows = V::kRowsOfThread;
    const int slot = thread_ / V::kPieces * kRows;
    float* to = rows + slot * V::kPitch + thread_ % V::kPieces * 4;
#pragma unroll 1
    for (int first = 0; first < cols; first += V::kDepth) {
#pragma unroll
      for (int half = 0; half < V::kHalves; ++half) {
        const int place = first + half * kBrickCols + slot;
        std::int32_t from[kRows];
        load_rows(place, from);
#pragma unroll
        for (int i = 0; i < kRows; ++i)
          copy_row<kAligned>(from[i], place + i < cols, to + (half * kBrickCols + i) * V::kPitch);
      }
      to += V::kDepth * V::kPitch;
    }
  }

  template <int kCount>
  __device__ void load_rows(int first, std::int32_t (&rows)[kCount]) const {
    if constexpr (kCount == 4) {
      const int4 all = *reinterpret_cast<const int4*>(index_ + first);
      rows[0] = all.x, rows[1] = all.y, rows[2] = all.z, rows[3] = all.w;
    } else {
      for (int i = 0; i < kCount; ++i) rows[i] = index_[first + i];
    }
  }

  /// Four columns of a row of B, or zeros where it is not real.
  template <bool kAligned>
  __device__ void copy_row(std::int32_t row, bool real, float* to) const {
    const char* from = b_ + std::int64_t{row} * row_bytes_;
    if constexpr (kAligned) {
      copy_async<16>(to, from, real && cols_ > 0);
    } else {
      for (int i = 0; i < 4; ++i) {
        const bool within = real && i < cols_;
        copy_async<4>(to + i, within ? from + 4 * i : b_, within);
      }
    }
  }

  const View& view_;
  bool aligned_;
  int thread_;              // of the team
  std::int32_t* index_;     // [kMaxTileCols]
  std::int32_t row_bytes_;  // of B
  int cols_;                // of the thread's four, those within B
  const char* b_;           // the thread's columns of row 0
};

/// A lane's sums: [brick row][chunk, MMA of it][values of the accumulator].
template <class V>
using Sums = float[V::kBricks][4 * V::kChunks][4];

/// The MMA reads the upper 19 bits only: adding half of the last one's unit rounds to nearest, ties
/// away from zero, as cvt.rna.tf32 does in more cycles. A NaN must have its mark in the upper bits,
/// as all have that arithmetic makes.
template <bool kRounds>
__device__ std::uint32_t operand(float value) {
  const std::uint32_t bits = __float_as_uint(value);
  if constexpr (!kRounds) return bits;
  return fabsf(value) < __int_as_float(0x7f800000) ? bits + 0x1000 : bits;
}

/// The bricks of a block's brick columns, one after another.
template <int kBricks>
class BrickReader {
 public:
  __device__ BrickReader(const std::uint8_t* bytes, int brick_cols)
      : col_ptr_(reinterpret_cast<const std::uint32_t*>(bytes)),
        brick_cols_(brick_cols),
        count_(static_cast<int>(col_ptr_[brick_cols])),
        patterns_(reinterpret_cast<const uint2*>(bytes + (4 * (brick_cols + 1) + 7) / 8 * 8)),
        rows_(reinterpret_cast<const std::uint32_t*>(patterns_ + count_)),
        values_(reinterpret_cast<const float*>(rows_ + count_)) {}

  /// Whether brick column `col` has a brick. Those that have come first.
  __device__ bool has(int col) const {
    if constexpr (kBricks == 1) return col < count_;  // one each
    return col < brick_cols_ && static_cast<int>(col_ptr_[col]) < count_;
  }

  /// The lane's elements (a0, a1) of every brick of a brick column, zeros where there is no brick.
  /// Columns are asked for in ascending order.
  template <bool kRounds>
  __device__ void next(int col, int lane, std::uint32_t (&a)[kBricks][2],
                       bool (&present)[kBricks]) {
#pragma unroll
    for (int r = 0; r < kBricks; ++r) {
      const uint2 pattern = of_row(col, r);
      present[r] = (pattern.x | pattern.y) != 0;
      const std::uint32_t below = (1u << lane) - 1;
      const int low = __popc(pattern.x);
      const float a0 = values_[__popc(pattern.x & below)];
      const float a1 = values_[low + __popc(pattern.y & below)];
      a[r][0] = operand<kRounds>((pattern.x >> lane & 1) != 0 ? a0 : 0.0f);
      a[r][1] = operand<kRounds>((pattern.y >> lane & 1) != 0 ? a1 : 0.0f);
      values_ += low + __popc(pattern.y);
    }
  }

 private:
  __device__ uint2 of_row(int col, int row) {
    if constexpr (kBricks == 1) return col < count_ ? patterns_[col] : uint2{0, 0};
    const bool is_here = brick_ < count_ && col < brick_cols_ &&
                         brick_ < static_cast<int>(col_ptr_[col + 1]) &&
                         static_cast<int>(rows_[brick_]) == row;
    return is_here ? patterns_[brick_++] : uint2{0, 0};
  }

  const std::uint32_t* col_ptr_;
  int brick_cols_;
  int count_;
  const uint2* patterns_;
  const std::uint32_t* rows_;
  const float* values_;  // of the next brick
  int brick_ = 0;        // the next
};

template <class V>
__device__ void multiply(float (&sum)[4], const std::uint32_t (&a)[V::kHalves][2],
                         const std::uint32_t (&b)[V::kHalves]) {
  if constexpr (V::kDepth == 4)
    mma_m16n8k4_tf32(sum, a[0], b);
  else
    mma_m16n8k8_tf32(sum, {a[0][0], a[0][1], a[1][0], a[1][1]}, b);
}

/// The warp's columns of a staged block's rows of B times the block.
template <class V>
__device__ void multiply_block(const std::uint8_t* bytes, const float* rows, int tile_cols,
                               int lane, Sums<V>& sums) {
  BrickReader<V::kBricks> bricks(bytes, tile_cols / kBrickCols);
  const float* from = rows + lane % 4 * V::kPitch + 4 * place_of_piece(lane / 4);
  for (int col = 0; bricks.has(col); col += V::kHalves) {
    std::uint32_t a[V::kBricks][V::kHalves][2];
    bool present[V::kBricks] = {};
#pragma unroll
    for (int half = 0; half < V::kHalves; ++half) {
      std::uint32_t of_column[V::kBricks][2];
      bool here[V::kBricks];
      bricks.template next<V::kRounds>(col + half, lane, of_column, here);
      for (int r = 0; r < V::kBricks; ++r) {
        a[r][half][0] = of_column[r][0], a[r][half][1] = of_column[r][1];
        present[r] |= here[r];
      }
    }
#pragma unroll
    for (int chunk = 0; chunk < V::kChunks; ++chunk) {
      std::uint32_t b[4][V::kHalves];
#pragma unroll
      for (int half = 0; half < V::kHalves; ++half) {
        const float4 piece = *reinterpret_cast<const float4*>(from + half * kBrickCols * V::kPitch +
                                                              chunk * kChunkCols);
        b[0][half] = operand<V::kRounds>(piece.x), b[1][half] = operand<V::kRounds>(piece.y);
        b[2][half] = operand<V::kRounds>(piece.z), b[3][half] = operand<V::kRounds>(piece.w);
      }
#pragma unroll
      for (int r = 0; r < V::kBricks; ++r) {
        if (V::kBricks > 1 && !present[r]) continue;
#pragma unroll
        for (int j = 0; j < 4; ++j) multiply<V>(sums[r][4 * chunk + j], a[r], b[j]);
      }
    }
    from += V::kDepth * V::kPitch;
  }
}

enum class Put { kPieces, kElements, kAdd };

/// A lane's four values of a row of C, stored or added to it as far as there are columns.
template <Put kPut>
__device__ void put(float* to, float4 values, std::int64_t cols, bool aligned) {
  if constexpr (kPut == Put::kPieces) {
    if (cols > 0) window_tile::store_16(to, values);
  } else if constexpr (kPut == Put::kAdd) {
    add_atomically(to, values, cols, aligned);
  } else {
    const float each[4] = {values.x, values.y, values.z, values.w};
    for (int i = 0; i < 4; ++i)
      if (i < cols) to[i] = each[i];
  }
}

/// The warp's columns of the panel's C, from first_col on.
template <class V, Put kPut>
__device__ void put_panel(const View& view, const Task& task, float* c, std::int64_t first_col,
                          int lane, bool aligned, const Sums<V>& sums) {
#pragma unroll
  for (int r = 0; r < 2 * V::kBricks; ++r) {
    const std::int64_t row =
        std::int64_t{task.panel} * (V::kBricks * kBrickRows) + 8 * r + lane / 4;
    if (row >= view.rows) return;
    float* to = c + row * view.n;
#pragma unroll
    for (int chunk = 0; chunk < V::kChunks; ++chunk) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const auto& of = sums[r / 2];
        const int value = 2 * (r % 2) + i, mma = 4 * chunk;
        const std::int64_t col =
            first_col + chunk * kChunkCols + 4 * (lane % 4 + 4 * i);  // place_of_piece(2t + i)
        put<kPut>(to + col,
                  {of[mma][value], of[mma + 1][value], of[mma + 2][value], of[mma + 3][value]},
                  view.n - col, aligned);
      }
    }
  }
}

/// A team's blocks through its stages: while one is multiplied, stages - 1 are on their way, and
/// the index of one more. With one stage, each is waited for.
template <class V>
class Pipeline {
 public:
  __device__ Pipeline(const View& view, const Copier<V>& copier, const Task& task,
                      unsigned char* stages, int team)
      : copier_(copier),
        stages_(stages),
        stage_bytes_(view.geometry.stage_bytes()),
        rows_bytes_(4 * V::kPitch * view.geometry.stage_rows),
        count_(view.geometry.stages),
        next_(task.first),
        last_(task.last),
        team_(team),
        index_(copier.load_index(task.first)) {
    for (int i = 0; i + 1 < count_; ++i) copy();
  }

  /// The next block is in the current stage when this returns.
  __device__ void advance() {
    if (count_ == 1) {
      sync_team<V>(team_);
      copy();
      wait_groups<0>();
      sync_team<V>(team_);
      return;
    }
    wait_for_stage(count_);
    sync_team<V>(team_);  // all threads' copies are there, and the stage before is free
    copy();
    from_ = from_ + 1 == count_ ? 0 : from_ + 1;
  }

  __device__ const float* rows() const {
    return reinterpret_cast<const float*>(stages_ + current() * stage_bytes_);
  }
  __device__ const std::uint8_t* bytes() const {
    return stages_ + current() * stage_bytes_ + rows_bytes_;
  }

 private:
  __device__ int current() const { return count_ == 1 ? 0 : (from_ == 0 ? count_ : from_) - 1; }

  /// The next block to the next stage; past the last one an empty group, for the count's sake.
  __device__ void copy() {
    if (next_ < last_) {
      unsigned char* stage = stages_ + to_ * stage_bytes_;
      copier_.copy(index_, reinterpret_cast<float*>(stage), stage + rows_bytes_);
      ++next_;
      if (next_ < last_) index_ = copier_.load_index(next_);
    }
    close_group();
    to_ = to_ + 1 == count_ ? 0 : to_ + 1;
  }

  const Copier<V>& copier_;
  unsigned char* stages_;
  int stage_bytes_, rows_bytes_, count_;
  std::uint32_t next_, last_;  // blocks: the next to copy, and beyond the last
  int team_;
  BlockIndex index_;  // of the next
  int to_ = 0;        // the stage it goes to
  int from_ = 0;      // the stage after the one that is multiplied
};

template <class V>
__global__ void __launch_bounds__(V::kMaxThreads, V::kMinBlocks)
    multiply_panels(View view, const float* __restrict__ b, float* __restrict__ c, bool aligned) {
  extern __shared__ __align__(16) unsigned char shared[];
  const Geometry& geometry = view.geometry;
  const int team = static_cast<int>(threadIdx.x) / V::kThreads;
  const int thread = static_cast<int>(threadIdx.x) % V::kThreads, lane = thread % 32;
  const std::uint32_t groups = (view.num_tasks - 1) / geometry.teams + 1;
  const std::uint32_t id = blockIdx.x % groups * geometry.teams + team;
  if (id >= view.num_tasks) return;
  const Task task = view.tasks[id];
  const std::int64_t first_col = blockIdx.x / groups * std::int64_t{V::kWarpCols * V::kWarps};
  unsigned char* stages = shared + team * geometry.team_bytes();
  auto* index = reinterpret_cast<std::int32_t*>(stages + geometry.stages * geometry.stage_bytes()) +
                thread / 32 * kMaxTileCols;

  Sums<V> sums = {};
  const int warp_col = thread / 32 * V::kWarpCols;
  if (task.first < task.last) {
    const Copier<V> copier(view, b, first_col, aligned, thread, index);
    Pipeline<V> pipeline(view, copier, task, stages, team);
    for (std::uint32_t block = task.first; block < task.last; ++block) {
      pipeline.advance();
      multiply_block<V>(pipeline.bytes(), pipeline.rows() + warp_col, view.tile_cols, lane, sums);
    }
  }
  const std::int64_t col = first_col + warp_col;
  if (task.is_part != 0)
    put_panel<V, Put::kAdd>(view, task, c, col, lane, aligned, sums);
  else if (aligned)
    put_panel<V, Put::kPieces>(view, task, c, col, lane, aligned, sums);
  else
    put_panel<V, Put::kElements>(view, task, c, col, lane, aligned, sums);
}

/// Zeros in the row panels that several tasks add to, a thread block for each.
__global__ void __launch_bounds__(kClearThreads)
    clear_panels(const std::uint32_t* panels, int tile_rows, std::int64_t rows, std::int64_t n,
                 float* c) {
  const std::int64_t first = std::int64_t{panels[blockIdx.x]} * tile_rows;
  const std::int64_t end = min(first + tile_rows, rows) * n;
  for (std::int64_t at = first * n + threadIdx.x; at < end; at += kClearThreads) c[at] = 0;
}

using Kernel = void (*)(View, const float*, float*, bool);

template <int kDepth, int kBricks, bool kRounds>
Kernel instance(int warp_cols, int warps) {
  if (warp_cols == 128) return multiply_panels<Variant<kDepth, 128, 1, kBricks, kRounds>>;
  if (warp_cols == 64)
    return warps == 1 ? multiply_panels<Variant<kDepth, 64, 1, kBricks, kRounds>>
                      : multiply_panels<Variant<kDepth, 64, 2, kBricks, kRounds>>;
  if (warps == 1) return multiply_panels<Variant<kDepth, 32, 1, kBricks, kRounds>>;
  return warps == 2 ? multiply_panels<Variant<kDepth, 32, 2, kBricks, kRounds>>
                    : multiply_panels<Variant<kDepth, 32, 4, kBricks, kRounds>>;
}

template <int kDepth, int kBricks>
Kernel instance(const Geometry& geometry, bool rounds) {
  return rounds ? instance<kDepth, kBricks, true>(geometry.warp_cols, geometry.warps)
                : instance<kDepth, kBricks, false>(geometry.warp_cols, geometry.warps);
}

Kernel instance(const Geometry& geometry, const Options& options, int tile_rows) {
  if (tile_rows == kBrickRows)
    return options.depth == 4 ? instance<4, 1>(geometry, options.rounds)
                              : instance<8, 1>(geometry, options.rounds);
  return options.depth == 4 ? instance<4, 2>(geometry, options.rounds)
                            : instance<8, 2>(geometry, options.rounds);
}

class CuteMultiplication final : public GpuMultiplication {
 public:
  CuteMultiplication(const Hrpb& a, std::int64_t n, const Options& options)
      : rows_(a.rows()),
        n_(n),
        tile_rows_(a.tile_rows),
        tile_cols_(a.tile_cols),
        geometry_(geometry(a, n, options)),
        kernel_(instance(geometry_, options, a.tile_rows)),
        packed_blocks_(a.packed_blocks),
        active_cols_(a.active_cols),
        size_ptr_(a.size_ptr) {
    require<Unsupported>(n <= INT_MAX / 4, "{} columns of B are more than cutespmm counts", n);
    const std::vector<Task> tasks = plan_tasks(a, n, options);
    tasks_ = DeviceArray<Task>(tasks);
    split_ = DeviceArray<std::uint32_t>(split_panels(tasks));
    const auto groups = (std::ssize(tasks) + geometry_.teams - 1) / geometry_.teams;
    thread_blocks_ = groups * geometry_.num_chunks(n);
    require<Unsupported>(thread_blocks_ <= INT_MAX, "{} thread blocks are more than a grid holds",
                         thread_blocks_);
    allow_shared_memory();
  }

  std::vector<int> registers() const override {
    std::vector<int> of_launches;
    if (split_.size() > 0) of_launches.push_back(registers_of(clear_panels));
    of_launches.push_back(registers_of(kernel_));
    return of_launches;
  }

  void launch(int, const float* b, float* c, cudaStream_t stream) override {
    if (thread_blocks_ == 0) return;
    if (split_.size() > 0)
      clear_panels<<<static_cast<unsigned>(split_.size()), kClearThreads, 0, stream>>>(
          split_.data(), tile_rows_, rows_, n_, c);
    const View view{rows_,
                    n_,
                    tile_cols_,
                    static_cast<std::uint32_t>(tasks_.size()),
                    tasks_.data(),
                    packed_blocks_.data(),
                    active_cols_.data(),
                    size_ptr_.data(),
                    geometry_};
    kernel_<<<static_cast<unsigned>(thread_blocks_), static_cast<unsigned>(geometry_.threads()),
              static_cast<std::size_t>(geometry_.shared_bytes()), stream>>>(
        view, b, c, window_tile::in_16_bytes(n_, b, c));
    cuda_check(cudaGetLastError(), "launching cutespmm");
  }

 private:
  void allow_shared_memory() const {
    int device = 0, most = 0;
    cuda_check(cudaGetDevice(&device), "asking for the device");
    cuda_check(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
               "asking for its shared memory");
    require<Unsupported>(geometry_.shared_bytes() <= most,
                         "cutespmm: {} bytes of shared memory, where a thread block has {} at most",
                         geometry_.shared_bytes(), most);
    const auto* kernel = reinterpret_cast<const void*>(kernel_);
    cuda_check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    geometry_.shared_bytes()),
               "asking for shared memory");
    cuda_check(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                    cudaSharedmemCarveoutMaxShared),
               "asking for shared memory");
  }

  std::int64_t rows_, n_;
  int tile_rows_, tile_cols_;
  Geometry geometry_;
  Kernel kernel_;
  DeviceArray<std::uint8_t> packed_blocks_;
  DeviceArray<std::int32_t> active_cols_;
  DeviceArray<std::uint32_t> size_ptr_;
  DeviceArray<Task> tasks_;
  DeviceArray<std::uint32_t> split_;
  std::int64_t thread_blocks_ = 0;
};

class GpuCuteSpmm final : public GpuSpmm {
 public:
  explicit GpuCuteSpmm(const Options& options) : options_(options) {}
  std::unique_ptr<GpuMultiplication> upload(const PackedMatrix& packed,
                                            std::int64_t n) const override {
    return std::make_unique<CuteMultiplication>(packed_as<Hrpb>(packed), n, options_);
  }

 private:
  Options options_;
};

const Register<GpuSpmm> entry{{
    .name = "cutespmm",
    .summary = "device half of cutespmm",
    .make =
        [](const Params& params) { return std::make_unique<GpuCuteSpmm>(read_options(params)); },
}};

}  // namespace
}  // namespace tessera
