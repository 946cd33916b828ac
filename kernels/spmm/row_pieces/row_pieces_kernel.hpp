// The host half of a kernel over row parts (kernels/spmm/row_pieces/row_pieces.hpp): emulation,
// terms and work description.
#pragma once

#include "kernels/spmm/row_pieces/row_pieces.hpp"
#include "kernels/spmm_kernel.hpp"

namespace tessera::row_pieces {

class RowPiecesKernel final : public SpmmKernel {
 public:
  explicit RowPiecesKernel(Method method) : method_(std::move(method)) {}

  std::string format() const override;
  int version() const override { return method_.version; }
  Arithmetic arithmetic() const override { return {.adds_in_memory = method_.atomic}; }
  std::vector<std::int64_t> terms_per_row(const PackedMatrix& packed) const override;
  DenseMatrix emulate(const PackedMatrix& packed, const DenseMatrix& b,
                      const Generation& generation) const override;
  WorkDescription work(const PackedMatrix& packed, std::int64_t n) const override;

 private:
  Method method_;
};

}  // namespace tessera::row_pieces
