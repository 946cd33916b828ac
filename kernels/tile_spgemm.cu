// Device half of tile_spgemm: tiles made from CSR, the tiles of C and their pairs listed, cells
// found and placed, sums made. The host waits four times: for the numbers of tiles of A and B, of
// tasks, of tiles of C, and of C's nonzeros. See kernels/tile_spgemm.cpp.

#include <algorithm>
#include <climits>
#include <cub/device/device_scan.cuh>
#include <optional>

#include "formats/base/registry.hpp"
#include "kernels/gpu_spgemm.hpp"
#include "kernels/mma.cuh"
#include "kernels/tile_spgemm_pairs.cuh"

namespace tessera {
namespace {

using namespace tile_spgemm;
using row_spgemm::blocks_for;
using row_spgemm::RowTasks;

constexpr int kBatch = 32;  // pairs fetched at a time, by a warp

/// Four rows of a tile of A, or four columns of one of B.
struct alignas(8) HalfTile {
  std::uint32_t bitmap, first_value;
};

/// A tile as lanes read it: each needs one half, and has no more than 32 bits to count.
struct alignas(16) StagedTile {
  HalfTile halves[2];

  StagedTile() = default;
  __device__ explicit StagedTile(const Tile& tile) {
    const auto low = static_cast<std::uint32_t>(tile.bitmap);
    halves[0] = {low, tile.first_value};
    halves[1] = {static_cast<std::uint32_t>(tile.bitmap >> 32),
                 tile.first_value + static_cast<std::uint32_t>(__popc(low))};
  }
};

/// The tiles that a pair multiplies.
struct Operands {
  StagedTile a, b;
};

/// A lane's two neighbouring values of a tile: row lane / 4 of A, column lane / 4 of B, at inner
/// indices 2 (lane % 4) and one more.
template <class Value>
struct Neighbours {
  Value low, high;

  __device__ Neighbours(const StagedTile& tile, const Value* __restrict__ values) {
    const int lane = static_cast<int>(threadIdx.x) % 32, bit = lane % 16 * 2;
    const HalfTile half = tile.halves[lane / 16];
    const std::uint32_t bits = half.bitmap >> bit & 3;
    const Value* first =
        values +
        (half.first_value + static_cast<std::uint32_t>(__popc(half.bitmap & ((1u << bit) - 1))));
    low = (bits & 1) != 0 ? first[0] : Value{0};
    high = (bits & 2) != 0 ? first[bits & 1] : Value{0};
  }
};

/// A fragment of two TF32 values in one part or two. Rounded to nearest, ties away from zero, as
/// cvt.rna does; upload() has seen to it that they are finite, and stay so.
template <bool kSplits>
struct Fragment {
  std::uint32_t large[2], small[2] = {0, 0};

  __device__ explicit Fragment(const Neighbours<float>& values) {
    set(0, values.low);
    set(1, values.high);
  }

 private:
  __device__ void set(int index, float value) {
    // The MMA takes no notice of the last 13 bits.
    constexpr std::uint32_t kHalf = 1u << 12, kKept = ~((1u << 13) - 1);
    large[index] = (__float_as_uint(value) + kHalf) & kKept;
    if constexpr (kSplits)
      small[index] = __float_as_uint(value - __uint_as_float(large[index])) + kHalf;
  }
};

/// Sums of a warp's tile of C by MMAs: a lane's are cells 2 lane and one more.
template <Numbers kNumbers>
struct Sums {
  using Value = float;
  static constexpr bool kSplits = kNumbers == Numbers::kTf32x3;
  float sums[4] = {0, 0, 0, 0};  // of A's large parts, of its small ones

  __device__ void add(const Operands* pair, const float* a, const float* b) {
    const Fragment<kSplits> left(Neighbours<float>(pair->a, a)),
        right(Neighbours<float>(pair->b, b));
    const std::uint32_t rows[4] = {left.large[0], left.small[0], left.large[1], left.small[1]};
    // The small products first: they must not meet a sum that has no place for them.
    if constexpr (kSplits) mma_m16n8k8_tf32(sums, rows, right.small);
    mma_m16n8k8_tf32(sums, rows, right.large);
  }

