// The steps of the order `matched`, each a loop whose iterations are independent, so that threads
// of a CPU and of a GPU run the same code and find the same order.
//
// A step for single threads is a functor step(i). A step for teams is a functor step(team, i): the
// team (one thread of a CPU, a warp or a thread block of a GPU) works on item i together;
// size_of(i) says which team it deserves, k...Bytes how much memory such a team shares. Results do
// not depend on the size of a team: counts are integers, and a choice goes by a key that no two
// candidates share.
//
// A cluster at level l is the rows at positions [c 2^l, (c + 1) 2^l) of the order at hand; the rows
// after the last whole cluster stay where they are.
#pragma once

#include <cstdint>

#include "kernels/host_device.hpp"

namespace tessera::matched {

using Key = unsigned long long;  // std::uint64_t to everyone but atomicMax

constexpr int kPartners = 6;     // that a cluster remembers
constexpr int kWishes = 3;       // windows that a row remembers
constexpr int kWindowLevel = 3;  // windows of eight rows
constexpr int kWindowRows = 8;
constexpr std::int32_t kNone = -1;

/// A hash that no two numbers share.
TESSERA_HOST_DEVICE constexpr std::uint32_t mixed(std::uint32_t x) {
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}

template <class T>
TESSERA_HOST_DEVICE constexpr T least(T a, T b) {
  return b < a ? b : a;
}
template <class T>
TESSERA_HOST_DEVICE constexpr T most(T a, T b) {
  return a < b ? b : a;
}

/// The pattern of a matrix, as its owner has it.
struct Pattern {
  std::int32_t rows = 0;
  std::int32_t cols = 0;
  std::int64_t nnz = 0;
  const std::int64_t* row_offsets = nullptr;  // [rows + 1]
  const std::int32_t* col_indices = nullptr;  // [nnz]
};

/// The pattern with its rows in an order, and the positions that hold each column.
struct Placed {
  std::int32_t rows = 0;
  const std::uint32_t* offsets = nullptr;      // [rows + 1]
  const std::int32_t* cols = nullptr;          // [nnz]
  const std::uint32_t* col_offsets = nullptr;  // [columns + 1]
  const std::int32_t* holders = nullptr;       // [nnz] positions, ascending in each column
  const std::uint32_t* places = nullptr;       // [nnz] of a nonzero among the holders

  /// Whether no position from `from` to that of nonzero k, which is `from` or later, holds its
  /// column before it.
  TESSERA_HOST_DEVICE bool is_first(std::uint32_t k, std::int32_t from) const {
    const std::uint32_t place = places[k];
    return place == col_offsets[cols[k]] || holders[place - 1] < from;
  }
  /// The first nonzero of a cluster; that of cluster c + 1 is the end of cluster c.
  TESSERA_HOST_DEVICE std::uint32_t begin(std::int32_t cluster, int level) const {
    return offsets[least<std::int64_t>(std::int64_t{cluster} << level, rows)];
  }
  TESSERA_HOST_DEVICE std::uint32_t length(std::int32_t cluster, int level) const {
    return begin(cluster + 1, level) - begin(cluster, level);
  }
};

/// The threads that an item deserves, and with them the memory that they share.
enum class Size { kWarp, kBlock, kWide };

TESSERA_HOST_DEVICE constexpr Size size_for(std::uint32_t length) {
  return length > 8192 ? Size::kWide : length > 1024 ? Size::kBlock : Size::kWarp;
}

/// Summands of a prefix sum: the one after the last is zero, so that its sum is that of all.
struct LengthOfRow {
  Pattern pattern;
  const std::int32_t* order;

  TESSERA_HOST_DEVICE std::uint32_t operator()(std::int64_t position) const {
    if (position >= pattern.rows) return 0;
    const std::int32_t row = order[position];
    return static_cast<std::uint32_t>(pattern.row_offsets[row + 1] - pattern.row_offsets[row]);
  }
};

struct GatherRow {
  Pattern pattern;
  const std::int32_t* order;
  const std::uint32_t* offsets;
  std::int32_t* cols;
  std::int32_t* positions;  // [nnz]

