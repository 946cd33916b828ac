#include "reorder/minhash.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "formats/base/parallel.hpp"
#include "formats/base/random.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kGrain = 2048;  // sets per chunk of a parallel loop
constexpr int kBandsAtOnce = 4;        // 8 B per set and band
constexpr int kLanes = 8;              // hashes computed at once
constexpr std::int64_t kAhead = 8;     // sets whose partners are prefetched

std::int64_t common(std::span<const std::int32_t> a, std::span<const std::int32_t> b) {
  std::int64_t count = 0;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const std::int32_t in_a = a[i], in_b = b[j];
    count += in_a == in_b;
    i += in_a <= in_b;
    j += in_b <= in_a;
  }
  return count;
}

/// The number of common columns when `a` is much shorter than `b`.
std::int64_t common_by_search(std::span<const std::int32_t> a, std::span<const std::int32_t> b) {
  std::int64_t count = 0;
  auto from = b.begin();
  for (const std::int32_t col : a) {
    from = std::lower_bound(from, b.end(), col);
    if (from == b.end()) break;
    count += *from == col;
  }
  return count;
}

/// In one band a set's key (its high half) is a hash of the least values of its columns under the
/// band's hash functions; the low half is the set.
using Key = std::uint64_t;
std::uint32_t bucket_of(Key key) { return static_cast<std::uint32_t>(key >> 32); }
std::int32_t set_of(Key key) { return static_cast<std::int32_t>(key & 0xffffffffu); }

/// The hash functions x -> a x + b modulo 2^32 of a well-mixed x; odd factors make them
/// permutations.
struct HashFunctions {
  std::vector<std::array<std::uint32_t, kLanes>> factor, shift;

  HashFunctions(int first, int count, std::uint64_t seed) {
    factor.resize((count + kLanes - 1) / kLanes);
    shift.resize(factor.size());
    for (std::size_t i = 0; i < factor.size() * kLanes; ++i) {
      const std::uint64_t bits = random_bits(seed, first + i);
      factor[i / kLanes][i % kLanes] = static_cast<std::uint32_t>(bits >> 32) | 1;
      shift[i / kLanes][i % kLanes] = static_cast<std::uint32_t>(bits);
    }
  }
};

/// The least value of each hash function over the columns. least: a multiple of kLanes.
void least_values(std::span<const std::int32_t> cols, const HashFunctions& functions,
                  std::uint64_t seed, std::vector<std::uint32_t>& least) {
  for (std::size_t i = 0; i < functions.factor.size(); ++i) {
    const auto factor = functions.factor[i], shift = functions.shift[i];
    std::array<std::uint32_t, kLanes> lanes;
    lanes.fill(~0u);
    for (const std::int32_t col : cols) {
      const auto x = static_cast<std::uint32_t>(random_bits(seed, col) >> 32);
      for (int lane = 0; lane < kLanes; ++lane)
        lanes[lane] = std::min(lanes[lane], factor[lane] * x + shift[lane]);
    }
    std::ranges::copy(lanes, least.begin() + static_cast<std::ptrdiff_t>(i) * kLanes);
  }
}

/// Sorts by bucket, keeping the order of the sets within one. `spare` is as long as `keys`.
void sort_by_bucket(std::vector<Key>& keys, std::vector<Key>& spare) {
  constexpr int kBits = 11, kDigits = 1 << kBits;
  for (int low = 32; low < 64; low += kBits) {
    const auto digit = [&](Key key) { return key >> low & (kDigits - 1); };
    std::array<std::int64_t, kDigits> place{};
    for (const Key key : keys) ++place[digit(key)];
    std::int64_t before = 0;
    for (std::int64_t& count : place) before += std::exchange(count, before);
    for (const Key key : keys) spare[place[digit(key)]++] = key;
    keys.swap(spare);
  }
}

struct Partner {
  float similarity;
  std::int32_t set;  // -1: none yet
};

class PartnerSearch {
 public:
  PartnerSearch(const ColumnSets& sets, const LshChoices& choices)
      : sets_(sets),
        choices_(choices),
        partners_(static_cast<std::size_t>(sets.size()) * choices.partners, Partner{0, -1}) {
    for (std::int32_t set = 0; set < sets.size(); ++set)
      if (!sets.of(set).empty()) filled_.push_back(set);
    for (auto& keys : keys_) keys.resize(filled_.size());
  }

  void run(Watch& watch) {
    const int bands = choices_.banding.bands;
    for (int first = 0; first < bands && !watch.stop(); first += kBandsAtOnce) {
      const int count = std::min(kBandsAtOnce, bands - first);
      hash(first, count, watch);
      parallel_for(count, 1, [&](std::int64_t band, std::int64_t) {
        std::vector<Key> spare(filled_.size());
        if (!watch.stop()) sort_by_bucket(keys_[band], spare);
      });
      for (int band = 0; band < count && !watch.stop(); ++band) compare(first + band, watch);
      watch.report(static_cast<double>(first + count) / bands);
    }
    for (auto& keys : keys_) keys = {};  // frees memory for the pairs
  }

  std::vector<SimilarPair> pairs() const {
    std::vector<SimilarPair> pairs;
    for (std::int32_t set = 0; set < sets_.size(); ++set)
      for (const Partner& partner : of(set))
        if (partner.set >= 0 && (set < partner.set || !knows(partner.set, set)))
          pairs.push_back(
              {partner.similarity, std::min(set, partner.set), std::max(set, partner.set)});
    std::ranges::sort(pairs, {}, [](const SimilarPair& pair) {
      return std::tuple(-pair.similarity, pair.first, pair.second);
    });
    return pairs;
  }

