#include "kernels/spgemm/row/row_spgemm.hpp"

#include "formats/base/registry.hpp"
#include "kernels/spgemm/row/trace.hpp"
#include "kernels/spgemm_kernel.hpp"

namespace tessera {
namespace {

class RowSpgemm final : public SpgemmKernel {
 public:
  int version() const override { return 2; }
  Arithmetic arithmetic() const override { return {.sum = Arithmetic::Sum::kFp32}; }
  CsrMatrix emulate(const CsrMatrix& a, const CsrMatrix& b, const Generation&) const override {
    return multiply_rows(a, b);
  }
  WorkDescription work(const CsrMatrix& a, const CsrMatrix& b) const override {
    return row_spgemm::describe_work(a, b);
  }
};

const Register<SpgemmKernel> entry{{
    .name = "row_spgemm",
    .summary =
        "ours for scattered rows: columns marked in bitmaps, sums placed by their rank, FP32",
    .params = {{"reuse", false,
                "a product keeps what its sums need, for more of them with other values"},
               {"keeps",
                std::string("structure"),
                "with reuse, what a product keeps: structure (how rows become tasks, whose columns "
                "are found again) or products (of each where its factors are: 4 bytes, 6 or 8 for "
                "the largest matrices)",
                {"structure", "products"}},
               {"workspace_limit",
                std::int64_t{0},
                "bytes that a product may take beside C: A's rows go in slices; 0 for no limit",
                {},
                0}},
    .make = [](const Params&) { return std::make_unique<RowSpgemm>(); },
}};

}  // namespace
}  // namespace tessera