  __device__ float sum(int cell) const {
    return kSplits ? __fadd_rn(sums[cell], sums[2 + cell]) : sums[cell];
  }
};

/// The same of two pairs a step.
template <>
struct Sums<Numbers::kFp16> {
  using Value = std::uint16_t;
  float sums[4] = {0, 0, 0, 0};

  static __device__ std::uint32_t fragment_of(const StagedTile& tile, const Value* from) {
    const Neighbours<Value> values(tile, from);
    return values.low | std::uint32_t{values.high} << 16;
  }

  __device__ void add(const Operands* pairs, const Value* a, const Value* b) {
    const std::uint32_t rows[4] = {fragment_of(pairs[0].a, a), 0, fragment_of(pairs[1].a, a), 0};
    const std::uint32_t cols[2] = {fragment_of(pairs[0].b, b), fragment_of(pairs[1].b, b)};
    mma_m16n8k16_fp16(sums, rows, cols);
  }

  __device__ float sum(int cell) const { return sums[cell]; }
};

/// What becomes of sums, and where.
struct Output {
  const std::int64_t* row_offsets;  // [rows + 1]
  std::int32_t* cols;               // nullptr where they are written
  float* values;
  float alpha;
  const std::uint32_t* largest;  // [2] magnitudes of A and B, as bits; nullptr: not scaled

