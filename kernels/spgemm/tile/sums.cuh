// tile_spgemm's sums: the lists of a task's pairs in shared memory, and the warps that add up its
// tiles of C and write them to CSR. See kernels/spgemm/tile/schedule.hpp and
// kernels/spgemm/tile/tile_spgemm.cpp.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/spgemm/tile/tasks.cuh"
#include "kernels/tensor_core/mma.cuh"

namespace tessera::tile_spgemm {

/// A bit for each tile of A that has a pair for a tile of C, for all tiles of a short tile row.
class ShortRowMatches {
 public:
  static constexpr int kTilesOfA = kShortRow;

  /// Prepares for a batch of this many tiles of A.
  __device__ void set_batch(int) {}
  __device__ int tiles_at_once() const { return kTilesOfPass; }
  __device__ void clear(int tiles) {
    for (int i = Block::lane(); i < tiles; i += kThreads) bits_[i] = 0;
  }
  __device__ void set(int tile, int place) {
    atomicOr(half_of(bits_ + tile, place / 32), 1u << (place % 32));
  }
  /// The number of pairs of a tile of C, and of those before a tile of A.
  __device__ int count(int tile) const { return __popcll(bits_[tile]); }
  __device__ int before(int tile, int place) const {
    return __popcll(bits_[tile] & ((std::uint64_t{1} << place) - 1));
  }

 private:
  std::uint64_t bits_[kTilesOfPass];
};

/// The same bits for one batch of a long tile row, for as many tiles of C as there is room.
class LongRowMatches {
 public:
  static constexpr int kTilesOfA = kTilesOfBatch;
  static constexpr int kWords = 1024, kTilesAtOnce = 32 * kWords / kTilesOfBatch;

  __device__ void set_batch(int tiles_of_a) { words_of_tile_ = (tiles_of_a + 31) / 32; }
  __device__ int tiles_at_once() const { return min(kTilesOfPass, kWords / words_of_tile_); }
  __device__ void clear(int tiles) {
    for (int i = Block::lane(); i < tiles * words_of_tile_; i += kThreads) words_[i] = 0;
  }
  __device__ void set(int tile, int place) {
    atomicOr(words_ + (tile * words_of_tile_ + place / 32), 1u << (place % 32));
  }
  __device__ int count(int tile) const { return before(tile, 32 * words_of_tile_); }
  __device__ int before(int tile, int place) const {
    const std::uint32_t* words = words_ + tile * words_of_tile_;
    int before = 0;
    for (int word = 0; word < place / 32; ++word) before += __popc(words[word]);
    if (place % 32 != 0) before += __popc(words[place / 32] & ((1u << (place % 32)) - 1));
    return before;
  }

 private:
  int words_of_tile_;
  std::uint32_t words_[kWords];
};

/// A tile of B as lanes read it: its bits by columns, and the tile of A that multiplies it.
struct alignas(16) StagedTile {
  std::uint32_t low, high;  // columns 0 to 3, 4 to 7
  std::uint32_t first_value;
  std::int32_t of_a;  // index in its tile row
};

/// A lane's two neighbouring values of a tile: row lane / 4 of A, column lane / 4 of B, at inner
/// indices 2 (lane % 4) and one more.
template <class Value>
struct AdjacentValues {
  Value low, high;

  /// `bits` by rows for A, by columns for B.
  __device__ AdjacentValues(std::uint32_t low_bits, std::uint32_t high_bits,
                            std::uint32_t first_value, const Value* __restrict__ values) {
    const int lane = spgemm::lane_of_warp(), bit = lane % 16 * 2;
    const std::uint32_t half = lane < 16 ? low_bits : high_bits;
    const std::uint32_t bits = half >> bit & 3;
    if (lane >= 16) first_value += static_cast<std::uint32_t>(__popc(low_bits));
    const Value* first =
        values + (first_value + static_cast<std::uint32_t>(__popc(half & ((1u << bit) - 1))));
    low = (bits & 1) != 0 ? __ldg(first) : Value{0};
    high = (bits & 2) != 0 ? __ldg(first + (bits & 1)) : Value{0};
  }
};

/// A fragment of two TF32 values in one or two parts, rounded to nearest, ties away from zero, as
/// cvt.rna does. upload() has checked that the values are finite and stay so.
template <bool kSplits>
struct Fragment {
  std::uint32_t large[2], small[2] = {0, 0};

