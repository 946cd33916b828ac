// alpha and beta of C = alpha A B + beta C for one element, the same on host and device. Every
// kernel applies them where it writes C, so that they cost no extra pass.
#pragma once

#include <bit>
#include <cmath>

#include "formats/base/matrix.hpp"
#include "kernels/host_device.hpp"

namespace tessera {

enum class ElementType;  // kernels/storage.hpp

struct Scaling {
  float alpha = 1;
  float beta = 0;

  friend bool operator==(const Scaling&, const Scaling&) = default;
};

/// beta *old + alpha sum with two roundings, that of alpha sum and that of the result. Where beta
/// is 0 it is alpha sum, and *old is not read. The host returns the device's only NaN for every
/// NaN.
TESSERA_HOST_DEVICE inline float scaled(const Scaling& scaling, float sum, const float* old) {
#ifdef __CUDA_ARCH__
  const float product = __fmul_rn(scaling.alpha, sum);
  return scaling.beta == 0 ? product : __fmaf_rn(scaling.beta, *old, product);
#else
  const float product = scaling.alpha * sum;
  const float value = scaling.beta == 0 ? product : std::fma(scaling.beta, *old, product);
  return std::isnan(value) ? std::bit_cast<float>(0x7fffffffu) : value;
#endif
}

/// alpha A B + beta C, bit for bit as a kernel without atomics computes it: `product` is A B as
/// SpmmKernel::emulate gives it, `c` what C holds before, of the same shape (throws an Error
/// otherwise). `c` is not read where beta is 0.
DenseMatrix emulate_scaling(const Scaling& scaling, const DenseMatrix& product,
                            const DenseMatrix& c);

/// The same for a C of that type, to which `c` and the result are rounded.
DenseMatrix emulate_scaling(const Scaling& scaling, const DenseMatrix& product,
                            const DenseMatrix& c, ElementType type);

}  // namespace tessera
