// Our order for preparation on a GPU: rows are matched in pairs, pairs in fours, fours in windows
// of eight and windows in pairs, each time those that have most columns in common; then rows change
// places between windows where that leaves fewer TC blocks. The order of the file is kept where it
// has no more TC blocks.
//
// It minimises what `best` minimises, but every step is a loop of independent iterations, where
// `best` places one row after another. So it runs on a GPU as well (matched.cu), and finds the same
// order there. A matching takes rounds: everyone proposes to the best of the six partners that it
// remembers, and a proposal that is the best for both sides is accepted (locally dominant edges,
// Preis 1999; in parallel Manne and Bisseling 2007). Those that are left search once more among
// themselves, and the rest is matched in order. Rows with nothing in common with others keep their
// order. Time: O(nnz reach). Memory: 22 bytes per nonzero and 156
// per row, and 8 per row for each thread; on a GPU 20 per nonzero more, for sorting.

#include <utility>

#include "formats/base/registry.hpp"
#include "reorder/matched_options.hpp"
#include "reorder/matched_search.hpp"
#include "reorder/matched_threads.hpp"
#include "reorder/reordering.hpp"

namespace tessera {
namespace {

class Matched final : public Reordering {
 public:
  Matched(const matched::Options& options, double time_limit_s)
      : options_(options), time_limit_s_(time_limit_s) {}

  Order order(const CsrMatrix& matrix, Watch& watch) const override {
    watch.limit(time_limit_s_);
    Permutation order = matched::order_on_threads<matched::Search<matched::OnThreads>>(
        "matched", matrix, options_, watch);
    const std::string chosen = order.is_identity() ? "natural" : "matched";
    return {std::move(order), std::nullopt, chosen};
  }

 private:
  matched::Options options_;
  double time_limit_s_;
};

const Register<Reordering> entry{{
    .name = "matched",
    .summary = "ours, also on the GPU: rows matched by common columns, or the order of the file",
    .params = matched::all_params(),
    .make =
        [](const Params& p) {
          return std::make_unique<Matched>(matched::options_of(p), p.real("time_limit_s"));
        },
}};

}  // namespace
}  // namespace tessera