  __device__ double factor() const {
    if (largest == nullptr) return 1;
    return ldexp(1.0, -scaling_exponent(__uint_as_float(largest[0])) -
                          scaling_exponent(__uint_as_float(largest[1])));
  }
};

/// Writes a lane's two cells of a tile.
template <class Sums>
__device__ void store_cells(const Sums& sums, const TilesOfCView& c, std::int64_t at,
                            const Output& output) {
  const int bit = static_cast<int>(threadIdx.x) % 32 * 2, row = bit / kSide, first = bit % kSide;
  const std::uint64_t bitmap = c.bitmaps[at];
  const auto bits = static_cast<std::uint32_t>(bitmap >> bit) & 3;
  if (bits == 0) return;
  const auto before = static_cast<std::uint32_t>(bitmap >> kSide * row) & ((1u << first) - 1);
  std::int64_t place = output.row_offsets[std::int64_t{c.tiles[at].tile_row} * kSide + row] +
                       c.cells_before[kSide * at + row] + __popc(before);
  const double factor = output.factor();
#pragma unroll
  for (int cell = 0; cell < 2; ++cell) {
    if ((bits >> cell & 1) == 0) continue;
    const float value = unscaled(sums.sum(cell), factor);
    if (output.cols != nullptr) output.cols[place] = c.cols[at] * kSide + first + cell;
    output.values[place] = output.alpha == 1 ? value : output.alpha * value;
    ++place;
  }
}

/// A warp for every tile of C.
template <Numbers kNumbers>
__global__ void __launch_bounds__(kThreads)
    multiply_tiles(TilesOfCView c, TilesIn<typename Sums<kNumbers>::Value> a,
                   TilesIn<typename Sums<kNumbers>::Value> b, Output output) {
  const std::int64_t at = global_thread() / 32;
  if (at >= c.count) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  __shared__ Operands all_batches[kThreads];  // [warps][kBatch]
  Operands* batch = all_batches + (threadIdx.x - lane);
  const TileOfC tile = c.tiles[at];
  Sums<kNumbers> sums;
  for (int begin = 0; begin < tile.pairs; begin += kBatch) {
    Operands own{};  // empty ones past the end
    if (begin + lane < tile.pairs) {
      const Pair pair = c.pairs[tile.first_pair + begin + lane];
      own = {StagedTile(a.tiles[pair.a]), StagedTile(b.tiles[pair.b])};
    }
    __syncwarp();
    batch[lane] = own;
    __syncwarp();
    const int pairs = min(tile.pairs - begin, kBatch);
#pragma unroll 2
    for (int i = 0; i < pairs; i += pairs_of_mma(kNumbers)) sums.add(batch + i, a.values, b.values);
  }
  __syncwarp();
  store_cells(sums, c, at, output);
}

void check_launch() { cuda_check(cudaGetLastError(), "launching tile_spgemm"); }

/// to[i] = from[0] + ... + from[i - 1], i in [0, count).
template <class To>
cudaError_t running_sum(void* scratch, std::size_t& bytes, const std::int32_t* from, To* to,
                        std::int64_t count, cudaStream_t stream) {
  return cub::DeviceScan::ExclusiveScan(scratch, bytes, from, to, cuda::std::plus<To>{}, To{0},
                                        count, stream);
}

/// Arrays that are as long as A and B have rows, or tile rows.
struct RowArrays {
  RowArrays(ProductRun& run, const CsrView& a, const CsrView& b) {
    std::size_t narrow = 0, wide = 0;
    const std::int64_t most = std::max({a.tile_rows, b.tile_rows, a.rows}) + std::int64_t{1};
    cuda_check(running_sum<std::int32_t>(nullptr, narrow, nullptr, nullptr, most, run.stream()),
               "sizing a scan");
    cuda_check(running_sum<std::int64_t>(nullptr, wide, nullptr, nullptr, most, run.stream()),
               "sizing a scan");
    const std::int64_t scratch_bytes = static_cast<std::int64_t>(std::max(narrow, wide));
    const std::int64_t rows = std::int64_t{a.rows} + 1, tile_rows = std::int64_t{a.tile_rows} + 1;
    const std::int64_t b_rows = std::int64_t{b.tile_rows} + 1;
    const std::int64_t at_counts = block.place<std::int32_t>(most);
    const std::int64_t at_a = block.place<std::int32_t>(tile_rows);
    const std::int64_t at_b = block.place<std::int32_t>(b_rows);
    const std::int64_t at_first = block.place<std::int64_t>(tile_rows);
    const std::int64_t at_offsets = block.place<std::int64_t>(rows);
    const std::int64_t at_found = block.place<Found>(1);
    const std::int64_t at_scratch = block.place<std::byte>(scratch_bytes);
    block.take(run);
    counts = block.array<std::int32_t>(at_counts, most);
    a_begins = block.array<std::int32_t>(at_a, tile_rows);
    b_begins = block.array<std::int32_t>(at_b, b_rows);
    first_tiles = block.array<std::int64_t>(at_first, tile_rows);
    row_offsets = block.array<std::int64_t>(at_offsets, rows);
    found = block.array<Found>(at_found, 1).data();
    scratch = block.array<std::byte>(at_scratch, scratch_bytes);
  }

  /// The first so many counts, summed up.
  template <class To>
  void sum_counts(To* to, std::int64_t count, cudaStream_t stream) const {
    auto bytes = static_cast<std::size_t>(scratch.size());
    cuda_check(running_sum(scratch.data(), bytes, counts.data(), to, count, stream), "scanning");
  }

