#include "kernels/spmm/scaled_row.hpp"

#include "formats/base/vector_clones.hpp"

namespace tessera {

TESSERA_VECTOR_CLONES
void add_scaled_row(float a, const float* b, float* c, std::int64_t n) {
  for (std::int64_t j = 0; j < n; ++j) c[j] = __builtin_fmaf(a, b[j], c[j]);
}

}  // namespace tessera
