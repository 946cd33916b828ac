// The rows of row_spgemm under a mask by the words of B, where rows of B are long: a word holds up
// to 32 columns, so that one search and one AND say which of them have cells. A row of a warp keeps
// its sums in registers, a cell per lane. The warp first enters the words of some rows of B that
// meet the mask in a table of shared memory, side by side, then goes through these rows in the
// order of A's columns, and each lane looks its column up. A heavy row adds the products of each
// word to sums in shared memory. See kernels/spgemm/row/masked.hpp.
#pragma once

#include <cstdint>

#include "kernels/spgemm/row/masked_cells.cuh"
#include "kernels/spgemm/row/steps.cuh"

namespace tessera::row_spgemm {

/// The words of the row of B of nonzero `at` of A that may meet the cells, and the value of A.
__device__ inline Segment load_masked_words(const OperandsView& operands, const MaskedCells& cells,
                                            std::int32_t at) {
  const std::int32_t row_of_b = __ldg(operands.a_cols + at);
  const RowOfB of = operands.rows_of_b[row_of_b];
  const RangeOfB range = operands.ranges_of_b[row_of_b];
  Segment segment{of.begin, of.words, __ldg(operands.a_values + at)};
  if (range.first_col > cells.last_col || range.last_col < cells.first_col) segment.length = 0;
  if (cells.is_window)
    cut_row_of_b([&](std::int32_t place) { return operands.words_of_b[place].word; },
                 word_of(cells.first_col), word_of(cells.last_col), segment.begin, segment.length);
  return segment;
}

/// The word at a place in B; place -1 has none.
__device__ inline WordOfB load_word(const OperandsView& operands, std::int32_t place) {
  if (place < 0) return {-1, 0};
  const uint2 word = __ldg(reinterpret_cast<const uint2*>(operands.words_of_b) + place);
  return {static_cast<std::int32_t>(word.x), word.y};
}

/// A word of B and its first nonzero.
struct PlacedWord {
  std::uint32_t columns;
  std::int32_t place;

