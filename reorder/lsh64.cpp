// "LSH64", the baseline of Acc-SpMM's Figure 10 and of DTC-SpMM: rows hashed by MinHash, similar
// rows merged into clusters of up to 64 rows, and the rows of a cluster placed together.
//
// Neither paper says more. This follows the locality-aware scheduling of Huang et al. (PPoPP 2021),
// on whose public script DTC-SpMM's builds and in which 64 is both the number of hashes and the
// size of a cluster: pairs by MinHash LSH at the threshold 0.2, clusters by
// similarity_clusters.hpp. Rows of a cluster keep their order, and clusters follow their first
// rows: similar rows of a cluster of 64 share a row window only by chance. Departures: those of
// minhash.hpp (with fewer than 16 partners per row meshes get smaller clusters and up to 18 % more
// MeanNNZTC than with the script). Time: 56 hashes per nonzero, in parallel, and merges in one
// thread. Memory: 12 B per kept pair, at most `partners` per row.

#include "formats/base/registry.hpp"
#include "reorder/reordering.hpp"
#include "reorder/similarity_clusters.hpp"

namespace tessera {
namespace {

class Lsh64 final : public Reordering {
 public:
  Lsh64(const LshChoices& choices, std::int32_t cluster_rows, double time_limit)
      : choices_(choices), cluster_rows_(cluster_rows), time_limit_(time_limit) {}

  Order order(const CsrMatrix& matrix, Watch& watch) const override {
    watch.limit(time_limit_);
    const ColumnSets rows{matrix.row_offsets, matrix.col_indices};
    watch.begin_part(0, 0.8);
    std::vector<SimilarPair> pairs = similar_pairs(rows, choices_, watch);
    Clusters clusters = cluster_pairs(rows, std::move(pairs), cluster_rows_, watch);
    return {Permutation(std::move(clusters.sets)), std::nullopt};
  }

 private:
  LshChoices choices_;
  std::int32_t cluster_rows_;
  double time_limit_;
};

const Register<Reordering> entry{{
    .name = "lsh64",
    .summary = "LSH64: similar rows (MinHash) in clusters of 64, the baseline of Acc-SpMM",
    .params = lsh_params(64, 16, 64),
    .make =
        [](const Params& p) {
          return std::make_unique<Lsh64>(lsh_choices(p),
                                         static_cast<std::int32_t>(p.integer("cluster_rows")),
                                         p.real("time_limit_s"));
        },
}};

}  // namespace
}  // namespace tessera