  __device__ Fragment(float low, float high) {
    set(0, low);
    set(1, high);
  }

 private:
  __device__ void set(int index, float value) {
    // The MMA ignores the last 13 bits.
    constexpr std::uint32_t kHalf = 1u << 12, kKept = ~((1u << 13) - 1);
    large[index] = __float_as_uint(value) + kHalf;
    if constexpr (kSplits) {
      large[index] &= kKept;
      small[index] = __float_as_uint(value - __uint_as_float(large[index])) + kHalf;
    }
  }
};

/// The sums of a warp's tile of C by MMAs. A lane holds cells 2 lane and 2 lane + 1.
template <TileArithmetic kArithmetic>
struct Sums {
  using Value = float;
  /// A lane's two values of a tile of A.
  struct alignas(8) OfA {
    float low, high;

    OfA() = default;
    __device__ explicit OfA(const AdjacentValues<Value>& values)
        : low(values.low), high(values.high) {}
  };
  static constexpr bool kSplits = kArithmetic == TileArithmetic::kTf32x3;
  static constexpr bool kScales = false;
  float sums[kSplits ? 4 : 2] = {};  // of A's large parts, then of its small parts

  /// load_a(index of a tile of A) returns an OfA.
  template <class LoadA>
  __device__ void add(const StagedTile* pair, LoadA load_a, const Value* b_values) {
    const StagedTile of_b = *pair;
    const OfA of_a = load_a(of_b.of_a);
    const AdjacentValues<Value> values(of_b.low, of_b.high, of_b.first_value, b_values);
    const Fragment<kSplits> left(of_a.low, of_a.high), right(values.low, values.high);
    const std::uint32_t rows[4] = {left.large[0], left.small[0], left.large[1], left.small[1]};
    float all[4] = {sums[0], sums[1], kSplits ? sums[2] : 0, kSplits ? sums[3] : 0};
    // The small products come first: added to a large sum they would be rounded off.
    if constexpr (kSplits) mma_m16n8k8_tf32(all, rows, right.small);
    mma_m16n8k8_tf32(all, rows, right.large);
#pragma unroll
    for (int i = 0; i < (kSplits ? 4 : 2); ++i) sums[i] = all[i];
  }

  __device__ float sum(int cell) const {
    if constexpr (kSplits) return __fadd_rn(sums[cell], sums[2 + cell]);
    return sums[cell];
  }
};

/// FP16 sums, of two pairs at a time; a missing pair has no bits.
template <>
struct Sums<TileArithmetic::kFp16> {
  using Value = std::uint16_t;
  struct OfA {
    std::uint32_t both;

    OfA() = default;
    __device__ explicit OfA(const AdjacentValues<Value>& values)
        : both(values.low | std::uint32_t{values.high} << 16) {}
  };
  static constexpr bool kScales = true;
  float sums[2] = {};

  template <class LoadA>
  __device__ void add(const StagedTile* pairs, LoadA load_a, const Value* b_values) {
    std::uint32_t rows[4] = {0, 0, 0, 0}, cols[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const StagedTile of_b = pairs[i];
      const OfA of_a = load_a(of_b.of_a);
      rows[2 * i] = (of_b.low | of_b.high) != 0 ? of_a.both : 0;
      cols[i] = OfA(AdjacentValues<Value>(of_b.low, of_b.high, of_b.first_value, b_values)).both;
    }
    float all[4] = {sums[0], sums[1], 0, 0};
    mma_m16n8k16_fp16(all, rows, cols);
    sums[0] = all[0];
    sums[1] = all[1];
  }

  __device__ float sum(int cell) const { return sums[cell]; }
};

/// The arrays of C, and the factors of its values.
struct Output {
  std::int32_t rows;
  const std::int64_t* row_offsets;  // [rows + 1]
  std::int32_t* cols;               // nullptr where they are already written
  float* values;
  float alpha;
  const std::uint32_t* largest;  // [2] magnitudes of A and B, as bits; nullptr: not scaled

