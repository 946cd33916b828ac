// tile_spgemm's sums: a task's lists of pairs in shared memory, and the warps that take its tiles
// of C from them to CSR. See kernels/spgemm/tile/tile_spgemm.cpp.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/spgemm/tile/tasks.cuh"
#include "kernels/tensor_core/mma.cuh"

namespace tessera::tile_spgemm {

/// Thread blocks that a multiprocessor is to hold.
constexpr int kBlocksOfProcessor = 8;

/// Which of A's tiles are in a pair with each tile of C: of a short tile row, all of them.
class ShortMeeting {
 public:
  static constexpr int kTilesOfA = kShortRow;

  /// For a batch of so many tiles of A.
  __device__ void fit(int) {}
  __device__ int most_tiles() const { return kTilesOfPass; }
  __device__ void clear(int tiles) {
    for (int i = Block::lane(); i < tiles; i += kThreads) bits_[i] = 0;
  }
  __device__ void set(int tile, int place) {
    atomicOr(half_of(bits_ + tile, place / 32), 1u << (place % 32));
  }
  /// Pairs of a tile, and those before one.
  __device__ int count(int tile) const { return __popcll(bits_[tile]); }
  __device__ int before(int tile, int place) const {
    return __popcll(bits_[tile] & ((std::uint64_t{1} << place) - 1));
  }

 private:
  std::uint64_t bits_[kTilesOfPass];
};

/// The same of a long one: as many tiles of C as there are bits for the batch.
class LongMeeting {
 public:
  static constexpr int kTilesOfA = kTilesOfBatch;
  static constexpr int kWords = 1024, kFewTiles = 32 * kWords / kTilesOfBatch;

  __device__ void fit(int tiles_of_a) { words_of_tile_ = (tiles_of_a + 31) / 32; }
  __device__ int most_tiles() const { return min(kTilesOfPass, kWords / words_of_tile_); }
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

/// A tile of B as lanes read it: its bits by columns, the tile of A that it is multiplied by.
struct alignas(16) StagedTile {
  std::uint32_t low, high;  // columns 0 to 3, 4 to 7
  std::uint32_t first_value;
  std::int32_t of_a;  // place in its row
};

/// A lane's two neighbouring values of a tile: row lane / 4 of A, column lane / 4 of B, at inner
/// indices 2 (lane % 4) and one more.
template <class Value>
struct Neighbours {
  Value low, high;

