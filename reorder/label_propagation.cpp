// Communities for preparation on a GPU: label propagation (Raghavan, Albert and Kumara 2007) on the
// bipartite graph of rows and columns.
//
// Every row draws a label. Columns take the label that is worth most among their rows, then rows
// the one that is worth most among their columns, and so on: one side stands still while the other
// one moves, so that nobody swaps labels forever and the result does not depend on threads. What
// counts is not how many neighbours have a label, by which one label would take all, but their
// share of all neighbours and all holders of the label; then holders weigh a sixteenth, and
// communities grow. So sizes are bounded as in layered label propagation (Boldi, Rosa, Santini and
// Vigna 2011), whose order this is: rows by large communities, within one by small ones, then in
// the order of the file; communities follow their first rows. A GPU runs the same steps
// (label_propagation.cu) and finds the same order. Time: O(nnz rounds). Memory: 20 bytes per
// nonzero and 44 per row.

#include <memory>

#include "formats/base/registry.hpp"
#include "reorder/label_propagation_search.hpp"
#include "reorder/matched_threads.hpp"
#include "reorder/reordering.hpp"

namespace tessera {
namespace {

class LabelPropagation final : public Reordering {
 public:
  LabelPropagation(const matched::LabelOptions& options, double time_limit_s)
      : options_(options), time_limit_s_(time_limit_s) {}

  Order order(const CsrMatrix& matrix, Watch& watch) const override {
    watch.limit(time_limit_s_);
    return {matched::order_on_threads<matched::LabelSearch<matched::OnThreads>>(
                "label_propagation", matrix, options_, watch),
            std::nullopt};
  }

 private:
  matched::LabelOptions options_;
  double time_limit_s_;
};

const Register<Reordering> entry{{
    .name = "label_propagation",
    .summary =
        "communities by label propagation, also on the GPU: rows vote for the labels of columns",
    .params = matched::label_params(),
    .make =
        [](const Params& p) {
          return std::make_unique<LabelPropagation>(matched::label_options(p),
                                                    p.real("time_limit_s"));
        },
}};

}  // namespace
}  // namespace tessera
