// Sparse graph translation of TC-GNN (Wang et al., USENIX ATC 2023): within each row window the
// active columns are packed left, so that its nonzeros fill fewer tiles.
//
// It moves the columns of each window separately and never a row: it is the condensing of every
// condensed format. As an order of rows it is the identity; it is registered so that comparisons of
// reorderings can name it.

#include "formats/base/registry.hpp"
#include "reorder/reordering.hpp"

namespace tessera {
namespace {

class Sgt final : public Reordering {
 public:
  Order order(const CsrMatrix& matrix, Watch&) const override {
    return {Permutation::identity(matrix.rows), std::nullopt};
  }
};

const Register<Reordering> entry{{
    .name = "sgt",
    .summary = "TC-GNN's sparse graph translation: condensing, which moves no row",
    .make = [](const Params&) { return std::make_unique<Sgt>(); },
}};

}  // namespace
}  // namespace tessera
