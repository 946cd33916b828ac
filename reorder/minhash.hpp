// Finding similar sets of columns without comparing all pairs: MinHash signatures (Broder 1997) are
// cut into bands, and sets that agree in a whole band are compared (locality-sensitive hashing).
//
// Two sets of Jaccard similarity s agree in one of b bands of r hashes with the probability
// 1 - (1 - s^r)^b; b and r follow from a threshold as in the library datasketch, which the scripts
// of DTC-SpMM and of the earlier LSH order call: they minimise the sum of the areas of false
// positives below the threshold and of false negatives above it. Departures: signatures are not
// kept, and a few bands are hashed at a time; a set is compared with a bounded number of sets of
// its bucket and keeps a bounded number of partners, so a column that all rows share costs no more
// than another.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reorder/watch.hpp"

namespace tessera {

/// Sets of columns, each ascending and distinct: rows of a matrix, or clusters of rows.
struct ColumnSets {
  std::span<const std::int64_t> offsets;  // [sets + 1]
  std::span<const std::int32_t> cols;     // [offsets.back()]

  std::int32_t size() const { return static_cast<std::int32_t>(offsets.size()) - 1; }
  std::span<const std::int32_t> of(std::int32_t set) const {
    return cols.subspan(offsets[set], offsets[set + 1] - offsets[set]);
  }
};

/// Jaccard similarity, |a and b| / |a or b|; 0 if one of them is empty.
float jaccard_similarity(std::span<const std::int32_t> a, std::span<const std::int32_t> b);

struct Banding {
  int bands = 1;
  int rows = 1;  // hashes of a band
};

/// The division of at most `hashes` hashes into bands that best separates pairs of sets above the
/// threshold from those below.
Banding banding(int hashes, double threshold);

struct LshChoices {
  Banding banding;
  int reach = 8;     // sets of a bucket that a set is compared with on each side
  int partners = 8;  // number of most similar sets that a set keeps
  std::uint64_t seed = 1;
};

/// Two similar sets: first < second.
struct SimilarPair {
  float similarity = 0;  // Jaccard, exact
  std::int32_t first = 0;
  std::int32_t second = 0;
};

/// The pairs in which one set is among the partners of the other, the most similar first, then by
/// index. Empty sets have no partner. When stopped, it returns the pairs found so far. Time: hashes
/// * columns, in parallel. Memory: 8 B per partner, 40 B per set and 8 B per set and thread, then
/// 12 B per pair.
std::vector<SimilarPair> similar_pairs(const ColumnSets& sets, const LshChoices& choices,
                                       Watch& watch);

}  // namespace tessera