  RunBlock block;
  RunArray<std::int32_t> counts;       // for use meanwhile
  RunArray<std::int32_t> a_begins;     // [tile rows of A + 1] of its tiles
  RunArray<std::int32_t> b_begins;     // [tile rows of B + 1]
  RunArray<std::int64_t> first_tiles;  // [tile rows of A + 1] of C's tiles
  RunArray<std::int64_t> row_offsets;  // [rows of A + 1] of C
  Found* found;                        // [1]
  RunArray<std::byte> scratch;         // of scans
};

/// A by rows and B by columns.
template <class Value>
struct TileArrays {
  TileArrays(ProductRun& run, const CsrView& a, const CsrView& b, std::int64_t tiles_of_a,
             std::int64_t tiles_of_b, bool is_square, bool with_places) {
    const std::int64_t at_a = block.place<Tile>(tiles_of_a), at_b = block.place<Tile>(tiles_of_b);
    const std::int64_t at_a_cols = block.place<std::int32_t>(tiles_of_a);
    const std::int64_t at_b_cols = is_square ? at_a_cols : block.place<std::int32_t>(tiles_of_b);
    const std::int64_t at_a_values = block.place<Value>(a.nonzeros);
    const std::int64_t at_b_values = block.place<Value>(b.nonzeros);
    const std::int64_t a_places = with_places ? a.nonzeros : 0,
                       b_places = with_places ? b.nonzeros : 0;
    const std::int64_t at_a_places = block.place<std::uint32_t>(a_places);
    const std::int64_t at_b_places = block.place<std::uint32_t>(b_places);
    block.take(run);
    a_tiles = block.array<Tile>(at_a, tiles_of_a);
    b_tiles = block.array<Tile>(at_b, tiles_of_b);
    a_cols = block.array<std::int32_t>(at_a_cols, tiles_of_a);
    b_cols = block.array<std::int32_t>(at_b_cols, tiles_of_b);
    a_values = block.array<Value>(at_a_values, a.nonzeros);
    b_values = block.array<Value>(at_b_values, b.nonzeros);
    by_rows = {a_tiles.data(), a_values.data(),
               block.array<std::uint32_t>(at_a_places, a_places).data()};
    by_cols = {b_tiles.data(), b_values.data(),
               block.array<std::uint32_t>(at_b_places, b_places).data()};
  }

  RunBlock block;
  RunArray<Tile> a_tiles, b_tiles;        // [tiles]
  RunArray<std::int32_t> a_cols, b_cols;  // [tiles]; the same where B is A
  RunArray<Value> a_values, b_values;     // [nonzeros]
  TilesOut<Value> by_rows, by_cols;       // of A; of B
};

/// The tiles of C, and room for so many pairs.
struct ListArrays {
  ListArrays(ProductRun& run, std::int64_t tiles, std::int64_t most_pairs) {
    const std::int64_t at_tiles = block.place<TileOfC>(tiles);
    const std::int64_t at_bitmaps = block.place<std::uint64_t>(tiles);
    const std::int64_t at_pairs = block.place<Pair>(most_pairs);
    const std::int64_t at_cols = block.place<std::int32_t>(tiles);
    const std::int64_t at_cells = block.place<std::uint32_t>(kSide * tiles);
    block.take(run);
    view = {tiles,
            block.array<TileOfC>(at_tiles, tiles).data(),
            block.array<std::int32_t>(at_cols, tiles).data(),
            block.array<std::uint64_t>(at_bitmaps, tiles).data(),
            block.array<std::uint32_t>(at_cells, kSide * tiles).data(),
            block.array<Pair>(at_pairs, most_pairs).data()};
  }

  RunBlock block;
  TilesOfCView view;
};

CsrView view_of(const DeviceCsr& csr) {
  return {csr.rows,
          tiles_across(csr.rows),
          csr.nnz,
          csr.row_offsets.data(),
          csr.col_indices.data(),
          csr.values.data()};
}

template <Numbers kNumbers>
class TileProduct final : public GpuSparseProduct {
 public:
  TileProduct(const CsrMatrix& a, const CsrMatrix& b, bool reuse)
      : reuse_(reuse), a_(a), rows_(a.rows), cols_(b.cols) {
    if (&a != &b) b_.emplace(b);
  }

  void multiply(float alpha, ProductRun& run) override {
    const CsrView a = view_of(a_), b = view_of(b_ ? *b_ : a_);
    if (a.nonzeros == 0 || b.nonzeros == 0) return make_empty(run);
    run.stage("tiles");
    RowArrays rows(run, a, b);
    TileArrays<Value> tiles = make_tiles(a, b, rows, run);
    run.stage("tasks");
    RowTasks::Work work(run, view_of_tiles(a, b, rows, tiles));
    tasks_.analyse(work, run);
    run.stage("tiles of C");
    tasks_.count(work, run);
    ListArrays lists = make_lists(work, rows, run);
    run.stage("pairs");
    list_all_pairs(work, tiles, lists, rows, run);
    run.stage("cells");
    make_c(a, tiles, lists, rows, run);
    run.stage("multiplication");
    fill_c(alpha, tiles, lists, rows, true, run);
    if (reuse_) kept_.emplace(std::move(rows), std::move(tiles), std::move(lists));
  }