  __device__ double factor() const {
    if (largest == nullptr) return 1;
    return ldexp(1.0, -scaling_exponent(__uint_as_float(largest[0])) -
                          scaling_exponent(__uint_as_float(largest[1])));
  }
};

/// The fixed part of a task's shared memory; RowStorage follows it.
template <TileArithmetic kArithmetic, class Matches>
struct SumsMemory {
  static constexpr bool kIsLong = std::is_same_v<Matches, LongRowMatches>;
  static constexpr int kPadding = MakeSums::padding(kArithmetic);
  static constexpr int kListSize = MakeSums::list_size(kArithmetic, kIsLong);
  static_assert(Matches::kTilesOfA <= kListSize);

  std::uint64_t cells[kTilesOfPass];  // of tiles of C
  Factor factors[Matches::kTilesOfA];
  StagedTile staged[kThreads];     // the current pairs of each warp
  std::int64_t row_begins[kSide];  // indices in C of the next cells of each row
  Slot slots[kColsAtOnce / kColsOfSlot];
  Matches matches;
  std::uint32_t of_b[kListSize];  // tiles of B of the listed pairs
  std::uint16_t of_a[kListSize];  // tiles of A of the listed pairs, by their indices in the row
  std::int32_t cols[kTilesOfPass];
  std::uint16_t cells_before[kTilesOfPass][kSide];  // cells in earlier tiles, by rows of C
  int first_pairs[kTilesOfPass + 1];                // pairs in earlier tiles
  std::uint16_t of_warps[kWarps][kSide];            // cells in the tiles of each warp
  int scratch[Block::kWarps];
};

/// The tile of A of a missing pair.
constexpr std::uint16_t kNoTile = 0xffff;
static_assert(kTilesOfBatch < kNoTile);

/// The values of A and B.
template <TileArithmetic kArithmetic>
struct Values {
  const typename Sums<kArithmetic>::Value* __restrict__ a, * __restrict__ b;
};

template <class Matches>
using PairsOf = Pairs<Matches::kTilesOfA>;

/// One pass of a thread block over the tiles of C with the ranks [first, first + size).
template <TileArithmetic kArithmetic, class Matches>
class Pass {
 public:
  static constexpr bool kIsLong = std::is_same_v<Matches, LongRowMatches>;
  using TheMemory = SumsMemory<kArithmetic, Matches>;
  using Value = typename Sums<kArithmetic>::Value;
  using OfA = typename Sums<kArithmetic>::OfA;

  /// The memory after SumsMemory: for short rows the values of A's tiles, [kTilesOfA][32 lanes];
  /// for long rows the sums between batches, [kTilesAtOnce][32 lanes].
  using RowStorage = std::conditional_t<kIsLong, Sums<kArithmetic>, OfA>;

  __device__ Pass(SumsMemory<kArithmetic, Matches>& memory, RowStorage* row_storage,
                  PairsOf<Matches>& pairs, std::int32_t first_col, int first, int tiles)
      : memory_(memory),
        row_storage_(row_storage),
        pairs_(pairs),
        first_col_(first_col),
        first_(first),
        size_(min(tiles - first, memory.matches.tiles_at_once())) {}

  /// The number of tiles.
  __device__ int size() const { return size_; }

  /// Finds the cells of the tiles and their indices in C.
  __device__ void find_cells(int cols) {
    for (int i = Block::lane(); i < size_; i += kThreads) memory_.cells[i] = 0;
    memory_.matches.clear(size_);
    Block::sync();
    const bool is_one_batch = !kIsLong || pairs_.factors() <= kTilesOfBatch;
    pairs_.each([&](int place, std::uint64_t of_a, const Tile& of_b, std::uint32_t) {
      const int tile = tile_of(of_b);
      if (tile < 0) return;
      join_cells(memory_.cells + tile, of_a, of_b.bitmap);
      if (is_one_batch) memory_.matches.set(tile, place);
    });
    for (int slot = Block::lane(); slot * kColsOfSlot < cols; slot += kThreads) {
      const Slot own = memory_.slots[slot];
      for_marks(first_col_ + slot * kColsOfSlot, own.marks, own.rank - first_,
                [&](int tile, std::int32_t col) {
                  if (tile >= 0 && tile < size_) memory_.cols[tile] = col;
                });
    }
    place_cells();
  }

