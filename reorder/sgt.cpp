// Sparse graph translation of TC-GNN (Wang et al., USENIX ATC 2023): within each row window the
// active columns are packed left, so that its nonzeros fill fewer tiles.
//
// That moves columns of a window, each window its own way, and never a row: it is the condensing
// that every condensed format does when it packs. As an order of rows it is the identity, and it
// stands here so that a comparison of reorderings can name it.

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
