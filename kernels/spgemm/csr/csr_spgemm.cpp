// The plain SpGEMM kernel on CUDA cores: one warp per row of C merges the rows of B that a row of A
// selects, column by column, twice: once to count, once to fill. It needs no hash table and no
// sorting, and rows may have any length. It is the stage's do-nothing variant: correct, but slow.

#include "formats/base/registry.hpp"
#include "kernels/spgemm_kernel.hpp"

namespace tessera {
namespace {

class CsrSpgemm final : public SpgemmKernel {
 public:
  int version() const override { return 1; }
  Arithmetic arithmetic() const override { return {}; }

  CsrMatrix emulate(const CsrMatrix& a, const CsrMatrix& b, const Generation&) const override {
    return multiply_rows(a, b);
  }
};

const Register<SpgemmKernel> entry{{
    .name = "csr_spgemm",
    .summary = "sparse x sparse: a warp merges the rows of B for a row of C (FP32)",
    .make = [](const Params&) { return std::make_unique<CsrSpgemm>(); },
}};

}  // namespace
}  // namespace tessera