  static constexpr std::size_t kWarpBytes = 0, kBlockBytes = 0, kWideBytes = 0;
  TESSERA_HOST_DEVICE Size size_of(std::int64_t position) const {
    return size_for(offsets[position + 1] - offsets[position]);
  }
  template <class Team>
  TESSERA_HOST_DEVICE void operator()(const Team& team, std::int64_t position) const {
    const std::int64_t from = pattern.row_offsets[order[position]];
    const std::uint32_t to = offsets[position];
    team.for_each(offsets[position + 1] - to, [&](std::uint32_t k) {
      cols[to + k] = pattern.col_indices[from + k];
      positions[to + k] = static_cast<std::int32_t>(position);
    });
  }
};

/// Where each column begins among the sorted nonzeros.
struct FindColumn {
  const std::int32_t* cols;     // [nnz]
  const std::uint32_t* sorted;  // [nnz] nonzeros by column
  std::int64_t nnz;
  std::uint32_t* col_offsets;

  TESSERA_HOST_DEVICE void operator()(std::int64_t col) const {
    std::int64_t low = 0, high = nnz;
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      if (cols[sorted[middle]] < col)
        low = middle + 1;
      else
        high = middle;
    }
    col_offsets[col] = static_cast<std::uint32_t>(low);
  }
};

struct PlaceNonzero {
  const std::uint32_t* sorted;
  const std::int32_t* positions;
  std::int32_t* holders;
  std::uint32_t* places;

  TESSERA_HOST_DEVICE void operator()(std::int64_t place) const {
    const std::uint32_t k = sorted[place];
    holders[place] = positions[k];
    places[k] = static_cast<std::uint32_t>(place);
  }
};

/// The part of a column's holders that offers partners to one of them: the nearest on each side.
struct Reach {
  std::uint32_t most;

  /// Long clusters look less far, so that no cluster costs much more than its nonzeros.
  TESSERA_HOST_DEVICE Reach(std::uint32_t reach, std::uint32_t length) : most(reach) {
    constexpr std::uint32_t kLong = 2048, kLeast = 2;
    if (length > kLong)
      most = tessera::matched::most(
          least(kLeast, reach), static_cast<std::uint32_t>(std::uint64_t{reach} * kLong / length));
  }
  TESSERA_HOST_DEVICE std::uint32_t begin(std::uint32_t first, std::uint32_t place) const {
    return place - first > most ? place - most : first;
  }
  TESSERA_HOST_DEVICE std::uint32_t end(std::uint32_t last, std::uint32_t place) const {
    return last - place > most ? place + most + 1 : last;
  }
};

/// Counts a cluster's distinct columns and the partners that they offer.
struct MeasureCluster {
  Placed placed;
  int level;
  std::uint32_t reach;
  std::uint32_t* columns;  // [clusters]
  std::uint32_t* offers;   // [clusters]

  static constexpr std::size_t kWarpBytes = 8, kBlockBytes = 8, kWideBytes = 8;
  TESSERA_HOST_DEVICE Size size_of(std::int64_t cluster) const {
    return size_for(placed.length(static_cast<std::int32_t>(cluster), level));
  }
  template <class Team>
  TESSERA_HOST_DEVICE void operator()(const Team& team, std::int64_t item) const {
    const auto cluster = static_cast<std::int32_t>(item);
    auto* const sums = static_cast<std::uint32_t*>(team.shared());
    team.for_each(2, [&](std::uint32_t i) { sums[i] = 0; });
    team.sync();
    const std::uint32_t begin = placed.begin(cluster, level);
    const std::uint32_t length = placed.length(cluster, level);
    const Reach reaches(reach, length);
    std::uint32_t own_columns = 0, own_offers = 0;
    team.for_each(length, [&](std::uint32_t i) {
      const std::uint32_t k = begin + i;
      if (!placed.is_first(k, cluster << level)) return;
      const std::uint32_t first = placed.col_offsets[placed.cols[k]];
      const std::uint32_t last = placed.col_offsets[placed.cols[k] + 1];
      ++own_columns;
      own_offers += reaches.end(last, placed.places[k]) - reaches.begin(first, placed.places[k]);
    });
    team.add(&sums[0], own_columns);
    team.add(&sums[1], own_offers);
    team.sync();
    if (team.is_first()) {
      columns[cluster] = sums[0];
      if (offers != nullptr) offers[cluster] = sums[1];
    }
    team.sync();
  }
};

/// A partner and its worth in one number. Among equally good ones the nearest has the larger key.
TESSERA_HOST_DEVICE constexpr Key key_of(std::uint32_t worth, std::int32_t own,
                                         std::int32_t other) {
  const std::uint32_t distance = other > own ? 2 * static_cast<std::uint32_t>(other - own)
                                             : 2 * static_cast<std::uint32_t>(own - other) + 1;
  return Key{worth} << 32 | (0xffffffffu - distance);
}
TESSERA_HOST_DEVICE constexpr std::uint32_t worth_of(Key key) {
  return static_cast<std::uint32_t>(key >> 32);
}
TESSERA_HOST_DEVICE constexpr std::int32_t partner_of(Key key, std::int32_t own) {
  const std::uint32_t distance = 0xffffffffu - static_cast<std::uint32_t>(key);
  const auto step = static_cast<std::int32_t>(distance / 2);
  return distance % 2 == 0 ? own + step : own - step;
}