  /// Adds up the tiles and writes them to C.
  __device__ void make_sums(const Values<kArithmetic>& values, const Tile* tiles_of_a,
                            const Output& output) {
    const int factors = pairs_.factors();
    for (int begin = 0; begin < factors; begin += Matches::kTilesOfA) {
      const int end = kIsLong ? min(begin + kTilesOfBatch, factors) : factors;
      if (kIsLong && factors > kTilesOfBatch) find_matches(begin, end);
      count_pairs();
      for (int tile = 0; tile < size_;) {
        const int end_tile = end_of_list(tile);
        list_pairs(begin, end, tile, end_tile);
        add_pairs(
            tile, end_tile,
            [&](int place) {
              if constexpr (kIsLong)
                return load_tile(tiles_of_a[pairs_.begin() + begin + place], values.a);
              else
                return row_storage_[32 * place + spgemm::lane_of_warp()];
            },
            values.b, begin > 0, end == factors, output);
        Block::sync();
        tile = end_tile;
      }
    }
    if (Block::lane() < kSide)
      for (int warp = 0; warp < Block::kWarps; ++warp)
        memory_.row_begins[Block::lane()] += memory_.of_warps[warp][Block::lane()];
    Block::sync();
  }

  /// A lane's part of a tile of A.
  static __device__ OfA load_tile(const Tile& tile, const Value* values) {
    return OfA(AdjacentValues<Value>(static_cast<std::uint32_t>(tile.bitmap),
                                     static_cast<std::uint32_t>(tile.bitmap >> 32),
                                     tile.first_value, values));
  }

 private:
  __device__ int tile_of(const Tile& of_b) const {
    const int tile = rank_of_col(memory_.slots, of_b.col - first_col_) - first_;
    return tile < size_ ? tile : -1;
  }

  /// Finds the pairs of one batch of A's tiles.
  __device__ void find_matches(int begin, int end) {
    memory_.matches.clear(size_);
    Block::sync();
    pairs_.each(begin, end, [&](int place, std::uint64_t, const Tile& of_b, std::uint32_t) {
      const int tile = tile_of(of_b);
      if (tile >= 0) memory_.matches.set(tile, place - begin);
    });
  }

  /// Counts the cells before each tile in each row of C. Eight threads, one for each row, share
  /// some neighbouring tiles.
  __device__ void place_cells() {
    const int row = Block::lane() % kSide, lane = spgemm::lane_of_warp();
    const int share = MakeSums::tiles_of_lane(size_);
    const int begin = min(Block::lane() / kSide * share, size_), end = min(begin + share, size_);
    const auto cells_of = [&](int tile) {
      return __popc(static_cast<std::uint32_t>(memory_.cells[tile] >> kSide * row) & 0xff);
    };
    int own = 0;
    for (int tile = begin; tile < end; ++tile) own += cells_of(tile);
    int sum = own;
#pragma unroll
    for (int step = kSide; step < 32; step *= 2) {
      const int below = __shfl_up_sync(kAllLanes, sum, step);
      if (lane >= step) sum += below;
    }
    if (lane >= 32 - kSide) memory_.of_warps[Block::warp()][row] = static_cast<std::uint16_t>(sum);
    Block::sync();
    int before = sum - own;
    for (int warp = 0; warp < Block::warp(); ++warp) before += memory_.of_warps[warp][row];
    for (int tile = begin; tile < end; ++tile) {
      memory_.cells_before[tile][row] = static_cast<std::uint16_t>(before);
      before += cells_of(tile);
    }
  }

  /// Finds where the pairs of each tile begin. Where an MMA takes two, their number is even.
  __device__ void count_pairs() {
    static_assert(kTilesOfPass <= kThreads);
    const int tile = Block::lane();
    const int pairs = tile < size_ ? memory_.matches.count(tile) : 0;
    int all = 0;
    const int first =
        Block::before(MakeSums::padded(pairs, TheMemory::kPadding), all, memory_.scratch);
    if (tile < size_) memory_.first_pairs[tile] = first;
    if (tile == 0) memory_.first_pairs[size_] = all;
    Block::sync();
  }

  __device__ int tile_after(int begin, int end, int work) const {
    return MakeSums::tile_after(begin, end, work,
                                [&](int tile) { return memory_.first_pairs[tile]; });
  }
  __device__ int end_of_list(int tile) const {
    return MakeSums::end_of_list(tile, size_, memory_.first_pairs[tile], TheMemory::kListSize,
                                 [&](int other) { return memory_.first_pairs[other]; });
  }

