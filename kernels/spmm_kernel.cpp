#include "kernels/spmm_kernel.hpp"

#include "formats/base/check.hpp"

namespace tessera {

DenseMatrix emulate_c(const SpmmKernel& kernel, const PackedMatrix& packed, const DenseMatrix& b,
                      const Generation& generation) {
  return stored_as(kernel.arithmetic().storage.c, kernel.emulate(packed, b, generation));
}

DenseMatrix SpmmKernel::emulate(const PackedMatrix&, const DenseMatrix&, const Generation&) const {
  throw Unsupported("this kernel cannot be emulated: the order of its sums is not known");
}

std::vector<DenseMatrix> SpmmKernel::emulate_scaled(const PackedMatrix& packed,
                                                    const DenseMatrix& b,
                                                    const Generation& generation,
                                                    const Scaling& scaling,
                                                    const DenseMatrix& old_c) const {
  return {emulate_scaling(scaling, emulate(packed, b, generation), old_c, arithmetic().storage.c)};
}

WorkDescription SpmmKernel::work(const PackedMatrix&, std::int64_t) const {
  throw Unsupported("this kernel publishes no work description");
}

std::int64_t count_distinct(std::span<const std::int32_t> indices, std::int32_t limit) {
  std::vector<bool> seen(limit, false);
  std::int64_t distinct = 0;
  for (const std::int32_t index : indices) {
    if (index < 0 || seen[index]) continue;
    seen[index] = true;
    ++distinct;
  }
  return distinct;
}

}  // namespace tessera
