// Clusters of similar sets of columns, merged pair by pair from the most similar pair on, for the
// LSH orders of GNN-Computing and DTC-SpMM.
//
// As in their public scripts, a cluster is represented by the set at its root, which is the root of
// the larger of the two clusters that it was merged from. It takes part until it is full; its last
// merge may leave it with almost twice the full size. A pair whose clusters have grown is queued
// again with the similarity of their roots, even when that is low. Departures: pairs of equal
// similarity are taken in the order of their indices, and a pair may be queued twice.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "formats/base/params.hpp"
#include "reorder/minhash.hpp"
#include "reorder/watch.hpp"

namespace tessera {

/// Sets by cluster: ascending within one, the clusters in the order of their first set.
struct Clusters {
  std::vector<std::int32_t> sets;     // [number of sets]
  std::vector<std::int32_t> offsets;  // [clusters + 1]

  std::int32_t size() const { return static_cast<std::int32_t>(offsets.size()) - 1; }
  std::span<const std::int32_t> of(std::int32_t cluster) const {
    return {sets.data() + offsets[cluster],
            static_cast<std::size_t>(offsets[cluster + 1] - offsets[cluster])};
  }
};

/// Merges the pairs of similar_pairs, in their order. A cluster takes part until it has `full`
/// sets. When stopped, no pair is queued again, and the remaining ones are processed once. One
/// thread.
Clusters cluster_pairs(const ColumnSets& sets, std::vector<SimilarPair> pairs, std::int32_t full,
                       Watch& watch);

/// The parameters of an order by such clusters of rows, and their choices for the search of pairs.
/// lsh_choices throws an Error when there are more bands than hashes.
std::vector<ParamSpec> lsh_params(std::int64_t hashes, std::int64_t partners,
                                  std::int64_t cluster_rows);
LshChoices lsh_choices(const Params& params);

}  // namespace tessera
