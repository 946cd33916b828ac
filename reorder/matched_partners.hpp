// Steps of the order `matched` (matched_steps.hpp) that find the clusters with most columns in
// common, match each with one of them, and move the rows of both together.
#pragma once

#include <cstdint>

#include "kernels/host_device.hpp"
#include "reorder/matched_steps.hpp"

namespace tessera::matched {

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

/// Holders of a column, from one up to another.
struct Range {
  std::uint32_t begin, end;
};

/// A holder in a range.
struct Visit {
  std::uint32_t place;  // kNoPlace: none
  bool is_first;        // of its range
};
constexpr std::uint32_t kNoPlace = 0xffffffffu;

/// Holders that a thread visits at a time, so that what it reads of them is waited for together.
constexpr int kTogether = 4;

/// Counts a cluster's distinct columns and the partners that they offer.
struct MeasureCluster {
  Placed placed;
  int level;
  std::uint32_t reach;
  std::uint32_t* columns;  // [clusters]
  std::uint32_t* offers;   // [clusters]

  static constexpr std::size_t kSharedBytes = 8;
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

/// The largest keys that were added, in descending order.
struct BestKeys {
  Key keys[kPartners] = {};  // 0: none

  TESSERA_HOST_DEVICE void add(Key key) {
    if (key <= keys[kPartners - 1]) return;
    for (int i = 0; i < kPartners; ++i) {
      const Key smaller = least(keys[i], key);
      keys[i] = most(keys[i], key);
      key = smaller;
    }
  }
  TESSERA_HOST_DEVICE void remove_first() {
    for (int i = 0; i + 1 < kPartners; ++i) keys[i] = keys[i + 1];
    keys[kPartners - 1] = 0;
  }
};

/// What candidates are worth to a cluster: the share |a and b| / |a or b| of the columns of both,
/// or |a and b| where columns are not counted. The columns of a candidate alone can weigh less.
struct Judge {
  const std::uint32_t* columns;  // [clusters] or null
  std::int32_t own;
  std::uint32_t own_columns;
  int shift = 0;  // columns of a candidate alone weigh 2^-shift

  TESSERA_HOST_DEVICE Judge(const std::uint32_t* all_columns, std::int32_t own_cluster)
      : columns(all_columns),
        own(own_cluster),
        own_columns(all_columns == nullptr ? 0 : all_columns[own_cluster]) {}
  TESSERA_HOST_DEVICE Judge(const std::uint32_t* all_columns, std::int32_t own_cluster,
                            std::uint32_t columns_of_own, int shift_of_others)
      : columns(all_columns),
        own(own_cluster),
        own_columns(columns_of_own),
        shift(shift_of_others) {}

  TESSERA_HOST_DEVICE Key key(std::int32_t cluster, std::uint32_t common) const {
    return key_of(worth(common, columns_of(cluster)), own, cluster);
  }
  TESSERA_HOST_DEVICE std::uint32_t columns_of(std::int32_t cluster) const {
    return columns == nullptr ? 0 : columns[cluster];
  }
  /// The worth of a cluster that has `others` columns, `common` of them with the own cluster.
  TESSERA_HOST_DEVICE std::uint32_t worth(std::uint32_t common, std::uint32_t others) const {
    if (columns == nullptr) return common;
    common = limited(common, others);
    // A GPU divides 32 bits several times faster than 64.
    return common < (1u << 20)
               ? kUnit * common / all(common, others)
               : static_cast<std::uint32_t>(std::uint64_t{kUnit} * common / all(common, others));
  }
  /// Whether that is `enough` or more, found without a division.
  TESSERA_HOST_DEVICE bool is_worth(std::uint32_t common, std::uint32_t others,
                                    std::uint32_t enough) const {
    if (columns == nullptr) return common >= enough;
    common = limited(common, others);
    return std::uint64_t{kUnit} * common >= std::uint64_t{enough} * all(common, others);
  }
  /// Nothing with less in common is worth as much: both together have the own columns at least.
  TESSERA_HOST_DEVICE std::uint32_t least_common(std::uint32_t worth) const {
    if (columns == nullptr) return most(1u, worth);
    return most(
        1u, static_cast<std::uint32_t>((std::uint64_t{worth} * own_columns + kUnit - 1) / kUnit));
  }