  /// The value of B in a column of the word, which is given as its bit.
  __device__ float value(const OperandsView& operands, std::uint32_t column) const {
    return __ldg(operands.b_values + place + __popc(columns & (column - 1)));
  }
};

/// Adds the products of nonzeros of A to the sums of their cells, each sum in the order of A's
/// columns. All lanes of the warp call it.
__device__ inline void add_masked_words(const OperandsView& operands, const MaskedCells& cells,
                                        const NonzerosOfRow& of_a, const MaskWords& words,
                                        float* sums) {
  constexpr int kSteps = 4;
  for (int first = 0; first < of_a.count; first += kWarpLanes) {
    const int i = first + lane_of_warp();
    const Segment own = i < of_a.count
                            ? load_masked_words(operands, cells, of_a.begin + i * of_a.stride)
                            : Segment{};
    StepsOfRows<kWarpLanes> steps(own.begin, own.length, own.value);
    while (!steps.is_at_end()) {
      std::int32_t places[kSteps];
      float left[kSteps], right[kSteps];
      steps.next(places, left);
      WordOfB of_b[kSteps];
#pragma unroll
      for (int u = 0; u < kSteps; ++u) of_b[u] = load_word(operands, places[u]);
      MaskWords::Word of_mask[kSteps];
      std::uint32_t common[kSteps];  // columns that have products
      bool is_some = false;
#pragma unroll
      for (int u = 0; u < kSteps; ++u) {
        of_mask[u] = words.find_word(of_b[u].word);
        common[u] = of_mask[u].columns & of_b[u].columns;
        is_some = is_some || common[u] != 0;
      }
      if (!__any_sync(kAllLanes, is_some)) continue;
      PlacedWord placed[kSteps];
#pragma unroll
      for (int u = 0; u < kSteps; ++u)
        placed[u] = {of_b[u].columns, common[u] == 0 ? 0 : __ldg(operands.places_of_b + places[u])};
      const auto load_lowest = [&](int u) {
        return common[u] == 0 ? 0 : placed[u].value(operands, common[u] & -common[u]);
      };
#pragma unroll
      for (int u = 0; u < kSteps; ++u) right[u] = load_lowest(u);
#pragma unroll
      for (int u = 0; u < kSteps; ++u) {
        const int first_cell = common[u] == 0 ? 0 : words.number_of(of_mask[u]);
        while (common[u] != 0) {
          const std::uint32_t column = common[u] & -common[u];
          const float now = right[u];
          common[u] -= column;
          right[u] = load_lowest(u);
          const int cell = first_cell + __popc(of_mask[u].columns & (column - 1));
          sums[cell] = fmaf(left[u], now, sums[cell]);
        }
        __syncwarp();  // the next step may be of another row of B, with the same cells
      }
    }
  }
}

/// Words of rows of B in the table of a warp.
constexpr int kWordsOfWarp = 2 * kCellsOfWarp;
/// Bytes of shared memory for a row of a warp: the words of the mask, then the table, which also
/// stages segments.
constexpr int kBytesOfRowByWords =
    MaskWords::bytes(kCellsOfWarp) + kWordsOfWarp * static_cast<int>(sizeof(PlacedWord));
static_assert(MaskWords::bytes(kCellsOfWarp) % alignof(Segment) == 0);
static_assert(kBytesOfRowByWords % alignof(Segment) == 0);
static_assert(kWordsOfWarp * sizeof(PlacedWord) >= kWarpLanes * sizeof(Segment));

/// The cells of a row of a warp: lane i has the cells i, i + 32, ...
struct LaneCells {
  std::uint32_t columns[kCellsOfLane];  // the bit of each in its word, 0 for none
  int words[kCellsOfLane];              // the number of its word among those of the row
  float sums[kCellsOfLane];
};

/// Enters the cells of a row in the table of its words, whose numbers ascend from 0. Returns the
/// number of words.
__device__ inline int enter_cells(const MaskedOutput& output, const MaskedCells& cells,
                                  const MaskWords& words, LaneCells& own) {
  int all = 0;
  std::int32_t last_word = -1;
#pragma unroll
  for (int c = 0; c < kCellsOfLane; ++c) {
    const int i = c * kWarpLanes + lane_of_warp();
    const bool is_cell = i < cells.count;
    const std::int32_t col = is_cell ? __ldg(output.cols + cells.first + i) : -1;
    const std::int32_t word = is_cell ? word_of(col) : -1;
    const std::int32_t below = __shfl_up_sync(kAllLanes, word, 1);
    const bool begins = is_cell && word != (lane_of_warp() == 0 ? last_word : below);
    const unsigned heads = __ballot_sync(kAllLanes, begins);
    own.columns[c] = is_cell ? 1u << (col % kWordCols) : 0;
    own.words[c] = all + __popc(heads & (lanes_before() << 1 | 1)) - 1;
    own.sums[c] = 0;
    all += __popc(heads);
    last_word = __shfl_sync(kAllLanes, word, kWarpLanes - 1);
    if (!is_cell) continue;
    output.set_col(cells.first + i, col);
    const int slot = words.enter(col);
    if (begins) words.set_number(slot, own.words[c]);
  }
  return all;
}

/// Enters the words of rows of B that meet the mask in the table [rows][words of the mask]; a
/// segment's value is the number of its row. Returns the rows that have such words, as bits.
__device__ inline unsigned enter_words(const OperandsView& operands, const MaskWords& words,
                                       int words_of_row, Chunks<float>& chunks, PlacedWord* table) {
  unsigned rows = 0;
  while (!chunks.is_at_end()) {
    std::int32_t places[kPrefetch];
    int row[kPrefetch];
#pragma unroll
    for (int u = 0; u < kPrefetch; ++u) {
      float number = 0;
      int segment, segments;
      places[u] = chunks.is_at_end() ? -1 : chunks.next(number, segment, segments);
      row[u] = __float_as_int(number);
    }
    WordOfB of_b[kPrefetch];
#pragma unroll
    for (int u = 0; u < kPrefetch; ++u) of_b[u] = load_word(operands, places[u]);
#pragma unroll
    for (int u = 0; u < kPrefetch; ++u) {
      const MaskWords::Word of_mask = words.find_word(of_b[u].word);
      if ((of_mask.columns & of_b[u].columns) == 0) continue;
      table[row[u] * words_of_row + words.number_of(of_mask)] = {
          of_b[u].columns, __ldg(operands.places_of_b + places[u])};
      rows |= 1u << row[u];
    }
  }
  return __reduce_or_sync(kAllLanes, rows);
}

/// Adds the products of rows of the table to the sums, in the order of their numbers. Row i has the
/// value of A of lane first + i.
__device__ inline void add_entered_rows(const OperandsView& operands, const MaskedCells& cells,
                                        unsigned rows, int words_of_row, int first, float value,
                                        const PlacedWord* table, LaneCells& own) {
  constexpr int kRows = 4;
  while (rows != 0) {
    const PlacedWord* of_row[kRows];
    float left[kRows];
    bool is_row[kRows];
#pragma unroll
    for (int u = 0; u < kRows; ++u) {
      is_row[u] = rows != 0;
      const int row = is_row[u] ? __ffs(static_cast<int>(rows)) - 1 : 0;
      rows &= rows - 1;
      of_row[u] = table + row * words_of_row;
      left[u] = __shfl_sync(kAllLanes, value, first + row);
    }
#pragma unroll
    for (int c = 0; c < kCellsOfLane; ++c) {
      if (c * kWarpLanes >= cells.count) break;
      float right[kRows];
      bool has_product[kRows];
#pragma unroll
      for (int u = 0; u < kRows; ++u) {
        const PlacedWord word = of_row[u][own.words[c]];
        has_product[u] = is_row[u] && (word.columns & own.columns[c]) != 0;
        right[u] = has_product[u] ? word.value(operands, own.columns[c]) : 0;
      }
#pragma unroll
      for (int u = 0; u < kRows; ++u)
        if (has_product[u]) own.sums[c] = fmaf(left[u], right[u], own.sums[c]);
    }
  }
}

/// Makes a row of at most kCellsOfWarp cells. All lanes of the warp call it. `memory` has
/// kBytesOfRowByWords bytes of shared memory.
__device__ inline void make_row_by_words(const OperandsView& operands, const MaskedOutput& output,
                                         const MaskedCells& cells, const NonzerosOfRow& of_a,
                                         unsigned char* memory) {
  const MaskWords words = MaskWords::cleared<LanesOfWarp<kWarpLanes>>(
      memory, kCellsOfWarp, cells.count, cells.first_col, cells.last_col);
  auto* const table = reinterpret_cast<PlacedWord*>(memory + MaskWords::bytes(kCellsOfWarp));
  __syncwarp();
  LaneCells own;
  const int words_of_row = enter_cells(output, cells, words, own);
  __syncwarp();
  const int most_rows = min(kWarpLanes, kWordsOfWarp / words_of_row);
  for (int set = 0; set < of_a.count; set += kWarpLanes) {
    const int lane = lane_of_warp(), of_set = min(kWarpLanes, of_a.count - set);
    const Segment segment =
        lane < of_set ? load_masked_words(operands, cells, of_a.begin + set + lane) : Segment{};
    for (int first = 0; first < of_set; first += most_rows) {
      const int row = lane - first;
      const bool is_row = row >= 0 && row < most_rows;
      Chunks<float> chunks({segment.begin, is_row ? segment.length : 0, __int_as_float(row)},
                           reinterpret_cast<Segment*>(table));
      if (chunks.total() == 0) continue;
      for (int i = lane; i < most_rows * words_of_row; i += kWarpLanes) table[i] = {0, 0};
      __syncwarp();
      const unsigned rows = enter_words(operands, words, words_of_row, chunks, table);
      __syncwarp();
      add_entered_rows(operands, cells, rows, words_of_row, first, segment.value, table, own);
      __syncwarp();
    }
  }
#pragma unroll
  for (int c = 0; c < kCellsOfLane; ++c) {
    const int i = c * kWarpLanes + lane_of_warp();
    if (i < cells.count) output.values[cells.first + i] = output.scaled(own.sums[c]);
  }
}

}  // namespace tessera::row_spgemm
