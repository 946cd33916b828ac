// Steps of the order `matched` (matched_steps.hpp) on complete windows of eight rows: pairs whose
// rows would gain by a change of places, the swaps between two windows, and the choice between the
// order that was found and the file's.
#pragma once

#include <cstdint>

#include "kernels/host_device.hpp"
#include "reorder/matched_partners.hpp"
#include "reorder/matched_steps.hpp"

namespace tessera::matched {

/// The windows that rows of a window would rather be in, best first. The gain of a row is the
/// columns that it shares there minus those that it shares here.
struct CollectWishes {
  const Key* wishes;                 // [rows * kWishes]
  const std::uint32_t* shared_cols;  // [rows]
  Key* partners;                     // [windows * kPartners]
  static constexpr std::int32_t kLeastWish = -6;
  static constexpr std::uint32_t kZero = 1 << 20;  // the worth of a gain of zero

  TESSERA_HOST_DEVICE void operator()(std::int64_t item) const {
    const auto own = static_cast<std::int32_t>(item);
    Key* const kept = partners + item * kPartners;
    for (int i = 0; i < kPartners; ++i) kept[i] = 0;
    for (std::int64_t row = item * kWindowRows; row < (item + 1) * kWindowRows; ++row) {
      for (int i = 0; i < kWishes; ++i) {
        const Key wish = wishes[row * kWishes + i];
        if (wish == 0) break;
        const auto gain = static_cast<std::int32_t>(least(worth_of(wish), kZero / 2)) -
                          static_cast<std::int32_t>(least(shared_cols[row], kZero / 2));
        if (gain < kLeastWish) break;
        keep(key_of(kZero + static_cast<std::uint32_t>(gain), own, partner_of(wish, own)), kept);
      }
    }
  }

 private:
  /// Adds a key unless its window is there with a larger one.
  TESSERA_HOST_DEVICE static void keep(Key key, Key* kept) {
    for (int i = 0; i < kPartners; ++i) {
      const Key before = kept[i];
      const bool is_same = static_cast<std::uint32_t>(before) == static_cast<std::uint32_t>(key);
      if (before >= key && is_same) return;
      if (before >= key) continue;
      kept[i] = key;
      if (before == 0 || is_same) return;
      key = before;
    }
  }
};

/// Keeps the partners that wish for this window too; the worth is the sum of both gains.
struct AnswerWishes {
  const Key* wishes;  // [windows * kPartners]
  Key* partners;      // [windows * kPartners]

  TESSERA_HOST_DEVICE void operator()(std::int64_t item) const {
    const auto own = static_cast<std::int32_t>(item);
    for (int i = 0; i < kPartners; ++i) {
      const Key wish = wishes[item * kPartners + i];
      Key& answer = partners[item * kPartners + i];
      answer = 0;
      if (wish == 0) continue;
      const std::int32_t other = partner_of(wish, own);
      for (int j = 0; j < kPartners; ++j) {
        const Key back = wishes[std::int64_t{other} * kPartners + j];
        if (back == 0 || partner_of(back, other) != own) continue;
        const std::uint32_t sum = worth_of(wish) + worth_of(back);
        if (sum + 1 >= 2 * CollectWishes::kZero)
          answer = key_of(sum - CollectWishes::kZero, own, other);
      }
    }
  }
};

/// Forgets the pairs that were matched before, so that another matching finds others.
struct ForgetMate {
  const std::int32_t* mates;
  Key* partners;
  TESSERA_HOST_DEVICE void operator()(std::int64_t item) const {
    const auto own = static_cast<std::int32_t>(item);
    for (int i = 0; i < kPartners; ++i) {
      Key& key = partners[item * kPartners + i];
      if (key != 0 && mates[item] == partner_of(key, own)) key = 0;
    }
  }
};

struct MateNeighbour {
  std::int32_t windows;
  std::int32_t* mates;
  TESSERA_HOST_DEVICE void operator()(std::int64_t item) const {
    const auto other = static_cast<std::int32_t>(item) ^ 1;
    mates[item] = other < windows ? other : kNone;
  }
};

/// The cost of a window: its full TC blocks and a share of the last one that rises steeply at
/// first, so that a swap pays that empties the last block of one window, even when the other takes
/// the columns (as in window_swaps.cpp).
struct BlockCost {
  std::uint32_t last[8];
  TESSERA_HOST_DEVICE std::uint64_t operator()(std::uint32_t cols) const {
    return std::uint64_t{cols / 8} * 1024 + last[cols % 8];
  }
};

/// Divides the sixteen rows of two windows anew: the best swap is made until none lowers the cost.
/// Each column is a mask of the rows that hold it, and a swap only changes which rows are on which
/// side. A column adds to few of the counts that all swaps are judged by.
struct SwapRows {
  Placed placed;
  const std::int32_t* mates;  // [windows]
  BlockCost cost;
  const std::int32_t* order;
  std::uint16_t* masks;    // [nnz]
  std::int32_t* swapped;   // [rows] the order after the swaps
  std::uint32_t* columns;  // [windows] of matched windows, after the swaps; or null

