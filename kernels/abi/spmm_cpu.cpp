// C = alpha A B + beta C on the CPU: each element of C is a chain of additions in FP64, in the
// order of A's columns.
//
// The product of two FP32 numbers is exact in FP64, and this file is compiled without contraction
// of the products of FP64 numbers, so the result is the same for every vector width and on every
// machine.

#include <vector>

#include "formats/base/parallel.hpp"
#include "formats/base/vector_clones.hpp"
#include "kernels/abi/guarded.hpp"
#include "kernels/abi/matrices.hpp"

namespace tessera::abi {
namespace {

constexpr std::int64_t kRowsOfChunk = 64;

// Not one template: GCC clones no templates.
TESSERA_VECTOR_CLONES
void add_row(double factor, const float* b, std::int64_t n, double* sums) {
  for (std::int64_t j = 0; j < n; ++j) sums[j] += factor * static_cast<double>(b[j]);
}
TESSERA_VECTOR_CLONES
void add_row(double factor, const double* b, std::int64_t n, double* sums) {
  for (std::int64_t j = 0; j < n; ++j) sums[j] += factor * b[j];
}

/// alpha, beta and the operands; values [nnz] are those of A.
template <class Value, class Element>
struct Product {
  const CsrMatrix& a;
  const Value* values;
  std::int64_t n;
  const Element* b;
  std::int64_t ldb;
  Element* c;
  std::int64_t ldc;
  double alpha, beta;

  void run() const {
    parallel_for(a.rows, kRowsOfChunk, [&](std::int64_t begin, std::int64_t end) {
      std::vector<double> sums(static_cast<std::size_t>(n));
      for (std::int64_t row = begin; row < end; ++row) {
        sums.assign(sums.size(), 0);
        for (std::int64_t k = a.row_offsets[row]; k < a.row_offsets[row + 1]; ++k)
          add_row(static_cast<double>(values[k]), b + a.col_indices[k] * ldb, n, sums.data());
        store(sums, c + row * ldc);
      }
    });
  }

  void store(const std::vector<double>& sums, Element* row) const {
    for (std::int64_t j = 0; j < n; ++j) {
      const double product = alpha * sums[j];
      row[j] =
          static_cast<Element>(beta == 0 ? product : product + beta * static_cast<double>(row[j]));
    }
  }
};

}  // namespace
}  // namespace tessera::abi

using namespace tessera;
using namespace tessera::abi;

tessera_status tessera_spmm_cpu(const tessera_csr* a, int64_t n, tessera_type type,
                                const double* values, const void* b, int64_t ldb, void* c,
                                int64_t ldc, double alpha, double beta) {
  return guarded([&] {
    const CsrMatrix matrix = view_of(a);
    check_operand("B", b, matrix.cols, n, ldb);
    check_operand("C", c, matrix.rows, n, ldc);
    require(values == nullptr || type == TESSERA_FP64,
            "the values of A are FP64, but those of B and C are not");
    const auto run = [&]<class Value, class Element>(const Value* of_a, const Element*) {
      Product<Value, Element>{
          matrix, of_a,  n,   static_cast<const Element*>(b), ldb, static_cast<Element*>(c),
          ldc,    alpha, beta}
          .run();
    };
    if (type == TESSERA_FP32)
      run(matrix.values.data(), static_cast<const float*>(nullptr));
    else if (type == TESSERA_FP64 && values != nullptr)
      run(values, static_cast<const double*>(nullptr));
    else if (type == TESSERA_FP64)
      run(matrix.values.data(), static_cast<const double*>(nullptr));
    else
      throw Error(fmt::format("the product on the CPU has no B and C of type {}", type));
  });
}
