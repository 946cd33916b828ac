// The device half of CSR: copies of A's arrays.

#include "formats/csr.hpp"

#include "formats/base/registry.hpp"
#include "formats/gpu/gpu_format.hpp"

namespace tessera {
namespace {

class GpuCsr final : public GpuFormat {
 public:
  GpuPacked build(const DeviceCsr& matrix, const PackLimits&, cudaStream_t stream) const override {
    GpuPacked packed;
    packed.add_copy("row_offsets", matrix.row_offsets, std::int64_t{matrix.rows} + 1, stream);
    packed.add_copy("col_indices", matrix.col_indices, matrix.nnz, stream);
    packed.add_copy("values", matrix.values, matrix.nnz, stream);
    return packed;
  }
};

const Register<GpuFormat> entry{{
    .name = CsrPacked::kFormat,
    .summary = "device half of csr",
    .make = [](const Params&) { return std::make_unique<GpuCsr>(); },
}};

}  // namespace
}  // namespace tessera