  /// Lists the pairs of the tiles [tile, end_tile) with a batch of A's tiles, in their order.
  __device__ void list_pairs(int begin, int end, int tile, int end_tile) {
    const int first = memory_.first_pairs[tile];
    if constexpr (TheMemory::kPadding > 0) {
      const int own = tile + Block::lane();
      if (own < end_tile) {
        const int pairs = memory_.matches.count(own);
        if (pairs % 2 != 0) memory_.of_a[memory_.first_pairs[own] - first + pairs] = kNoTile;
      }
    }
    pairs_.each(begin, end, [&](int place, std::uint64_t, const Tile& of_b, std::uint32_t at) {
      const int of_c = tile_of(of_b);
      if (of_c < tile || of_c >= end_tile) return;
      const int listed =
          memory_.first_pairs[of_c] - first + memory_.matches.before(of_c, place - begin);
      memory_.of_a[listed] = static_cast<std::uint16_t>(place - begin);
      memory_.of_b[listed] = at;
    });
  }

  __device__ StagedTile staged_pair(int at, int end, const Tile* tiles_of_b) const {
    const std::uint16_t of_a = at < end ? memory_.of_a[at] : kNoTile;
    if (of_a == kNoTile) return {0, 0, 0, 0};
    const Tile tile = tiles_of_b[memory_.of_b[at]];
    const std::uint64_t by_cols = transposed(tile.bitmap);
    return {static_cast<std::uint32_t>(by_cols), static_cast<std::uint32_t>(by_cols >> 32),
            tile.first_value, of_a};
  }

  /// Adds up the listed pairs of the tiles [tile, end). Each warp takes some neighbouring tiles.
  template <class LoadA>
  __device__ void add_pairs(int tile, int end, LoadA load_a, const Value* b_values, bool continues,
                            bool is_last, const Output& output) {
    const int lane = spgemm::lane_of_warp(), warp = Block::warp();
    const int first = memory_.first_pairs[tile], before = MakeSums::work_before(tile, first);
    const int work = MakeSums::work_before(end, memory_.first_pairs[end]) - before;
    const int end_tile = tile_after(tile, end, before + MakeSums::share_begin(work, warp + 1));
    tile = tile_after(tile, end, before + MakeSums::share_begin(work, warp));
    if (tile >= end_tile) return;
    StagedTile* staged = memory_.staged + 32 * warp;
    const int end_listed = memory_.first_pairs[end_tile] - first;
    int at = memory_.first_pairs[tile] - first, end_staged = at;
    const std::int64_t row_begin = memory_.row_begins[lane / 4];
    for (; tile < end_tile; ++tile) {
      Sums<kArithmetic> sums;
      if constexpr (kIsLong)
        if (continues) sums = row_storage_[32 * tile + lane];
      const int end_pairs = memory_.first_pairs[tile + 1] - first;
      while (at < end_pairs) {
        if (at == end_staged) {
          const StagedTile own = staged_pair(at + lane, end_listed, pairs_.tiles_of_b());
          __syncwarp();
          staged[lane] = own;
          __syncwarp();
          end_staged = at + 32;
        }
        const StagedTile* pairs = staged + (32 - end_staged);
        const int stop = min(end_pairs, end_staged);
#pragma unroll 2
        for (; at < stop; at += pairs_of_mma(kArithmetic)) sums.add(pairs + at, load_a, b_values);
      }
      if constexpr (kIsLong) {
        if (!is_last) {
          row_storage_[32 * tile + lane] = sums;
          continue;
        }
      }
      store(tile, sums, row_begin, output);
    }
  }

  /// Writes a lane's two cells of a tile to C.
  __device__ void store(int tile, const Sums<kArithmetic>& sums, std::int64_t row_begin,
                        const Output& output) const {
    const int lane = spgemm::lane_of_warp(), row = lane / 4, first = lane % 4 * 2;
    const auto of_row = static_cast<std::uint32_t>(memory_.cells[tile] >> kSide * row) & 0xff;
    const std::uint32_t bits = of_row >> first & 3;
    if (bits == 0) return;
    std::int64_t place =
        row_begin + (memory_.cells_before[tile][row] + __popc(of_row & ((1u << first) - 1)));
#pragma unroll
    for (int cell = 0; cell < 2; ++cell) {
      if ((bits >> cell & 1) == 0) continue;
      float value = sums.sum(cell);
      if constexpr (Sums<kArithmetic>::kScales) value = unscaled(value, output.factor());
      if (output.cols != nullptr) output.cols[place] = memory_.cols[tile] * kSide + first + cell;
      output.values[place] = output.alpha == 1 ? value : output.alpha * value;
      ++place;
    }
  }