  bool keeps_structure() const override { return reuse_; }

  void multiply_again(float alpha, ProductRun& run) override {
    require<Unsupported>(reuse_, "tile_spgemm multiplies again with reuse = true alone");
    require(c_.row_offsets.size() > 0, "there is no product of tile_spgemm's to repeat");
    if (!kept_) return;  // C is empty
    run.stage("values");
    renew(kept_->tiles, kept_->rows, run.stream());
    run.stage("multiplication");
    fill_c(alpha, kept_->tiles, kept_->lists, kept_->rows, false, run);
  }

  void set_values(std::span<const float> a, std::span<const float> b) override {
    require_values(a, b, a_.values.size(), b_ ? b_->values.size() : 0);
    check_values(a, 'A', kNumbers);
    check_values(b, 'B', kNumbers);
    a_.values.upload(a);
    if (b_) b_->values.upload(b);
  }

  void release() override {
    kept_.reset();
    c_ = {};
  }
  CsrMatrix download() const override { return c_.download(); }

 private:
  using Value = typename Sums<kNumbers>::Value;
  static constexpr bool kScales = kNumbers == Numbers::kFp16;

  /// Of the last product: what its multiplication needs.
  struct Kept {
    RowArrays rows;
    TileArrays<Value> tiles;
    ListArrays lists;
  };

  bool is_square() const { return !b_.has_value(); }

  void make_empty(ProductRun& run) {
    c_ = SparseResult::in_one_block(run, rows_, cols_, 0);
    cuda_check(
        cudaMemsetAsync(c_.row_offsets.data(), 0,
                        static_cast<std::size_t>(c_.row_offsets.size()) * sizeof(std::int64_t),
                        run.stream()),
        "making an empty C");
  }

  /// Where the tile rows of a matrix begin, the last being the number of its tiles.
  static void count(const CsrView& csr, const RowArrays& rows, std::int32_t* begins,
                    cudaStream_t stream) {
    const std::int64_t counts = std::int64_t{csr.tile_rows} + 1;
    count_tiles<<<blocks_for(counts * kSide, kThreads), kThreads, 0, stream>>>(csr,
                                                                               rows.counts.data());
    check_launch();
    rows.sum_counts(begins, counts, stream);
  }

  TileArrays<Value> make_tiles(const CsrView& a, const CsrView& b, const RowArrays& rows,
                               ProductRun& run) {
    const cudaStream_t stream = run.stream();
    cuda_check(cudaMemsetAsync(rows.found, 0, sizeof(Found), stream), "clearing");
    count(a, rows, rows.a_begins.data(), stream);
    if (!is_square()) count(b, rows, rows.b_begins.data(), stream);
    tiles_of_a_.ask(rows.a_begins.data() + a.tile_rows, stream);
    if (!is_square()) tiles_of_b_.ask(rows.b_begins.data() + b.tile_rows, stream);
    const std::int64_t of_a = tiles_of_a_.wait(stream);
    const std::int64_t of_b = is_square() ? of_a : tiles_of_b_.wait(stream);
    TileArrays<Value> tiles(run, a, b, of_a, of_b, is_square(), reuse_);
    const std::uint32_t* largest = kScales ? rows.found->largest : nullptr;
    if constexpr (kScales) find_scales(a, b, rows, stream);
    if (is_square()) {
      fill(a, {rows.a_begins.data(), largest, tiles.a_cols.data(), tiles.by_rows, tiles.by_cols},
           stream);
    } else {
      fill(a, {rows.a_begins.data(), largest, tiles.a_cols.data(), tiles.by_rows, {}}, stream);
      fill(b,
           {rows.b_begins.data(),
            kScales ? largest + 1 : nullptr,
            tiles.b_cols.data(),
            {},
            tiles.by_cols},
           stream);
    }
    return tiles;
  }