 private:
  TESSERA_HOST_DEVICE std::uint32_t limited(std::uint32_t common, std::uint32_t others) const {
    return least(common, least(own_columns, others));
  }
  TESSERA_HOST_DEVICE std::uint32_t all(std::uint32_t common, std::uint32_t others) const {
    return own_columns + ((others - common) >> shift);
  }

  static constexpr std::uint32_t kUnit = 4096;
};

/// Finds the clusters that have most columns in common with a source, which is a cluster or a row.
/// How a team counts is its own: team.count() calls for all candidates, then judges the number of
/// each. A team whose memory is too small for the candidates gives the source up, and a larger team
/// takes it. Counts are exact, so that the result depends on neither.
struct FindPartners {
  Placed placed;
  int source_level;       // of a source
  int level;              // of the clusters it is compared with
  std::int32_t clusters;  // whole ones
  std::uint32_t reach;
  const std::uint32_t* offers;   // [sources] as many or more; null: as many as a length allows
  const std::uint32_t* columns;  // [clusters] for the worth |a and b| / |a or b|; null: |a and b|
  const std::int32_t* mates;     // [clusters] matched ones take no part; null: all do
  std::uint32_t* shared_cols;    // [sources] columns that the rest of its cluster has too; or null
  int kept;
  Key* partners;  // [sources * kept] best first; 0: none

  TESSERA_HOST_DEVICE Size size_of(std::int64_t source) const {
    // Most offers name a cluster that others name too. Where sources are few, warps for them leave
    // most of a GPU idle, so that blocks take smaller ones.
    constexpr std::uint64_t kWarpOffers = 2048, kBlockOffers = 32768, kManySources = 32768;
    const std::uint64_t sources = static_cast<std::uint64_t>(clusters) << (level - source_level);
    const std::uint64_t warp_offers = kWarpOffers * least(sources, kManySources) / kManySources;
    if (!takes_part(cluster_of(source))) return Size::kWarp;
    const std::uint64_t most = most_offers(source);
    return most <= warp_offers ? Size::kWarp : most <= kBlockOffers ? Size::kBlock : Size::kWide;
  }

  /// Whether the team had memory for all candidates; the largest always has.
  template <class Team>
  TESSERA_HOST_DEVICE bool operator()(const Team& team, std::int64_t item) const {
    const auto source = static_cast<std::int32_t>(item);
    const std::int32_t own = cluster_of(item);
    Key* const found = partners + item * kept;
    if (!takes_part(own)) {
      team.for_each(static_cast<std::uint32_t>(kept), [&](std::uint32_t i) { found[i] = 0; });
      return true;
    }
    BestKeys best;
    std::uint32_t with_own = 0;
    const std::uint64_t offered = most_offers(item);
    const bool counted = team.count(
        clusters, static_cast<std::uint32_t>(least(offered, static_cast<std::uint64_t>(clusters))),
        static_cast<std::uint32_t>(
            least(offered, std::uint64_t{placed.length(source, source_level)})),
        kept, Judge(columns, own),
        [&](auto add) { with_own = for_candidates(team, source, own, add); }, best);
    if (!counted) return false;
    team.store_largest(best, kept, found);
    if (shared_cols != nullptr) team.store_sum(with_own, shared_cols + item);
    return true;
  }

 private:
  TESSERA_HOST_DEVICE std::int32_t cluster_of(std::int64_t source) const {
    return static_cast<std::int32_t>((source << source_level) >> level);
  }
  TESSERA_HOST_DEVICE bool takes_part(std::int32_t cluster) const {
    return mates == nullptr || mates[cluster] == kNone;
  }
  TESSERA_HOST_DEVICE std::uint64_t most_offers(std::int64_t source) const {
    if (offers != nullptr) return offers[source];
    return (2 * std::uint64_t{reach} + 1) *
           placed.length(static_cast<std::int32_t>(source), source_level);
  }