/// The most candidates that a table of so many slots holds without long searches.
TESSERA_HOST_DEVICE constexpr std::uint32_t room(std::uint32_t slots) { return slots / 4 * 3; }
/// Two sums, the slots, and a list of those in use.
constexpr std::size_t table_bytes(std::uint32_t slots) {
  return 8 * (std::size_t{slots} + 1) + 2 * room(slots);
}

/// Finds the clusters that have most columns in common with a source, which is a cluster or a row,
/// by a hash table of counts. A team whose table is too small for the candidates gives the source
/// up, and a larger team takes it. Where even the largest table is too small, clusters that meet in
/// a slot are counted together, under the name of the last one. So the result never depends on the
/// order of the counting, nor on the table.
struct FindPartners {
  Placed placed;
  int source_level;       // of a source
  int level;              // of the clusters it is compared with
  std::int32_t clusters;  // whole ones
  std::uint32_t reach;
  const std::uint32_t* offers;   // [sources] as many or more
  const std::uint32_t* columns;  // [clusters] for the worth |a and b| / |a or b|; null: |a and b|
  const std::int32_t* mates;     // [clusters] matched ones take no part; null: all do
  std::uint32_t* shared_cols;    // [sources] columns that the rest of its cluster has too; or null
  int kept;
  Key* partners;  // [sources * kept] best first; 0: none

  static constexpr std::uint32_t kLeastSlots = 64, kWarpSlots = 512, kBlockSlots = 4096,
                                 kWideSlots = 16384;
  static constexpr std::size_t kWarpBytes = table_bytes(kWarpSlots);
  static constexpr std::size_t kBlockBytes = table_bytes(kBlockSlots);
  static constexpr std::size_t kWideBytes = table_bytes(kWideSlots);
  TESSERA_HOST_DEVICE Size size_of(std::int64_t source) const {
    // Most offers name a cluster that others name too.
    constexpr std::uint32_t kWarpOffers = 4096, kBlockOffers = 32768;
    return offers[source] <= kWarpOffers    ? Size::kWarp
           : offers[source] <= kBlockOffers ? Size::kBlock
                                            : Size::kWide;
  }

  /// Whether the team's table had room for all candidates; that of the largest always has.
  template <class Team>
  TESSERA_HOST_DEVICE bool operator()(const Team& team, std::int64_t item) const {
    const auto source = static_cast<std::int32_t>(item);
    const std::int32_t own = (source << source_level) >> level;
    Key* const found = partners + item * kept;
    if (mates != nullptr && mates[own] != kNone) {
      team.for_each(kept, [&](std::uint32_t i) { found[i] = 0; });
      return true;
    }
    const std::uint32_t most_slots = team.table_slots();
    std::uint32_t size = kLeastSlots;
    while (size < most_slots && room(size) < entries(item)) size *= 2;
    Table table(team.shared(), size);
    count(team, source, table, true);
    const bool is_exact = table.sums[kUsed] <= room(size);
    if (!is_exact) {
      if (size < kWideSlots) {
        team.sync();
        return false;
      }
      team.sync();
      count(team, source, table, false);
    }
    const std::uint32_t listed = is_exact ? table.sums[kUsed] : size;
    team.for_each(listed, [&](std::uint32_t i) {
      const std::uint32_t slot = is_exact ? table.list[i] : i;
      const std::uint32_t times = table.slots[2 * slot];
      const auto cluster = static_cast<std::int32_t>(table.slots[2 * slot + 1]) - 1;
      table.keys[slot] = times == 0 ? 0 : key_of(worth(own, cluster, times), own, cluster);
    });
    if (shared_cols != nullptr && team.is_first()) shared_cols[item] = table.sums[kShared];
    team.sync();
    Key last_key = ~Key{0};
    for (int i = 0; i < kept; ++i) {
      Key mine = 0;
      if (last_key != 0)
        team.for_each(listed, [&](std::uint32_t place) {
          const Key key = table.keys[is_exact ? table.list[place] : place];
          if (key < last_key) mine = most(mine, key);
        });
      last_key = team.largest(mine);
      if (team.is_first()) found[i] = last_key;
    }
    team.sync();
    return true;
  }

