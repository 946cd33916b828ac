// The matrices of the C interface as those of the library.
#pragma once

#include <string>

#include "formats/base/matrix.hpp"
#include "kernels/abi/tessera.h"

/// A matrix that tessera_matrix_load() returned.
struct tessera_matrix {
  tessera::CsrMatrix matrix;
};

namespace tessera::abi {

/// A view of the caller's arrays, checked: it must not outlive the call. Throws an Error for a null
/// pointer and as validate() does.
CsrMatrix view_of(const tessera_csr* a);

/// The same with arrays of its own.
CsrMatrix copy_of(const tessera_csr* a);

/// A dense operand that the caller passes, [rows x cols] with rows `ld` elements apart. Throws an
/// Error for a null pointer, a negative width and ld < cols.
void check_operand(const char* name, const void* data, std::int64_t rows, std::int64_t cols,
                   std::int64_t ld);

/// B [rows x cols] as a matrix of its own, and a matrix written to C.
DenseMatrix read_dense(const char* name, const float* data, std::int64_t rows, std::int64_t cols,
                       std::int64_t ld);
void write_dense(const DenseMatrix& matrix, const char* name, float* data, std::int64_t ld);

}  // namespace tessera::abi
