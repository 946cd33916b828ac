// Expand, sort, compress (Bell, Dalton and Olson, SISC 34(4), 2012; CUSP): all products of A and B
// are written out, sorted by row and column, and those of a cell added up. FP32 on CUDA cores.
//
// Rows are cut into slices of so many products at most, as in the paper. Departures: one stable
// radix sort on as many bits as rows of the slice and columns need, instead of one by column and
// one by row; products find their nonzeros by binary search, and a thread adds up a cell. Products
// are rounded, and added from left to right in the order of A's columns: slices change no bit.

#include "kernels/spgemm/esc/esc_spgemm.hpp"

#include "formats/base/registry.hpp"
#include "kernels/spgemm/shared/summed_products.hpp"
#include "kernels/spgemm_kernel.hpp"

namespace tessera {
namespace {

class EscSpgemm final : public SpgemmKernel {
 public:
  int version() const override { return 1; }
  Arithmetic arithmetic() const override { return {}; }

  CsrMatrix emulate(const CsrMatrix& a, const CsrMatrix& b, const Generation&) const override {
    return sum_products(a, b, [](std::int64_t, std::int64_t) { return 0; });
  }
};

const Register<SpgemmKernel> entry{{
    .name = "esc_spgemm",
    .summary = "all products written out, sorted and added up (ESC, FP32)",
    .params = {{"slice",
                std::int64_t{1} << 27,
                "products in memory at a time, unless a row alone has more",
                {},
                1,
                static_cast<double>(esc_spgemm::kMostProducts)}},
    .make = [](const Params&) { return std::make_unique<EscSpgemm>(); },
}};

}  // namespace
}  // namespace tessera