 private:
  static constexpr int kShared = 0, kUsed = 1;
  struct Table {
    std::uint32_t size;
    std::uint32_t* sums;   // [2] columns that the rest of its cluster has too; slots in use
    Key* keys;             // [size]
    std::uint32_t* slots;  // [2 * size] the same memory: how often, cluster + 1
    std::uint16_t* list;   // [room(size)] slots in use

    TESSERA_HOST_DEVICE Table(void* shared, std::uint32_t slot_count)
        : size(slot_count),
          sums(static_cast<std::uint32_t*>(shared)),
          keys(static_cast<Key*>(shared) + 1),
          slots(reinterpret_cast<std::uint32_t*>(keys)),
          list(reinterpret_cast<std::uint16_t*>(keys + slot_count)) {}
  };

  /// Counts how often the source's columns offer each cluster, until the slots in use exceed their
  /// room; where not `exact`, one slot can be that of several clusters.
  template <class Team>
  TESSERA_HOST_DEVICE void count(const Team& team, std::int32_t source, const Table& table,
                                 bool exact) const {
    const std::int32_t first_row = source << source_level;
    const std::int32_t own = first_row >> level;
    team.for_each(table.size, [&](std::uint32_t i) { table.keys[i] = 0; });
    team.for_each(2, [&](std::uint32_t i) { table.sums[i] = 0; });
    team.sync();
    const std::uint32_t begin = placed.begin(source, source_level);
    const std::uint32_t length = placed.length(source, source_level);
    const Reach reaches(reach, length);
    team.for_each_in_groups(length, [&](std::uint32_t i, std::uint32_t lane, std::uint32_t lanes) {
      const std::uint32_t k = begin + i;
      if (!placed.is_first(k, first_row)) return;
      const std::uint32_t place = placed.places[k];
      const std::uint32_t first = placed.col_offsets[placed.cols[k]];
      const std::uint32_t last = placed.col_offsets[placed.cols[k] + 1];
      const std::uint32_t from = reaches.begin(first, place), to = reaches.end(last, place);
      if (shared_cols != nullptr && lane == 0)
        team.add(&table.sums[kShared],
                 (place > first && placed.holders[place - 1] >> level == own) ||
                     (place + 1 < last && placed.holders[place + 1] >> level == own));
      for (std::uint32_t other = from + lane; other < to; other += lanes) {
        const std::int32_t cluster = placed.holders[other] >> level;
        if (cluster == own || cluster >= clusters) continue;
        if (other > from && placed.holders[other - 1] >> level == cluster) continue;
        if (mates != nullptr && mates[cluster] != kNone) continue;
        const std::uint32_t name = static_cast<std::uint32_t>(cluster) + 1;
        std::uint32_t slot = mixed(name) & (table.size - 1);
        if (exact) {
          if (team.read(&table.sums[kUsed]) > room(table.size)) return;
          for (;; slot = (slot + 1) & (table.size - 1)) {
            const std::uint32_t owner = team.claim(&table.slots[2 * slot + 1], name);
            if (owner == name) break;
            if (owner != 0) continue;
            const std::uint32_t used = team.next(&table.sums[kUsed]);
            if (used < room(table.size)) table.list[used] = static_cast<std::uint16_t>(slot);
            break;
          }
        } else {
          team.raise(&table.slots[2 * slot + 1], name);
        }
        team.add(&table.slots[2 * slot], 1);
      }
    });
    team.sync();
  }

  /// At least the number of different candidates.
  TESSERA_HOST_DEVICE std::uint32_t entries(std::int64_t source) const {
    return least(offers[source], static_cast<std::uint32_t>(clusters));
  }

  TESSERA_HOST_DEVICE std::uint32_t worth(std::int32_t a, std::int32_t b,
                                          std::uint32_t common) const {
    if (columns == nullptr) return common;
    common = least(common, least(columns[a], columns[b]));
    return static_cast<std::uint32_t>(std::uint64_t{4096} * common /
                                      (columns[a] + columns[b] - common));
  }
};

/// A round of a matching, part one: everyone that is free proposes to the best free partner, and
/// both remember the best proposal that they take part in. Proposals of a later round have larger
/// keys, so that nothing is cleared between rounds.
struct Propose {
  const Key* partners;  // [clusters * kPartners]
  const std::int32_t* mates;
  Key* proposals;    // [clusters] 0: none
  std::int32_t* to;  // [clusters]
  Key* best;         // [clusters] the best proposal

