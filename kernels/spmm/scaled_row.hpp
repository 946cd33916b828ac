// A nonzero times a row of B in FP32, as every CUDA-core SpMM kernel adds it to a row of C.
#pragma once

#include <cstdint>

namespace tessera {

/// c[j] = a b[j] + c[j] for j in [0, n), each a fused multiply-add that is rounded once.
void add_scaled_row(float a, const float* b, float* c, std::int64_t n);

}  // namespace tessera
