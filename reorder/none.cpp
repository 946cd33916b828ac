// The order of the file: the reordering that moves nothing, the baseline of every ablation.

#include "formats/base/registry.hpp"
#include "reorder/reordering.hpp"

namespace tessera {
namespace {

class None final : public Reordering {
 public:
  Order order(const CsrMatrix& matrix, Watch&) const override {
    return {Permutation::identity(matrix.rows), std::nullopt};
  }
};

const Register<Reordering> entry{{
    .name = "none",
    .summary = "the order of the file",
    .make = [](const Params&) { return std::make_unique<None>(); },
}};

}  // namespace
}  // namespace tessera
