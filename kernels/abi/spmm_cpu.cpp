// C = alpha A B + beta C on the CPU: each element of C is a chain of additions in FP64, in the
// order of A's columns.
//
// The product of two FP32 numbers is exact in FP64, and this file is compiled without contraction
// of the products of FP64 numbers, so the result is the same for every vector width and on every
// machine.

#include <algorithm>
#include <vector>

#include "formats/base/parallel.hpp"
#include "formats/base/vector_clones.hpp"
#include "kernels/abi/guarded.hpp"
#include "kernels/abi/half_rows.hpp"
#include "kernels/abi/matrices.hpp"
#include "kernels/storage.hpp"

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
        if (n == 1)
          sums[0] = sum_of_row(row);
        else
          add_rows(row, sums);
        store(sums, c + row * ldc);
      }
    });
  }

  void add_rows(std::int64_t row, std::vector<double>& sums) const {
    sums.assign(sums.size(), 0);
    for (std::int64_t k = a.row_offsets[row]; k < a.row_offsets[row + 1]; ++k)
      add_row(static_cast<double>(values[k]), b + a.col_indices[k] * ldb, n, sums.data());
  }

  /// The same for one column, without a call for each of its products.
  double sum_of_row(std::int64_t row) const {
    double sum = 0;
    for (std::int64_t k = a.row_offsets[row]; k < a.row_offsets[row + 1]; ++k)
      sum += static_cast<double>(values[k]) * static_cast<double>(b[a.col_indices[k] * ldb]);
    return sum;
  }

  void store(const std::vector<double>& sums, Element* row) const {
    for (std::int64_t j = 0; j < n; ++j) {
      const double product = alpha * sums[j];
      row[j] =
          static_cast<Element>(beta == 0 ? product : product + beta * static_cast<double>(row[j]));
    }
  }
};

/// The product of 16-bit B and C, by way of FP32.
void multiply_16_bits(const CsrMatrix& a, std::int64_t n, ElementType type, const void* b,
                      std::int64_t ldb, void* c, std::int64_t ldc, double alpha, double beta) {
  auto* result = static_cast<std::uint16_t*>(c);
  const std::vector<float> wide_b =
      widened(type, static_cast<const std::uint16_t*>(b), a.cols, n, ldb);
  std::vector<float> wide_c = beta == 0 ? std::vector<float>(static_cast<std::size_t>(a.rows * n))
                                        : widened(type, result, a.rows, n, ldc);
  Product<float, float>{a, a.values.data(), n, wide_b.data(), n, wide_c.data(), n, alpha, beta}
      .run();
  narrow(type, wide_c, result, a.rows, n, ldc);
}

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
    else if (type == TESSERA_FP16 || type == TESSERA_BF16)
      multiply_16_bits(matrix, n, type == TESSERA_FP16 ? ElementType::kFp16 : ElementType::kBf16, b,
                       ldb, c, ldc, alpha, beta);
    else
      throw Error(fmt::format("the product on the CPU has no B and C of type {}", type));
  });
}