 private:
  void hash(int first_band, int bands, Watch& watch) {
    const int rows = choices_.banding.rows;
    const HashFunctions functions(first_band * rows, bands * rows, choices_.seed);
    parallel_for(std::ssize(filled_), kGrain, [&](std::int64_t begin, std::int64_t end) {
      if (watch.stop()) return;
      std::vector<std::uint32_t> least(functions.factor.size() * kLanes);
      for (std::int64_t i = begin; i < end; ++i) {
        least_values(sets_.of(filled_[i]), functions, choices_.seed, least);
        for (int band = 0; band < bands; ++band) {
          std::uint64_t key = 0;
          for (int row = 0; row < rows; ++row) key = random_bits(key, least[band * rows + row]);
          keys_[band][i] = (key & 0xffffffff00000000u) | static_cast<std::uint32_t>(filled_[i]);
        }
      }
    });
  }

  /// Compares each set with some of the other ones in its bucket of the band. The relation is
  /// symmetric but each set writes to its own partners only, so the threads share nothing.
  void compare(int band, Watch& watch) {
    const std::vector<Key>& keys = keys_[band % kBandsAtOnce];
    parallel_for(std::ssize(keys), kGrain, [&](std::int64_t begin, std::int64_t end) {
      const auto after = [](std::uint32_t bucket, Key key) { return bucket < bucket_of(key); };
      std::int64_t first = 0, last = 0;  // of the bucket
      for (std::int64_t i = begin; i < end; ++i) {
        if ((i & 63) == 0 && watch.stop()) return;
        if (i + kAhead < std::ssize(keys)) __builtin_prefetch(of(set_of(keys[i + kAhead])).data());
        if (i >= last) {
          const std::uint32_t bucket = bucket_of(keys[i]);
          first =
              i > begin ? i : std::ranges::lower_bound(keys, bucket, {}, bucket_of) - keys.begin();
          last = i + 1;
          if (last < std::ssize(keys) && bucket_of(keys[last]) == bucket)
            last = std::upper_bound(keys.begin() + last, keys.end(), bucket, after) - keys.begin();
        }
        compare(keys, first, last - first, i - first, band);
      }
    });
  }

  /// Compares the sets of one bucket. The step through a large bucket differs by band, so that a
  /// set meets different sets.
  void compare(const std::vector<Key>& keys, std::int64_t first, std::int64_t size,
               std::int64_t place, int band) {
    const std::int32_t set = set_of(keys[first + place]);
    const std::int64_t reach = choices_.reach;
    if (size <= 2 * reach + 1) {
      for (std::int64_t other = 0; other < size; ++other)
        if (other != place) meet(set, set_of(keys[first + other]));
      return;
    }
    for (std::int64_t i = 0; i < reach; ++i) {
      const std::int64_t step = 1 + (band * reach + i) % (size - 1);
      meet(set, set_of(keys[first + (place + step) % size]));
      meet(set, set_of(keys[first + (place + size - step) % size]));
    }
  }

  void meet(std::int32_t set, std::int32_t other) {
    const auto partners = of(set);
    std::size_t least = 0;
    for (std::size_t i = 0; i < partners.size(); ++i) {
      if (partners[i].set == other) return;
      if (partners[i].similarity < partners[least].similarity) least = i;
    }
    const auto a = sets_.of(set), b = sets_.of(other);
    const float most = static_cast<float>(std::min(a.size(), b.size())) /
                       static_cast<float>(std::max(a.size(), b.size()));
    if (most <= partners[least].similarity) return;
    const float similarity = jaccard_similarity(a, b);
    if (similarity > partners[least].similarity) partners[least] = {similarity, other};
  }

  std::span<Partner> of(std::int32_t set) {
    return {partners_.data() + std::int64_t{set} * choices_.partners,
            static_cast<std::size_t>(choices_.partners)};
  }
  std::span<const Partner> of(std::int32_t set) const {
    return {partners_.data() + std::int64_t{set} * choices_.partners,
            static_cast<std::size_t>(choices_.partners)};
  }
  bool knows(std::int32_t set, std::int32_t other) const {
    return std::ranges::find(of(set), other, &Partner::set) != of(set).end();
  }

  const ColumnSets& sets_;
  const LshChoices& choices_;
  std::vector<Partner> partners_;                    // [sets * choices.partners]
  std::vector<std::int32_t> filled_;                 // the sets that are not empty
  std::array<std::vector<Key>, kBandsAtOnce> keys_;  // [filled sets] each
};

}  // namespace

float jaccard_similarity(std::span<const std::int32_t> a, std::span<const std::int32_t> b) {
  if (a.size() > b.size()) std::swap(a, b);
  if (a.empty()) return 0;
  const std::int64_t both = b.size() / a.size() >= 16 ? common_by_search(a, b) : common(a, b);
  return static_cast<float>(static_cast<double>(both) /
                            static_cast<double>(std::ssize(a) + std::ssize(b) - both));
}

Banding banding(int hashes, double threshold) {
  constexpr int kSteps = 500;
  Banding best;
  double least = std::numeric_limits<double>::infinity();
  for (int bands = 1; bands <= hashes; ++bands) {
    for (int rows = 1; rows <= hashes / bands; ++rows) {
      double wrong = 0;
      for (int step = 0; step < kSteps; ++step) {
        const double s = (step + 0.5) / kSteps;
        const double missed = std::pow(1 - std::pow(s, rows), bands);
        wrong += s < threshold ? 1 - missed : missed;
      }
      if (wrong >= least) continue;
      least = wrong;
      best = {bands, rows};
    }
  }
  return best;
}

std::vector<SimilarPair> similar_pairs(const ColumnSets& sets, const LshChoices& choices,
                                       Watch& watch) {
  PartnerSearch search(sets, choices);
  search.run(watch);
  return search.pairs();
}

}  // namespace tessera
