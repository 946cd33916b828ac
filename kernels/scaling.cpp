#include "kernels/scaling.hpp"

#include "formats/base/check.hpp"

namespace tessera {

DenseMatrix emulate_scaling(const Scaling& scaling, const DenseMatrix& product,
                            const DenseMatrix& c) {
  require(product.rows == c.rows && product.cols == c.cols, "A B is {} x {}, but C is {} x {}",
          product.rows, product.cols, c.rows, c.cols);
  DenseMatrix result(c.rows, c.cols);
  for (std::size_t i = 0; i < result.values.size(); ++i)
    result.values[i] = scaled(scaling, product.values[i], &c.values[i]);
  return result;
}

}  // namespace tessera
