#include "kernels/abi/matrices.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <span>

#include "formats/base/extents.hpp"
#include "formats/io/matrix_file.hpp"
#include "formats/io/source.hpp"
#include "kernels/abi/guarded.hpp"

namespace tessera::abi {
namespace {

template <class T>
Array<T> view(const T* data, std::int64_t size) {
  return {std::span<const T>(data, static_cast<std::size_t>(size)), nullptr};
}

template <class T>
Array<T> copied(const Array<T>& array) {
  return std::vector<T>(array.begin(), array.end());
}

}  // namespace

CsrMatrix view_of(const tessera_csr* a) {
  require_pointer(a, "A");
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  require(a->rows >= 0 && a->cols >= 0 && a->rows <= kMost && a->cols <= kMost,
          "A cannot be {} x {}: rows and columns are counted from 0 to {}", a->rows, a->cols,
          kMost);
  require(a->nnz >= 0, "A cannot have {} nonzeros", a->nnz);
  require_pointer(a->row_offsets, "A's row_offsets");
  require(a->col_indices != nullptr || a->nnz == 0, "A's col_indices is a null pointer");
  CsrMatrix matrix;
  matrix.rows = static_cast<std::int32_t>(a->rows);
  matrix.cols = static_cast<std::int32_t>(a->cols);
  matrix.row_offsets = view(a->row_offsets, a->rows + 1);
  matrix.col_indices = view(a->col_indices, a->nnz);
  matrix.values = a->values != nullptr
                      ? view(a->values, a->nnz)
                      : Array<float>(std::vector<float>(static_cast<std::size_t>(a->nnz), 1.0f));
  validate(matrix);
  return matrix;
}

CsrMatrix copy_of(const tessera_csr* a) {
  CsrMatrix matrix = view_of(a);
  matrix.row_offsets = copied(matrix.row_offsets);
  matrix.col_indices = copied(matrix.col_indices);
  matrix.values = copied(matrix.values);
  return matrix;
}

void check_operand(const char* name, const void* data, std::int64_t rows, std::int64_t cols,
                   std::int64_t ld) {
  require(cols >= 1, "{} has {} columns; it needs at least one", name, cols);
  require(data != nullptr || rows == 0, "{} is a null pointer", name);
  require(ld >= cols, "the rows of {} are {} elements apart, but have {}", name, ld, cols);
  element_count(rows, ld);
}

DenseMatrix read_dense(const char* name, const float* data, std::int64_t rows, std::int64_t cols,
                       std::int64_t ld) {
  check_operand(name, data, rows, cols, ld);
  DenseMatrix matrix(rows, cols);
  for (std::int64_t i = 0; i < rows; ++i) std::copy_n(data + i * ld, cols, matrix.row(i).begin());
  return matrix;
}

void write_dense(const DenseMatrix& matrix, const char* name, float* data, std::int64_t ld) {
  check_operand(name, data, matrix.rows, matrix.cols, ld);
  for (std::int64_t i = 0; i < matrix.rows; ++i) std::ranges::copy(matrix.row(i), data + i * ld);
}

}  // namespace tessera::abi

using namespace tessera;
using namespace tessera::abi;

tessera_status tessera_matrix_load(const char* name, tessera_matrix** matrix) {
  if (matrix != nullptr) *matrix = nullptr;
  return guarded([&] {
    require_pointer(name, "the name");
    require_pointer(matrix, "matrix");
    *matrix = new tessera_matrix{load_matrix(name).matrix};
  });
}

tessera_status tessera_matrix_csr(const tessera_matrix* matrix, tessera_csr* csr) {
  return guarded([&] {
    require_pointer(matrix, "matrix");
    require_pointer(csr, "csr");
    const CsrMatrix& a = matrix->matrix;
    *csr = {a.rows, a.cols, a.nnz(), a.row_offsets.data(), a.col_indices.data(), a.values.data()};
  });
}

void tessera_matrix_destroy(tessera_matrix* matrix) { delete matrix; }

tessera_status tessera_matrix_write(const tessera_csr* a, const char* path) {
  return guarded([&] {
    require_pointer(path, "the path");
    write_matrix(view_of(a), path);
  });
}