  TheMemory& memory_;
  RowStorage* row_storage_;
  PairsOf<Matches>& pairs_;
  std::int32_t first_col_;
  int first_, size_;
};

/// Bytes of dynamic shared memory that make_sums() needs where A's longest tile row has `longest`
/// tiles.
template <TileArithmetic kArithmetic, class Matches>
constexpr std::size_t sums_bytes(std::int32_t longest) {
  using ThePass = Pass<kArithmetic, Matches>;
  using TheMemory = SumsMemory<kArithmetic, Matches>;
  static_assert(sizeof(TheMemory) ==
                MakeSums::fixed_bytes(kArithmetic, ThePass::kIsLong, sizeof(Matches)));
  static_assert(ThePass::kIsLong ||
                (sizeof(TheMemory) == MakeSums::fixed_bytes_of_short_rows(kArithmetic) &&
                 sizeof(typename ThePass::RowStorage) == MakeSums::lane_bytes(kArithmetic)));
  std::size_t of_rest = 0;
  if constexpr (ThePass::kIsLong)
    of_rest = longest > kTilesOfBatch ? LongRowMatches::kTilesAtOnce : 0;
  else
    of_rest = static_cast<std::size_t>(longest < Matches::kTilesOfA ? longest : Matches::kTilesOfA);
  return sizeof(TheMemory) + kWarpSize * sizeof(typename ThePass::RowStorage) * of_rest;
}

/// Adds up all tasks with short tile rows of A, or with long ones.
template <TileArithmetic kArithmetic, class Matches>
__global__ void __launch_bounds__(kThreads, MakeSums::kThreadBlocksOfMultiprocessor)
    make_sums(TileMatrix a, TileMatrix b, Values<kArithmetic> values, TasksView tasks,
              Output output) {
  extern __shared__ __align__(16) unsigned char shared[];
  auto& memory = *reinterpret_cast<SumsMemory<kArithmetic, Matches>*>(shared);
  using ThePass = Pass<kArithmetic, Matches>;
  auto* row_storage = reinterpret_cast<typename ThePass::RowStorage*>(shared + sizeof(memory));
  for_tasks(tasks, &tasks.found->cursors[ThePass::kIsLong ? 2 : 1],
            [&](const Task& task, std::uint32_t number) {
              PairsOf<Matches> pairs(a, b, task, memory.factors);
              if ((pairs.factors() > kShortRow) != ThePass::kIsLong) return;
              if (Block::lane() < kSide) {
                const std::int64_t row = std::int64_t{task.tile_row} * kSide + Block::lane();
                std::int64_t begin = row < output.rows ? output.row_offsets[row] : 0;
                for (int slice = 0; slice < task.slice; ++slice)
                  begin += tasks.cells[std::int64_t{number_of_slice(task, number, slice)} * kSide +
                                       Block::lane()];
                memory.row_begins[Block::lane()] = begin;
              }
              if (Block::lane() == 0)
                memory.matches.set_batch(min(pairs.factors(), Matches::kTilesOfA));
              if constexpr (!ThePass::kIsLong)
                for (int i = Block::warp(); i < pairs.factors(); i += Block::kWarps)
                  row_storage[32 * i + spgemm::lane_of_warp()] =
                      ThePass::load_tile(a.tiles[pairs.begin() + i], values.a);
              for_columns(task, task.slots_at_once * kColsOfSlot, pairs, memory.slots,
                          memory.scratch, [&](const ColumnRange& columns, int tiles) {
                            for (int first = 0; first < tiles;) {
                              ThePass pass(memory, row_storage, pairs, columns.first, first, tiles);
                              pass.find_cells(columns.count());
                              pass.make_sums(values, a.tiles, output);
                              first += pass.size();
                            }
                          });
            });
}

}  // namespace tessera::tile_spgemm