  /// `bits` by rows for A, by columns for B.
  __device__ Neighbours(std::uint32_t low_bits, std::uint32_t high_bits, std::uint32_t first_value,
                        const Value* __restrict__ values) {
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

/// A fragment of two TF32 values in one part or two. Rounded to nearest, ties away from zero, as
/// cvt.rna does; upload() has seen to it that they are finite, and stay so.
template <bool kSplits>
struct Fragment {
  std::uint32_t large[2], small[2] = {0, 0};

  __device__ Fragment(float low, float high) {
    set(0, low);
    set(1, high);
  }

 private:
  __device__ void set(int index, float value) {
    // The MMA takes no notice of the last 13 bits.
    constexpr std::uint32_t kHalf = 1u << 12, kKept = ~((1u << 13) - 1);
    large[index] = __float_as_uint(value) + kHalf;
    if constexpr (kSplits) {
      large[index] &= kKept;
      small[index] = __float_as_uint(value - __uint_as_float(large[index])) + kHalf;
    }
  }
};

/// Sums of a warp's tile of C by MMAs: a lane's are cells 2 lane and one more.
template <TileArithmetic kNumbers>
struct Sums {
  using Value = float;
  /// A lane's two values of a tile of A.
  struct alignas(8) OfA {
    float low, high;

    OfA() = default;
    __device__ explicit OfA(const Neighbours<Value>& values) : low(values.low), high(values.high) {}
  };
  static constexpr bool kSplits = kNumbers == TileArithmetic::kTf32x3;
  static constexpr bool kScales = false;
  float sums[kSplits ? 4 : 2] = {};  // of A's large parts, of its small ones

  /// load_a(place of a tile of A) gives an OfA.
  template <class LoadA>
  __device__ void add(const StagedTile* pair, LoadA load_a, const Value* b_values) {
    const StagedTile of_b = *pair;
    const OfA of_a = load_a(of_b.of_a);
    const Neighbours<Value> values(of_b.low, of_b.high, of_b.first_value, b_values);
    const Fragment<kSplits> left(of_a.low, of_a.high), right(values.low, values.high);
    const std::uint32_t rows[4] = {left.large[0], left.small[0], left.large[1], left.small[1]};
    float all[4] = {sums[0], sums[1], kSplits ? sums[2] : 0, kSplits ? sums[3] : 0};
    // The small products first: they must not meet a sum that has no place for them.
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

/// The same of two pairs a step; a pair that is none has no bits.
template <>
struct Sums<TileArithmetic::kFp16> {
  using Value = std::uint16_t;
  struct OfA {
    std::uint32_t both;

    OfA() = default;
    __device__ explicit OfA(const Neighbours<Value>& values)
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
      cols[i] = OfA(Neighbours<Value>(of_b.low, of_b.high, of_b.first_value, b_values)).both;
    }
    float all[4] = {sums[0], sums[1], 0, 0};
    mma_m16n8k16_fp16(all, rows, cols);
    sums[0] = all[0];
    sums[1] = all[1];
  }

  __device__ float sum(int cell) const { return sums[cell]; }
};

/// C, and what becomes of sums.
struct Output {
  std::int32_t rows;
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

/// A task's shared memory; in front of what two kinds of tile rows need beside it.
template <TileArithmetic kNumbers, class Meeting>
struct Memory {
  static constexpr int kOdd = pairs_of_mma(kNumbers) - 1;  // pairs that a tile's list may lack
  static constexpr int kListed =
      pairs_listed(std::is_same_v<Meeting, LongMeeting>) + kOdd * kTilesOfPass;
  static_assert(Meeting::kTilesOfA <= kListed);

  std::uint64_t cells[kTilesOfPass];  // of tiles of C
  Factor factors[Meeting::kTilesOfA];
  StagedTile staged[kThreads];     // pairs at hand, a warp's are its own
  std::int64_t row_begins[kSide];  // in C, of what is left to do
  Slot slots[kColsAtOnce / kColsOfSlot];
  Meeting meeting;
  std::uint32_t of_b[kListed];  // of listed pairs, the tiles of B
  std::uint16_t of_a[kListed];  // and those of A, by their places in the row
  std::int32_t cols[kTilesOfPass];
  std::uint16_t cells_before[kTilesOfPass][kSide];  // in tiles before, by rows of C
  int first_pairs[kTilesOfPass + 1];                // of tiles
  std::uint16_t of_warps[Block::kWarps][kSide];     // cells of each warp's tiles
  int scratch[Block::kWarps];
};

static_assert(sizeof(Memory<TileArithmetic::kFp16, ShortMeeting>) ==
                  memory_of_sums(TileArithmetic::kFp16) &&
              sizeof(Memory<TileArithmetic::kTf32, ShortMeeting>) ==
                  memory_of_sums(TileArithmetic::kTf32));

/// Of a pair that is none.
constexpr std::uint16_t kNoTile = 0xffff;
static_assert(kTilesOfBatch < kNoTile);

/// The values of A and B.
template <TileArithmetic kNumbers>
struct Values {
  const typename Sums<kNumbers>::Value* __restrict__ a, * __restrict__ b;
};

template <class Meeting>
using PairsOf = Pairs<Meeting::kTilesOfA>;

/// One pass of a thread block over tiles of C, whose ranks among those marked are
/// [first, first + size).
template <TileArithmetic kNumbers, class Meeting>
class Pass {
 public:
  static constexpr bool kIsLong = std::is_same_v<Meeting, LongMeeting>;
  using Value = typename Sums<kNumbers>::Value;
  using OfA = typename Sums<kNumbers>::OfA;

  /// What follows Memory: of short rows the values of A's tiles, [kTilesOfA][32] lanes; of long
  /// ones the sums between batches, [kFewTiles][32].
  using Rest = std::conditional_t<kIsLong, Sums<kNumbers>, OfA>;

  __device__ Pass(Memory<kNumbers, Meeting>& memory, Rest* rest, PairsOf<Meeting>& pairs,
                  std::int32_t first_col, int first, int tiles)
      : memory_(memory),
        rest_(rest),
        pairs_(pairs),
        first_col_(first_col),
        first_(first),
        size_(min(tiles - first, memory.meeting.most_tiles())) {}

  /// Of tiles.
  __device__ int size() const { return size_; }

  /// Finds the tiles' cells, and where these go.
  __device__ void find_cells(int cols) {
    for (int i = Block::lane(); i < size_; i += kThreads) memory_.cells[i] = 0;
    memory_.meeting.clear(size_);
    Block::sync();
    const bool is_one = !kIsLong || pairs_.factors() <= kTilesOfBatch;
    pairs_.each([&](int place, std::uint64_t of_a, const Tile& of_b, std::uint32_t) {
      const int tile = tile_of(of_b);
      if (tile < 0) return;
      join_cells(memory_.cells + tile, of_a, of_b.bitmap);
      if (is_one) memory_.meeting.set(tile, place);
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

  /// Adds up everything, and writes it to C.
  __device__ void make_sums(const Values<kNumbers>& values, const Tile* tiles_of_a,
                            const Output& output) {
    const int factors = pairs_.factors();
    for (int begin = 0; begin < factors; begin += Meeting::kTilesOfA) {
      const int end = kIsLong ? min(begin + kTilesOfBatch, factors) : factors;
      if (kIsLong && factors > kTilesOfBatch) find_meeting(begin, end);
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
                return rest_[32 * place + spgemm::lane_of_warp()];
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
    return OfA(Neighbours<Value>(static_cast<std::uint32_t>(tile.bitmap),
                                 static_cast<std::uint32_t>(tile.bitmap >> 32), tile.first_value,
                                 values));
  }

 private:
  __device__ int tile_of(const Tile& of_b) const {
    const int tile = rank_of_col(memory_.slots, of_b.col - first_col_) - first_;
    return tile < size_ ? tile : -1;
  }

  /// Finds who meets whom, of one batch.
  __device__ void find_meeting(int begin, int end) {
    memory_.meeting.clear(size_);
    Block::sync();
    pairs_.each(begin, end, [&](int place, std::uint64_t, const Tile& of_b, std::uint32_t) {
      const int tile = tile_of(of_b);
      if (tile >= 0) memory_.meeting.set(tile, place - begin);
    });
  }

  /// Cells before each tile's in each row of C: eight threads, one for each row, have some
  /// neighbouring tiles.
  __device__ void place_cells() {
    constexpr int kLanesOfRow = kThreads / kSide;
    const int row = Block::lane() % kSide, lane = spgemm::lane_of_warp();
    const int share = (size_ + kLanesOfRow - 1) / kLanesOfRow;
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

  /// Where the pairs of each tile begin; where an MMA takes two, tiles have an even number.
  __device__ void count_pairs() {
    constexpr int kOdd = Memory<kNumbers, Meeting>::kOdd;
    static_assert(kTilesOfPass <= kThreads);
    const int tile = Block::lane();
    const int pairs = tile < size_ ? memory_.meeting.count(tile) : 0;
    int all = 0;
    const int first = Block::before((pairs + kOdd) & ~kOdd, all, memory_.scratch);
    if (tile < size_) memory_.first_pairs[tile] = first;
    if (tile == 0) memory_.first_pairs[size_] = all;
    Block::sync();
  }

  /// The first tile after so much work: pairs, and tiles.
  __device__ int tile_after(int begin, int end, int work) const {
    while (begin < end) {
      const int middle = (begin + end) / 2;
      if (memory_.first_pairs[middle] + kPairsOfTile * middle < work)
        begin = middle + 1;
      else
        end = middle;
    }
    return begin;
  }

  /// The end of the tiles from this one on whose pairs fit in the list.
  __device__ int end_of_list(int tile) const {
    const int most = memory_.first_pairs[tile] + Memory<kNumbers, Meeting>::kListed;
    int begin = tile + 1, end = size_;
    while (begin < end) {
      const int middle = (begin + end + 1) / 2;
      if (memory_.first_pairs[middle] <= most)
        begin = middle;
      else
        end = middle - 1;
    }
    return begin;
  }

  /// Lists the pairs of some tiles with a batch of A's tiles, in the order of these.
  __device__ void list_pairs(int begin, int end, int tile, int end_tile) {
    const int first = memory_.first_pairs[tile];
    if constexpr (Memory<kNumbers, Meeting>::kOdd > 0) {
      const int own = tile + Block::lane();
      if (own < end_tile) {
        const int pairs = memory_.meeting.count(own);
        if (pairs % 2 != 0) memory_.of_a[memory_.first_pairs[own] - first + pairs] = kNoTile;
      }
    }
    pairs_.each(begin, end, [&](int place, std::uint64_t, const Tile& of_b, std::uint32_t at) {
      const int of_c = tile_of(of_b);
      if (of_c < tile || of_c >= end_tile) return;
      const int listed =
          memory_.first_pairs[of_c] - first + memory_.meeting.before(of_c, place - begin);
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

  /// Adds the pairs that are listed, of the tiles [tile, end): each warp takes some neighbouring
  /// ones.
  template <class LoadA>
  __device__ void add_pairs(int tile, int end, LoadA load_a, const Value* b_values, bool goes_on,
                            bool is_last, const Output& output) {
    const int lane = spgemm::lane_of_warp(), warp = Block::warp();
    const int first = memory_.first_pairs[tile], before = first + kPairsOfTile * tile;
    const int work = memory_.first_pairs[end] + kPairsOfTile * end - before;
    const int end_tile = tile_after(tile, end, before + work * (warp + 1) / Block::kWarps);
    tile = tile_after(tile, end, before + work * warp / Block::kWarps);
    if (tile >= end_tile) return;
    StagedTile* staged = memory_.staged + 32 * warp;
    const int end_listed = memory_.first_pairs[end_tile] - first;
    int at = memory_.first_pairs[tile] - first, end_staged = at;
    const std::int64_t row_begin = memory_.row_begins[lane / 4];
    for (; tile < end_tile; ++tile) {
      Sums<kNumbers> sums;
      if constexpr (kIsLong)
        if (goes_on) sums = rest_[32 * tile + lane];
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
        for (; at < stop; at += pairs_of_mma(kNumbers)) sums.add(pairs + at, load_a, b_values);
      }
      if constexpr (kIsLong) {
        if (!is_last) {
          rest_[32 * tile + lane] = sums;
          continue;
        }
      }
      store(tile, sums, row_begin, output);
    }
  }

  /// Writes a lane's two cells of a tile.
  __device__ void store(int tile, const Sums<kNumbers>& sums, std::int64_t row_begin,
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
      if constexpr (Sums<kNumbers>::kScales) value = unscaled(value, output.factor());
      if (output.cols != nullptr) output.cols[place] = memory_.cols[tile] * kSide + first + cell;
      output.values[place] = output.alpha == 1 ? value : output.alpha * value;
      ++place;
    }
  }

  Memory<kNumbers, Meeting>& memory_;
  Rest* rest_;
  PairsOf<Meeting>& pairs_;
  std::int32_t first_col_;
  int first_, size_;
};

/// Bytes of shared memory that make_sums() needs where A's longest tile row has so many tiles.
template <TileArithmetic kNumbers, class Meeting>
constexpr std::size_t bytes_of_sums(std::int32_t longest) {
  using ThePass = Pass<kNumbers, Meeting>;
  std::size_t of_rest = 0;
  if constexpr (ThePass::kIsLong)
    of_rest = longest > kTilesOfBatch ? LongMeeting::kFewTiles : 0;
  else
    of_rest = static_cast<std::size_t>(longest < Meeting::kTilesOfA ? longest : Meeting::kTilesOfA);
  return sizeof(Memory<kNumbers, Meeting>) + 32 * sizeof(typename ThePass::Rest) * of_rest;
}

/// Makes the sums of all tasks with short tile rows of A, or with long ones.
template <TileArithmetic kNumbers, class Meeting>
__global__ void __launch_bounds__(kThreads, kBlocksOfProcessor)
    make_sums(Grid a, Grid b, Values<kNumbers> values, TasksView tasks, Output output) {
  extern __shared__ __align__(16) unsigned char shared[];
  auto& memory = *reinterpret_cast<Memory<kNumbers, Meeting>*>(shared);
  using ThePass = Pass<kNumbers, Meeting>;
  auto* rest = reinterpret_cast<typename ThePass::Rest*>(shared + sizeof(memory));
  for_tasks(tasks, &tasks.found->cursors[ThePass::kIsLong ? 2 : 1],
            [&](const Task& task, std::uint32_t number) {
              PairsOf<Meeting> pairs(a, b, task, memory.factors);
              if ((pairs.factors() > kShortRow) != ThePass::kIsLong) return;
              if (Block::lane() < kSide) {
                const std::int64_t row = std::int64_t{task.tile_row} * kSide + Block::lane();
                std::int64_t begin = row < output.rows ? output.row_offsets[row] : 0;
                for (int slice = 0; slice < task.slice; ++slice)
                  begin += tasks.cells[std::int64_t{number_of_slice(task, number, slice)} * kSide +
                                       Block::lane()];
                memory.row_begins[Block::lane()] = begin;
              }
              if (Block::lane() == 0) memory.meeting.fit(min(pairs.factors(), Meeting::kTilesOfA));
              if constexpr (!ThePass::kIsLong)
                for (int i = Block::warp(); i < pairs.factors(); i += Block::kWarps)
                  rest[32 * i + spgemm::lane_of_warp()] =
                      ThePass::load_tile(a.tiles[pairs.begin() + i], values.a);
              for_columns(task, task.slots_at_once * kColsOfSlot, pairs, memory.slots,
                          memory.scratch, [&](std::int32_t first_col, int cols, int tiles) {
                            for (int first = 0; first < tiles;) {
                              ThePass pass(memory, rest, pairs, first_col, first, tiles);
                              pass.find_cells(cols);
                              pass.make_sums(values, a.tiles, output);
                              first += pass.size();
                            }
                          });
            });
}

}  // namespace tessera::tile_spgemm
