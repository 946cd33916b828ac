// Data affinity for preparation on a GPU: rows are joined into chains, each with the row that
// shares most columns with it.
//
// Acc-SpMM's order (affinity.cpp) places one row after another, the next one being the row with
// most columns in common with the last. Here chains grow everywhere at once, the best pairs of rows
// first (row_joins.hpp), so that every step is a loop of independent iterations, which a GPU runs
// as well (affinity_chains.cu), with the same order. A pair is worth the share |a and b| / |a or b|
// of its columns: by |a and b| alone all rows want the longest ones (shuffled mycielskian14:
// MeanNNZTC 15.9 instead of 16.2, wave 14.7 instead of 15.1). Common columns are counted exactly,
// among the nearest holders of each column, for six partners of a row. When none is left, the ends
// of chains search again among themselves, and at last chains follow each other by their least
// rows. Time: O(nnz candidates). Memory: 20 bytes per nonzero and 128 per row.

#include <memory>

#include "formats/base/registry.hpp"
#include "reorder/affinity_chains_search.hpp"
#include "reorder/matched_threads.hpp"
#include "reorder/reordering.hpp"

namespace tessera {
namespace {

class AffinityChains final : public Reordering {
 public:
  AffinityChains(const matched::AffinityOptions& options, double time_limit_s)
      : options_(options), time_limit_s_(time_limit_s) {}

  Order order(const CsrMatrix& matrix, Watch& watch) const override {
    watch.limit(time_limit_s_);
    return {matched::order_on_threads<matched::AffinitySearch<matched::OnThreads>>(
                "affinity_chains", matrix, options_, watch),
            std::nullopt};
  }

 private:
  matched::AffinityOptions options_;
  double time_limit_s_;
};

const Register<Reordering> entry{{
    .name = "affinity_chains",
    .summary = "data affinity, also on the GPU: rows joined into chains by common columns",
    .params = matched::affinity_params(),
    .make =
        [](const Params& p) {
          return std::make_unique<AffinityChains>(matched::affinity_options(p),
                                                  p.real("time_limit_s"));
        },
}};

}  // namespace
}  // namespace tessera
