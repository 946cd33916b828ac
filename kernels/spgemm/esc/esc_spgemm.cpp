// Expand, sort, compress (Bell, Dalton and Olson, SISC 34(4), 2012; CUSP): the kernel writes out
// all products of A and B, sorts them by row and column and adds up those of each cell. FP32 on
// CUDA cores.
//
// Rows are cut into slices with a limited number of products, as in the paper. Departures: one
// stable radix sort, on as many bits as the slice's rows and the columns need, replaces one by
// column and one by row; products find their nonzeros by binary search; a thread adds up a cell.
// Products are rounded and added from left to right in the order of A's columns, so that slices
// change no bit.

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
                "most products in memory at a time, unless a single row has more",
                {},
                1,
                static_cast<double>(esc_spgemm::kMostProducts)}},
    .make = [](const Params&) { return std::make_unique<EscSpgemm>(); },
}};

}  // namespace
}  // namespace tessera
