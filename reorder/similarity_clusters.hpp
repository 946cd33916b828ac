// Clusters of similar sets of columns, merged pair by pair from the most similar pair on: what the
// LSH orders of GNN-Computing and DTC-SpMM share.
//
// As in their public scripts: a cluster is compared through the set at its root, which is the root
// of the larger of the two it came from; it takes part until it has the size asked for, which its
// last merge may exceed (by less than as much again); and a pair whose clusters have grown waits
// again with the similarity of their roots, however low that is. Departures: pairs of equal
// similarity go in the order of their indices, and a pair may wait twice.
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

/// `pairs` as similar_pairs gives them. A cluster takes part until it has `full` sets. Asked to
/// stop, no pair waits again, which ends in one look at each that is left. One thread.
Clusters cluster_pairs(const ColumnSets& sets, std::vector<SimilarPair> pairs, std::int32_t full,
                       Watch& watch);

/// The parameters of an order by such clusters of rows, and what they say of the search for pairs.
std::vector<ParamSpec> lsh_params(std::int64_t hashes, std::int64_t partners,
                                  std::int64_t cluster_rows);
LshChoices lsh_choices(const Params& params);

}  // namespace tessera