  static constexpr std::uint32_t kRows = 2 * kWindowRows, kSwaps = kWindowRows * kWindowRows;
  static constexpr std::uint32_t kSums = 2 + 2 * kRows + kRows * kRows;
  static constexpr std::size_t kSharedBytes = 4 * kSums;
  TESSERA_HOST_DEVICE Size size_of(std::int64_t item) const {
    const auto a = static_cast<std::int32_t>(item);
    const std::int32_t b = mates[a];
    return b < a ? Size::kWarp
                 : size_for(placed.length(a, kWindowLevel) + placed.length(b, kWindowLevel));
  }

  template <class Team>
  TESSERA_HOST_DEVICE void operator()(const Team& team, std::int64_t item) const {
    const auto a = static_cast<std::int32_t>(item);
    const std::int32_t b = mates[a], rows_of_a = a * kWindowRows;
    const std::int32_t rest = (placed.rows >> kWindowLevel) * kWindowRows;
    if (b == kNone) copy(team, rows_of_a, kWindowRows);
    if (rows_of_a + kWindowRows == rest) copy(team, rest, placed.rows - rest);
    if (b < a) return;
    find_masks(team, a, b, true);
    find_masks(team, b, a, false);
    team.sync();
    std::uint32_t side = 0xff;  // the rows of a
    const Sums sums(team.shared());
    for (std::uint32_t swaps = 0;; ++swaps) {
      add_up(team, a, b, side, sums);
      if (swaps == kRows) break;
      const std::uint64_t best = best_swap(team, side, sums);
      if (best / kSwaps >= cost(sums.columns[0]) + cost(sums.columns[1])) break;
      side = swap(side, static_cast<std::uint32_t>(best % kSwaps));
      team.sync();
    }
    if (team.is_first()) {
      std::int32_t to_a = rows_of_a, to_b = b * kWindowRows;
      for (std::int32_t i = 0; i < 2 * kWindowRows; ++i)
        swapped[(side >> i & 1) != 0 ? to_a++ : to_b++] =
            order[i < kWindowRows ? rows_of_a + i : (b - 1) * kWindowRows + i];
      if (columns != nullptr) {
        columns[a] = sums.columns[0];
        columns[b] = sums.columns[1];
      }
    }
    team.sync();
  }

 private:
  /// Numbers of columns, in the memory that a team shares.
  struct Sums {
    std::uint32_t* columns;  // [2] of both sides
    std::uint32_t* alone;    // [kRows] that no other row of the row's side holds
    std::uint32_t* absent;   // [kRows] of a row that the other side lacks
    std::uint32_t*
        alone_with;  // [kRows * kRows] those of `alone` that a row of the other side holds

    TESSERA_HOST_DEVICE explicit Sums(void* shared)
        : columns(static_cast<std::uint32_t*>(shared)),
          alone(columns + 2),
          absent(alone + kRows),
          alone_with(absent + kRows) {}
  };

  template <class Team>
  TESSERA_HOST_DEVICE void copy(const Team& team, std::int32_t first, std::int32_t rows) const {
    team.for_each(static_cast<std::uint32_t>(rows),
                  [&](std::uint32_t i) { swapped[first + i] = order[first + i]; });
  }

  /// The holders of a column among the rows of a window, as bits, from a place at or before them.
  TESSERA_HOST_DEVICE std::uint32_t rows_of(std::int32_t window, std::uint32_t place,
                                            std::uint32_t last) const {
    const std::int32_t begin = window * kWindowRows;
    std::uint32_t rows = 0;
    for (; place < last && placed.holders[place] < begin + kWindowRows; ++place)
      rows |= 1u << (placed.holders[place] - begin);
    return rows;
  }

  /// Writes the mask of each column at its first nonzero in the window; columns that both windows
  /// hold at that of a.
  template <class Team>
  TESSERA_HOST_DEVICE void find_masks(const Team& team, std::int32_t own, std::int32_t other,
                                      bool is_a) const {
    const std::uint32_t begin = placed.begin(own, kWindowLevel);
    team.for_each(placed.length(own, kWindowLevel), [&](std::uint32_t i) {
      const std::uint32_t k = begin + i;
      masks[k] = 0;
      if (!placed.is_first(k, own * kWindowRows)) return;
      const std::uint32_t last = placed.col_offsets[placed.cols[k] + 1];
      std::uint32_t low = is_a ? placed.places[k] : placed.col_offsets[placed.cols[k]];
      std::uint32_t high = is_a ? last : placed.places[k];  // a lies before b
      while (low < high) {
        const std::uint32_t middle = (low + high) / 2;
        if (placed.holders[middle] < other * kWindowRows)
          low = middle + 1;
        else
          high = middle;
      }
      const std::uint32_t there = rows_of(other, low, last);
      const std::uint32_t here = rows_of(own, placed.places[k], last);
      if (is_a)
        masks[k] = static_cast<std::uint16_t>(here | there << kWindowRows);
      else if (there == 0)
        masks[k] = static_cast<std::uint16_t>(here << kWindowRows);
    });
  }

