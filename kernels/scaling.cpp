#include "kernels/scaling.hpp"

#include "formats/base/check.hpp"
#include "kernels/storage.hpp"

namespace tessera {

DenseMatrix emulate_scaling(const Scaling& scaling, const DenseMatrix& product,
                            const DenseMatrix& c) {
  return emulate_scaling(scaling, product, c, ElementType::kFp32);
}

DenseMatrix emulate_scaling(const Scaling& scaling, const DenseMatrix& product,
                            const DenseMatrix& c, ElementType type) {
  require(product.rows == c.rows && product.cols == c.cols, "A B is {} x {}, but C is {} x {}",
          product.rows, product.cols, c.rows, c.cols);
  DenseMatrix result(c.rows, c.cols);
  for (std::size_t i = 0; i < result.values.size(); ++i) {
    const float old = rounded_to(type, c.values[i]);
    result.values[i] = rounded_to(type, scaled(scaling, product.values[i], &old));
  }
  return result;
}

}  // namespace tessera