  /// Calls add(cluster) for each column that the source and another cluster share, until it returns
  /// false. Returns a thread's share of the columns that the rest of the source's cluster has too.
  template <class Team, class Add>
  TESSERA_HOST_DEVICE std::uint32_t for_candidates(const Team& team, std::int32_t source,
                                                   std::int32_t own, Add add) const {
    const std::int32_t first_row = source << source_level;
    const std::uint32_t begin = placed.begin(source, source_level);
    const std::uint32_t length = placed.length(source, source_level);
    const Reach reaches(reach, length);
    std::uint32_t with_own = 0;
    const auto range_of = [&](std::uint32_t i) -> Range {
      const std::uint32_t k = begin + i;
      if (!placed.is_first(k, first_row)) return {0, 0};
      const std::uint32_t place = placed.places[k];
      const std::uint32_t first = placed.col_offsets[placed.cols[k]];
      const std::uint32_t last = placed.col_offsets[placed.cols[k] + 1];
      if (shared_cols != nullptr)
        with_own += (place > first && placed.holders[place - 1] >> level == own) ||
                    (place + 1 < last && placed.holders[place + 1] >> level == own);
      return {reaches.begin(first, place), reaches.end(last, place)};
    };
    team.for_each_in_ranges(length, range_of, [&](const Visit* visits) {
      // All are read before one is looked at, and read where there is none, since a thread waits
      // at every branch for what decides it.
      std::int32_t found[kTogether], before[kTogether];
      bool is_new[kTogether];
      for (int i = 0; i < kTogether; ++i) {
        const std::uint32_t place = visits[i].place == kNoPlace ? begin : visits[i].place;
        found[i] = placed.holders[place] >> level;
        before[i] = placed.holders[most(place, 1u) - 1] >> level;
      }
      // Not the source's own cluster, nor one that the column has offered already.
      for (int i = 0; i < kTogether; ++i)
        is_new[i] = visits[i].place != kNoPlace && found[i] != own && found[i] < clusters &&
                    (visits[i].is_first || before[i] != found[i]);
      if (mates != nullptr) {
        std::int32_t mates_of[kTogether];
        for (int i = 0; i < kTogether; ++i) mates_of[i] = mates[least(found[i], clusters - 1)];
        for (int i = 0; i < kTogether; ++i) is_new[i] = is_new[i] && mates_of[i] == kNone;
      }
      for (int i = 0; i < kTogether; ++i)
        if (is_new[i] && !add(found[i])) return false;
      return true;
    });
    return with_own;
  }
};

/// What decides between equally good pairs. Both sides see the same, so that chains of such pairs
/// break up.
TESSERA_HOST_DEVICE constexpr std::uint32_t tie_of(std::int32_t a, std::int32_t b) {
  return mixed(static_cast<std::uint32_t>(least(a, b)) * 0x9e3779b9u ^
               static_cast<std::uint32_t>(most(a, b)));
}

/// A round of a matching, part one: everyone that is free proposes to the best free partner, and
/// both remember the best proposal that they take part in. Proposals of a later round have larger
/// keys, so that nothing is cleared between rounds. Returns whether there is a proposal; after a
/// round without any, more rounds change nothing.
struct Propose {
  const Key* partners;  // [clusters * kPartners]
  const std::int32_t* mates;
  Key* proposals;    // [clusters] 0: none
  std::int32_t* to;  // [clusters]
  Key* best;         // [clusters] the best proposal

  template <class Threads>
  TESSERA_HOST_DEVICE bool operator()(const Threads& threads, int round, std::int64_t item) const {
    const auto own = static_cast<std::int32_t>(item);
    proposals[own] = 0;
    if (mates[own] != kNone) return false;
    std::int32_t other = kNone;
    std::uint32_t worth = 0, tie = 0;
    for (int i = 0; i < kPartners; ++i) {
      const Key key = partners[item * kPartners + i];
      if (key == 0) continue;
      const std::int32_t candidate = partner_of(key, own);
      if (mates[candidate] != kNone) continue;
      const std::uint32_t pair_tie = tie_of(own, candidate);
      if (other != kNone && (worth_of(key) < worth || (worth_of(key) == worth && pair_tie <= tie)))
        continue;
      other = candidate;
      worth = worth_of(key);
      tie = pair_tie;
    }
    if (other == kNone) return false;
    const Key proposal = Key(round + 1) << 58 | Key{least(worth, 0x3ffffffu)} << 32 |
                         mixed(static_cast<std::uint32_t>(own));
    proposals[own] = proposal;
    to[own] = other;
    threads.raise(&best[own], proposal);
    threads.raise(&best[other], proposal);
    return true;
  }
};

/// Part two: a proposal that is the best of both sides is accepted.
struct Accept {
  const Key* proposals;
  const std::int32_t* to;
  const Key* best;
  std::int32_t* mates;

  TESSERA_HOST_DEVICE void operator()(int, std::int64_t item) const {
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

}  // namespace tessera::matched
