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
/// side.
struct SwapRows {
  Placed placed;
  const std::int32_t* mates;  // [windows]
  BlockCost cost;
  const std::int32_t* order;
  std::uint16_t* masks;   // [nnz]
  std::int32_t* swapped;  // [rows] the order after the swaps

  static constexpr std::uint32_t kSwaps = kWindowRows * kWindowRows;
  static constexpr std::size_t kWarpBytes = 8 * kSwaps, kBlockBytes = kWarpBytes,
                               kWideBytes = kWarpBytes;
  TESSERA_HOST_DEVICE Size size_of(std::int64_t window) const {
    return size_for(placed.length(static_cast<std::int32_t>(window), kWindowLevel));
  }

  template <class Team>
  TESSERA_HOST_DEVICE void operator()(const Team& team, std::int64_t item) const {
    const auto a = static_cast<std::int32_t>(item);
    const std::int32_t b = mates[a];
    if (b < a) return;
    find_masks(team, a, b, true);
    find_masks(team, b, a, false);
    team.sync();
    std::uint32_t side = 0xff;  // the rows of a
    std::uint64_t now = whole_cost(team, a, b, side);
    for (int swaps = 0; swaps < 2 * kWindowRows; ++swaps) {
      const std::uint64_t best = best_swap(team, a, b, side);
      if (best / kSwaps >= now) break;
      now = best / kSwaps;
      side = swap(side, static_cast<std::uint32_t>(best % kSwaps));
    }
    if (team.is_first()) {
      std::int64_t to_a = std::int64_t{a} * kWindowRows, to_b = std::int64_t{b} * kWindowRows;
      for (int i = 0; i < 2 * kWindowRows; ++i) {
        const std::int32_t row =
            order[i < kWindowRows ? std::int64_t{a} * kWindowRows + i
                                  : std::int64_t{b} * kWindowRows + i - kWindowRows];
        swapped[(side >> i & 1) != 0 ? to_a++ : to_b++] = row;
      }
    }
    team.sync();
  }

 private:
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

  /// The rows of a after a swap: one of its rows, by rank, for one of the others, by rank.
  TESSERA_HOST_DEVICE static std::uint32_t swap(std::uint32_t side, std::uint32_t index) {
    return side ^ bit(side, index / kWindowRows) ^ bit(~side, index % kWindowRows);
  }
  TESSERA_HOST_DEVICE static std::uint32_t bit(std::uint32_t bits, std::uint32_t rank) {
    for (; rank > 0; --rank) bits &= bits - 1;
    return bits & (~bits + 1);
  }

  /// Calls visit(mask) for a share of the columns of both windows.
  template <class Visit>
  TESSERA_HOST_DEVICE void for_masks(std::int32_t a, std::int32_t b, std::uint32_t share,
                                     std::uint32_t shares, Visit visit) const {
    for (const std::int32_t window : {a, b}) {
      const std::uint32_t end = placed.begin(window + 1, kWindowLevel);
      for (std::uint32_t k = placed.begin(window, kWindowLevel) + share; k < end; k += shares)
        visit(std::uint32_t{masks[k]});
    }
  }

  template <class Team>
  TESSERA_HOST_DEVICE std::uint64_t whole_cost(const Team& team, std::int32_t a, std::int32_t b,
                                               std::uint32_t side) const {
    auto* const sums = static_cast<std::uint32_t*>(team.shared());
    team.for_each(2, [&](std::uint32_t i) { sums[i] = 0; });
    team.sync();
    std::uint32_t in_a = 0, in_b = 0;
    for_masks(a, b, team.lane(), team.size(), [&](std::uint32_t mask) {
      in_a += (mask & side) != 0;
      in_b += (mask & ~side) != 0;
    });
    team.add(&sums[0], in_a);
    team.add(&sums[1], in_b);
    team.sync();
    const std::uint64_t all = cost(sums[0]) + cost(sums[1]);
    team.sync();
    return all;
  }

  /// The least cost after a swap times kSwaps, plus the index of the swap.
  template <class Team>
  TESSERA_HOST_DEVICE std::uint64_t best_swap(const Team& team, std::int32_t a, std::int32_t b,
                                              std::uint32_t side) const {
    auto* const sums = static_cast<std::uint32_t*>(team.shared());  // [2 * kSwaps]
    team.for_each(2 * kSwaps, [&](std::uint32_t i) { sums[i] = 0; });
    team.sync();
    const std::uint32_t shares = most(1u, team.size() / kSwaps);
    team.for_each(kSwaps * shares, [&](std::uint32_t i) {
      const std::uint32_t after = swap(side, i % kSwaps);
      std::uint32_t in_a = 0, in_b = 0;
      for_masks(a, b, i / kSwaps, shares, [&](std::uint32_t mask) {
        in_a += (mask & after) != 0;
        in_b += (mask & ~after) != 0;
      });
      team.add(&sums[2 * (i % kSwaps)], in_a);
      team.add(&sums[2 * (i % kSwaps) + 1], in_b);
    });
    team.sync();
    Key best = 0;
    team.for_each(kSwaps, [&](std::uint32_t i) {
      best = most(best, ~Key{(cost(sums[2 * i]) + cost(sums[2 * i + 1])) * kSwaps + i});
    });
    best = ~team.largest(best);
    team.sync();
    return best;
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