  /// The values that A and B have by now, in tiles that are there.
  void renew(const TileArrays<Value>& tiles, const RowArrays& rows, cudaStream_t stream) const {
    const CsrView a = view_of(a_), b = view_of(b_ ? *b_ : a_);
    std::uint32_t* largest = kScales ? rows.found->largest : nullptr;
    if constexpr (kScales) {
      cuda_check(cudaMemsetAsync(largest, 0, sizeof(rows.found->largest), stream), "clearing");
      find_scales(a, b, rows, stream);
    }
    const auto renew_one = [&](const CsrView& csr, const std::uint32_t* of_matrix,
                               const TilesOut<Value>& by_rows, const TilesOut<Value>& by_cols) {
      renew_values<Value><<<blocks_for(csr.nonzeros, kThreads), kThreads, 0, stream>>>(
          csr.values, csr.nonzeros, of_matrix, by_rows, by_cols);
      check_launch();
    };
    if (is_square()) return renew_one(a, largest, tiles.by_rows, tiles.by_cols);
    renew_one(a, largest, tiles.by_rows, {});
    renew_one(b, kScales ? largest + 1 : nullptr, {}, tiles.by_cols);
  }

  static void find_scales(const CsrView& a, const CsrView& b, const RowArrays& rows,
                          cudaStream_t stream) {
    constexpr unsigned kMostBlocks = 1024;
    for (int i = 0; i < 2; ++i) {
      const CsrView& csr = i == 0 ? a : b;
      find_largest<<<std::min(blocks_for(csr.nonzeros, kThreads), kMostBlocks), kThreads, 0,
                     stream>>>(csr.values, csr.nonzeros, rows.found->largest + i);
      check_launch();
    }
  }

  static void fill(const CsrView& csr, const Filling<Value>& to, cudaStream_t stream) {
    fill_tiles<Value>
        <<<blocks_for(std::int64_t{csr.tile_rows} * kSide, kThreads), kThreads, 0, stream>>>(csr,
                                                                                             to);
    check_launch();
  }

  /// The grids of tiles as row_spgemm sees matrices.
  row_spgemm::View view_of_tiles(const CsrView& a, const CsrView& b, const RowArrays& rows,
                                 const TileArrays<Value>& tiles) const {
    row_spgemm::View view{};
    view.rows = a.tile_rows;
    view.rows_of_b_count = b.tile_rows;
    view.nonzeros_of_a = tiles.a_tiles.size();
    view.nonzeros_of_b = tiles.b_tiles.size();
    view.many = row_spgemm::thresholds_for(view.nonzeros_of_a, view.nonzeros_of_b, b.tile_rows);
    view.a_offsets = rows.a_begins.data();
    view.a_cols = tiles.a_cols.data();
    view.b_offsets = is_square() ? rows.a_begins.data() : rows.b_begins.data();
    view.b_cols = tiles.b_cols.data();
    return view;
  }

  ListArrays make_lists(RowTasks::Work& work, const RowArrays& rows, ProductRun& run) {
    RowTasks::add_products(work.view, &rows.found->products, run.stream());
    found_.ask(rows.found, run.stream());
    const std::int64_t tiles_of_c = tasks_.sort_by_columns(work, run.stream());
    const Found& found = found_.wait(run.stream());
    ListArrays lists(run, tiles_of_c, static_cast<std::int64_t>(found.products));
    RowTasks::find_rows(work, tiles_of_c, rows.first_tiles.data(), run.stream());
    return lists;
  }

