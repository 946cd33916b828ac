#include "kernels/sddmm_kernel.hpp"

#include "formats/base/check.hpp"

namespace tessera {

std::vector<float> SddmmKernel::emulate(const PackedMatrix&, const DenseMatrix&, const DenseMatrix&,
                                        const Generation&) const {
  throw Unsupported("this kernel cannot be emulated: the order of its sums is not known");
}

WorkDescription SddmmKernel::work(const PackedMatrix&, std::int64_t) const {
  throw Unsupported("this kernel publishes no work description");
}

void require_sddmm_shapes(const PackedMatrix& a, const DenseMatrix& x, const DenseMatrix& y) {
  require(x.rows == a.rows() && y.rows == a.cols() && x.cols == y.cols,
          "A is {} x {}, X {} x {} and Y {} x {}: X needs the rows of A, Y a row for each column "
          "of A, and both the same number of columns",
          a.rows(), a.cols(), x.rows, x.cols, y.rows, y.cols);
}

CsrMatrix with_values(const CsrMatrix& a, std::vector<float> s) {
  require(std::ssize(s) == a.nnz(), "S has {} elements, and A {} nonzeros", s.size(), a.nnz());
  return {a.rows, a.cols, a.row_offsets, a.col_indices, std::move(s)};
}

}  // namespace tessera
