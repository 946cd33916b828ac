// AC-SpGEMM (Winter, Mlakar, Zayer, Seidel and Steinberger, PPoPP 2019): products are cut into
// chunks of about equal numbers, each of which a thread block expands, sorts and compresses in
// shared memory; rows that are in several chunks are merged afterwards. FP32 on CUDA cores.
//
// Keys have as many bits as the chunk's rows and range of columns need, as in the paper.
// Departures: chunks are cut by numbers of products, at the begin of a row if one is near, whereas
// the paper cuts by nonzeros of A and carries over what a thread block leaves; a slice of rows
// allocates the most memory that it may need at once, whereas the paper's pool may run out; one
// stable radix sort merges the cells of rows that are in several chunks. Products are rounded. The
// products of a cell are added from left to right within a chunk, then the chunks' sums in order.

#include "kernels/spgemm/esc/ac_spgemm.hpp"

#include "formats/base/registry.hpp"
#include "kernels/spgemm/shared/summed_products.hpp"
#include "kernels/spgemm_kernel.hpp"

namespace tessera {
namespace {

class AcSpgemm final : public SpgemmKernel {
 public:
  int version() const override { return 1; }
  Arithmetic arithmetic() const override { return {}; }

  CsrMatrix emulate(const CsrMatrix& a, const CsrMatrix& b, const Generation&) const override {
    return sum_products(a, b, ac_spgemm::row_part_begin);
  }
};

const Register<SpgemmKernel> entry{{
    .name = "ac_spgemm",
    .summary = "chunks of products sorted and added up in shared memory (AC-SpGEMM, FP32)",
    .params = {{"slice",
                std::int64_t{1} << 27,
                "products for which there is memory at a time, unless a single row has more",
                {},
                1,
                static_cast<double>(ac_spgemm::kMostProducts)}},
    .make = [](const Params&) { return std::make_unique<AcSpgemm>(); },
}};

}  // namespace
}  // namespace tessera