  void list_all_pairs(const RowTasks::Work& work, const TileArrays<Value>& tiles,
                      const ListArrays& lists, const RowArrays& rows, ProductRun& run) {
    using row_spgemm::Batch;
    tasks_.with_ranks(
        work, run.stream(),
        [&]<class Group, class Bitmap>(const Batch& batch, int bytes, cudaStream_t stream) {
          row_spgemm::launch_groups<Group>(list_pairs<Group, Bitmap>, batch.count, bytes, stream,
                                           work.view, batch, bytes, work.offsets.data(),
                                           tiles.a_tiles.data(), tiles.b_tiles.data(), lists.view,
                                           &rows.found->pairs);
        });
  }

  /// C without what is in it.
  void make_c(const CsrView& a, const TileArrays<Value>& tiles, const ListArrays& lists,
              const RowArrays& rows, ProductRun& run) {
    const cudaStream_t stream = run.stream();
    if (lists.view.count > 0) {
      find_cells<<<blocks_for(lists.view.count * kSide, kThreads), kThreads, 0, stream>>>(
          lists.view, tiles.a_tiles.data(), tiles.b_tiles.data());
      check_launch();
    }
    place_cells<<<blocks_for(std::int64_t{a.tile_rows} * 32, kThreads), kThreads, 0, stream>>>(
        a.rows, a.tile_rows, rows.first_tiles.data(), lists.view, rows.counts.data());
    check_launch();
    const std::int64_t offsets = std::int64_t{a.rows} + 1;
    rows.sum_counts(rows.row_offsets.data(), offsets, stream);
    nonzeros_.ask(rows.row_offsets.data() + a.rows, stream);
    c_ = SparseResult::in_one_block(run, rows_, cols_, nonzeros_.wait(stream));
    cuda_check(cudaMemcpyAsync(c_.row_offsets.data(), rows.row_offsets.data(),
                               static_cast<std::size_t>(offsets) * sizeof(std::int64_t),
                               cudaMemcpyDeviceToDevice, stream),
               "copying the offsets of rows");
  }

  void fill_c(float alpha, const TileArrays<Value>& tiles, const ListArrays& lists,
              const RowArrays& rows, bool with_cols, ProductRun& run) {
    if (lists.view.count == 0) return;
    multiply_tiles<kNumbers>
        <<<blocks_for(lists.view.count * 32, kThreads), kThreads, 0, run.stream()>>>(
            lists.view, {tiles.a_tiles.data(), tiles.a_values.data()},
            {tiles.b_tiles.data(), tiles.b_values.data()},
            {c_.row_offsets.data(), with_cols ? c_.col_indices.data() : nullptr, c_.values.data(),
             alpha, kScales ? rows.found->largest : nullptr});
    check_launch();
  }

  bool reuse_;
  DeviceCsr a_;
  std::optional<DeviceCsr> b_;  // where it is not A
  std::int32_t rows_, cols_;
  RowTasks tasks_;
  Told<std::int32_t> tiles_of_a_, tiles_of_b_;
  Told<Found> found_;
  Told<std::int64_t> nonzeros_;
  SparseResult c_;
  std::optional<Kept> kept_;
};

class GpuTileSpgemm final : public GpuSpgemm {
 public:
  explicit GpuTileSpgemm(Choices choices) : choices_(choices) {}

  std::unique_ptr<GpuSparseProduct> upload(const CsrMatrix& a, const CsrMatrix& b) const override {
    const auto [numbers, reuse] = choices_;
    check_operands(a, b, numbers);
    if (numbers == Numbers::kFp16)
      return std::make_unique<TileProduct<Numbers::kFp16>>(a, b, reuse);
    if (numbers == Numbers::kTf32)
      return std::make_unique<TileProduct<Numbers::kTf32>>(a, b, reuse);
    return std::make_unique<TileProduct<Numbers::kTf32x3>>(a, b, reuse);
  }

 private:
  Choices choices_;
};

const Register<GpuSpgemm> entry{{
    .name = "tile_spgemm",
    .summary = "device half of tile_spgemm",
    .make = [](const Params& params) { return std::make_unique<GpuTileSpgemm>(Choices(params)); },
}};

}  // namespace
}  // namespace tessera
