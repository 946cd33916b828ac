// The device half of CSR with 32-bit offsets.

#include "formats/base/registry.hpp"
#include "formats/csr32.hpp"
#include "formats/gpu/entry_rows.cuh"

namespace tessera {
namespace {

class GpuCsr32 final : public GpuFormat {
 public:
  GpuPacked build(const DeviceCsr& matrix, const PackLimits& limits,
                  cudaStream_t stream) const override {
    limits.require_offset(Csr32::kFormat, "nonzeros", matrix.nnz);
    GpuPacked packed;
    narrow_offsets(matrix,
                   packed.add<std::uint32_t>("row_offsets", std::int64_t{matrix.rows} + 1, stream),
                   stream);
    packed.add_copy("col_indices", matrix.col_indices, matrix.nnz, stream);
    packed.add_copy("values", matrix.values, matrix.nnz, stream);
    return packed;
  }
};

const Register<GpuFormat> entry{{
    .name = Csr32::kFormat,
    .summary = "device half of csr32",
    .make = [](const Params&) { return std::make_unique<GpuCsr32>(); },
}};

}  // namespace
}  // namespace tessera