  template <class Threads>
  TESSERA_HOST_DEVICE void operator()(const Threads& threads, int round, std::int64_t item) const {
    const auto own = static_cast<std::int32_t>(item);
    proposals[own] = 0;
    if (mates[own] != kNone) return;
    std::int32_t other = kNone;
    std::uint32_t worth = 0, tie = 0;
    for (int i = 0; i < kPartners; ++i) {
      const Key key = partners[item * kPartners + i];
      if (key == 0) continue;
      const std::int32_t candidate = partner_of(key, own);
      if (mates[candidate] != kNone) continue;
      // Both sides see the same tie, so that chains of equally good pairs break up.
      const std::uint32_t pair_tie =
          mixed(static_cast<std::uint32_t>(least(own, candidate)) * 0x9e3779b9u ^
                static_cast<std::uint32_t>(most(own, candidate)));
      if (other != kNone && (worth_of(key) < worth || (worth_of(key) == worth && pair_tie <= tie)))
        continue;
      other = candidate;
      worth = worth_of(key);
      tie = pair_tie;
    }
    if (other == kNone) return;
    const Key proposal = Key(round + 1) << 58 | Key{least(worth, 0x3ffffffu)} << 32 |
                         mixed(static_cast<std::uint32_t>(own));
    proposals[own] = proposal;
    to[own] = other;
    threads.raise(&best[own], proposal);
    threads.raise(&best[other], proposal);
  }
};

/// Part two: a proposal that is the best of both sides is accepted.
struct Accept {
  const Key* proposals;
  const std::int32_t* to;
  const Key* best;
  std::int32_t* mates;

  TESSERA_HOST_DEVICE void operator()(std::int64_t item) const {
    const auto own = static_cast<std::int32_t>(item);
    if (proposals[own] == 0 || best[own] != proposals[own] || best[to[own]] != proposals[own])
      return;
    mates[own] = to[own];
    mates[to[own]] = own;
  }
};

/// Before the rounds of a matching.
struct StartMatching {
  Key* best;
  std::int32_t* mates;  // nobody has a mate yet; null: mates stay
  TESSERA_HOST_DEVICE void operator()(std::int64_t i) const {
    best[i] = 0;
    if (mates != nullptr) mates[i] = kNone;
  }
};

struct Count {
  std::int32_t* values;
  TESSERA_HOST_DEVICE void operator()(std::int64_t i) const {
    values[i] = static_cast<std::int32_t>(i);
  }
};

struct FlagFree {
  const std::int32_t* mates;
  std::int32_t clusters;
  TESSERA_HOST_DEVICE std::uint32_t operator()(std::int64_t i) const {
    return i < clusters && mates[i] == kNone;
  }
};
struct ListFree {
  const std::int32_t* mates;
  const std::uint32_t* ranks;
  std::int32_t* free;
  TESSERA_HOST_DEVICE void operator()(std::int64_t i) const {
    if (mates[i] == kNone) free[ranks[i]] = static_cast<std::int32_t>(i);
  }
};
/// The clusters that nobody wants are matched in their order. An odd one stays alone.
struct MatchFree {
  const std::uint32_t* ranks;
  const std::int32_t* free;
  const std::uint32_t* free_count;
  std::int32_t* mates;
  TESSERA_HOST_DEVICE void operator()(std::int64_t i) const {
    if (mates[i] != kNone) return;
    const std::uint32_t other = ranks[i] ^ 1;
    if (other < *free_count) mates[i] = free[other];
  }
};
struct FlagLeader {
  const std::int32_t* mates;
  std::int32_t clusters;
  TESSERA_HOST_DEVICE std::uint32_t operator()(std::int64_t i) const {
    return i < clusters && mates[i] > i;
  }
};
/// Moves the rows of matched clusters together, in the order of the first of each pair.
struct MoveRow {
  const std::int32_t* order;
  const std::int32_t* mates;
  const std::uint32_t* leaders;  // [clusters] the number of leaders before
  int level;
  std::int32_t clusters;
  std::int32_t* moved;

  TESSERA_HOST_DEVICE void operator()(std::int64_t position) const {
    const std::int64_t cluster = position >> level;
    std::int64_t to = position;
    if (cluster < clusters) {
      const std::int32_t mate = mates[cluster];
      std::int64_t place = clusters - 1;  // alone: the last
      if (mate != kNone)
        place = mate > cluster ? 2 * std::int64_t{leaders[cluster]}
                               : 2 * std::int64_t{leaders[mate]} + 1;
      to = (place << level) + (position - (cluster << level));
    }
    moved[to] = order[position];
  }
};

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
