// The device half of COO.

#include "formats/base/registry.hpp"
#include "formats/coo.hpp"
#include "formats/gpu/entry_rows.cuh"

namespace tessera {
namespace {

class GpuCoo final : public GpuFormat {
 public:
  GpuPacked build(const DeviceCsr& matrix, const PackLimits&, cudaStream_t stream) const override {
    GpuPacked packed;
    write_rows(matrix, packed.add<std::int32_t>("row_indices", matrix.nnz, stream), stream);
    packed.add_copy("col_indices", matrix.col_indices, matrix.nnz, stream);
    packed.add_copy("values", matrix.values, matrix.nnz, stream);
    return packed;
  }
};

const Register<GpuFormat> entry{{
    .name = Coo::kFormat,
    .summary = "device half of coo",
    .make = [](const Params&) { return std::make_unique<GpuCoo>(); },
}};

}  // namespace
}  // namespace tessera