  TESSERA_HOST_DEVICE static constexpr std::uint32_t lowest(std::uint32_t bits) {
    return bits & (~bits + 1);
  }
  /// The rows of a after a swap: one of its rows, by rank, for one of the others, by rank.
  TESSERA_HOST_DEVICE static std::uint32_t swap(std::uint32_t side, std::uint32_t index) {
    return side ^ 1u << row(side, index / kWindowRows) ^ 1u << row(~side, index % kWindowRows);
  }
  TESSERA_HOST_DEVICE static std::uint32_t row(std::uint32_t bits, std::uint32_t rank) {
    for (; rank > 0; --rank) bits ^= lowest(bits);
    return index_of(lowest(bits));
  }
  TESSERA_HOST_DEVICE static constexpr std::uint32_t index_of(std::uint32_t bit) {
    return ((bit & 0xff00u) != 0) * 8u + ((bit & 0xf0f0u) != 0) * 4u + ((bit & 0xccccu) != 0) * 2u +
           ((bit & 0xaaaau) != 0);
  }
  /// Calls visit(row) for each of the rows.
  template <class Visit>
  TESSERA_HOST_DEVICE static void for_rows(std::uint32_t rows, Visit visit) {
    for (; rows != 0; rows ^= lowest(rows)) visit(index_of(lowest(rows)));
  }

  /// The columns of both sides, and what swaps change: a column of one side that has one row there
  /// leaves with it, unless the row in exchange holds it, and enters with any of its rows.
  template <class Team>
  TESSERA_HOST_DEVICE void add_up(const Team& team, std::int32_t a, std::int32_t b,
                                  std::uint32_t side, const Sums& sums) const {
    team.for_each(kSums, [&](std::uint32_t i) { sums.columns[i] = 0; });
    team.sync();
    std::uint32_t in_a = 0, in_b = 0;
    const auto add_rows = [&](std::uint32_t own, std::uint32_t other) {
      if (own == 0) return;
      if (other == 0) for_rows(own, [&](std::uint32_t i) { team.add(&sums.absent[i], 1); });
      if (own != lowest(own)) return;
      const std::uint32_t i = index_of(own);
      team.add(&sums.alone[i], 1);
      for_rows(other, [&](std::uint32_t j) { team.add(&sums.alone_with[kRows * i + j], 1); });
    };
    for (const std::int32_t window : {a, b}) {
      const std::uint32_t begin = placed.begin(window, kWindowLevel);
      team.for_each(placed.length(window, kWindowLevel), [&](std::uint32_t i) {
        const std::uint32_t mask = masks[begin + i];
        in_a += (mask & side) != 0;
        in_b += (mask & ~side) != 0;
        add_rows(mask & side, mask & ~side);
        add_rows(mask & ~side, mask & side);
      });
    }
    team.add(&sums.columns[0], in_a);
    team.add(&sums.columns[1], in_b);
    team.sync();
  }

  /// The least cost after a swap times kSwaps, plus the index of the swap.
  template <class Team>
  TESSERA_HOST_DEVICE std::uint64_t best_swap(const Team& team, std::uint32_t side,
                                              const Sums& sums) const {
    Key best = 0;
    team.for_each(kSwaps, [&](std::uint32_t index) {
      const std::uint32_t i = row(side, index / kWindowRows), j = row(~side, index % kWindowRows);
      const auto after = [&](std::uint32_t columns, std::uint32_t leaves, std::uint32_t enters) {
        return cost(columns - sums.alone[leaves] + sums.alone_with[kRows * leaves + enters] +
                    sums.absent[enters]);
      };
      best = most(
          best,
          ~Key{(after(sums.columns[0], i, j) + after(sums.columns[1], j, i)) * kSwaps + index});
    });
    return ~team.largest(best);
  }
};

/// The TC blocks of a window with so many columns.
struct CountBlocks {
  const std::uint32_t* columns;
  std::int64_t windows;
  TESSERA_HOST_DEVICE std::uint32_t operator()(std::int64_t i) const {
    return i < windows ? (columns[i] + 7) / 8 : 0;
  }
};

struct ChooseRow {
  const std::uint32_t* blocks_before;  // of the file's order
  const std::uint32_t* blocks_after;
  std::int32_t* order;
  TESSERA_HOST_DEVICE void operator()(std::int64_t i) const {
    if (*blocks_after >= *blocks_before) order[i] = static_cast<std::int32_t>(i);
  }
};

}  // namespace tessera::matched
