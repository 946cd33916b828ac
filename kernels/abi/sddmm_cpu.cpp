// S = X Y^T at the nonzeros of A on the CPU: each element is the sum of eight sums in FP64, of
// every eighth product, which are added in order.
//
// The product of two FP32 numbers is exact in FP64, and this file is compiled without contraction
// of the products of FP64 numbers, so the result is the same for every vector width and on every
// machine.

#include <vector>

#include "formats/base/parallel.hpp"
#include "formats/base/vector_clones.hpp"
#include "kernels/abi/guarded.hpp"
#include "kernels/abi/half_rows.hpp"
#include "kernels/abi/matrices.hpp"

namespace tessera::abi {
namespace {

constexpr std::int64_t kRowsOfChunk = 64, kLanes = 8;

// Not one template: GCC clones no templates.
TESSERA_VECTOR_CLONES
void add_products(const float* x, const float* y, std::int64_t groups, double* sums) {
  for (std::int64_t g = 0; g < groups; ++g)
    for (std::int64_t l = 0; l < kLanes; ++l)
      sums[l] += static_cast<double>(x[g * kLanes + l]) * static_cast<double>(y[g * kLanes + l]);
}
TESSERA_VECTOR_CLONES
void add_products(const double* x, const double* y, std::int64_t groups, double* sums) {
  for (std::int64_t g = 0; g < groups; ++g)
    for (std::int64_t l = 0; l < kLanes; ++l) sums[l] += x[g * kLanes + l] * y[g * kLanes + l];
}

template <class Element>
double dot(const Element* x, const Element* y, std::int64_t k) {
  double sums[kLanes] = {};
  const std::int64_t whole = k / kLanes * kLanes;
  add_products(x, y, k / kLanes, sums);
  for (std::int64_t i = whole; i < k; ++i)
    sums[i - whole] += static_cast<double>(x[i]) * static_cast<double>(y[i]);
  double sum = sums[0];
  for (std::int64_t l = 1; l < kLanes; ++l) sum += sums[l];
  return sum;
}

/// The operands; `values` [nnz] multiply S, or are null.
template <class Element, class Value>
struct Sampled {
  const CsrMatrix& a;
  std::int64_t k;
  const Element* x;
  std::int64_t ldx;
  const Element* y;
  std::int64_t ldy;
  const Value* values;

  template <class Result>
  void run(Result* s) const {
    parallel_for(a.rows, kRowsOfChunk, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row)
        for (std::int64_t i = a.row_offsets[row]; i < a.row_offsets[row + 1]; ++i) {
          const double sum = dot(x + row * ldx, y + a.col_indices[i] * ldy, k);
          s[i] =
              static_cast<Result>(values == nullptr ? sum : sum * static_cast<double>(values[i]));
        }
    });
  }
};

/// The product of 16-bit X and Y, by way of FP32.
void sample_16_bits(const Sampled<std::uint16_t, float>& given, ElementType type, void* s,
                    tessera_type result) {
  const CsrMatrix& a = given.a;
  const std::vector<float> x = widened(type, given.x, a.rows, given.k, given.ldx);
  const std::vector<float> y = widened(type, given.y, a.cols, given.k, given.ldy);
  const Sampled<float, float> wide{a, given.k, x.data(), given.k, y.data(), given.k, given.values};
  if (result == TESSERA_FP32) return wide.run(static_cast<float*>(s));
  std::vector<float> sums(static_cast<std::size_t>(a.nnz()));
  wide.run(sums.data());
  narrow(type, sums, static_cast<std::uint16_t*>(s), 1, a.nnz(), a.nnz());
}

}  // namespace
}  // namespace tessera::abi

using namespace tessera;
using namespace tessera::abi;

tessera_status tessera_sddmm_cpu(const tessera_csr* a, int64_t k, tessera_type type,
                                 const double* values, const void* x, int64_t ldx, const void* y,
                                 int64_t ldy, void* s, tessera_type result, int32_t scales_by_a) {
  return guarded([&] {
    const CsrMatrix matrix = view_of(a);
    check_operand("X", x, matrix.rows, k, ldx);
    check_operand("Y", y, matrix.cols, k, ldy);
    require(s != nullptr || matrix.nnz() == 0, "S is a null pointer");
    require(values == nullptr || type == TESSERA_FP64,
            "the values of A are FP64, but X and Y are not");
    const bool half = type == TESSERA_FP16 || type == TESSERA_BF16;
    require(half || type == TESSERA_FP32 || type == TESSERA_FP64,
            "the product on the CPU has no X and Y of type {}", type);
    require(result == type || (half && result == TESSERA_FP32),
            "S cannot be of type {} where X and Y are of type {}", result, type);
    const float* factors = scales_by_a != 0 ? matrix.values.data() : nullptr;
    if (half)
      return sample_16_bits({matrix, k, static_cast<const std::uint16_t*>(x), ldx,
                             static_cast<const std::uint16_t*>(y), ldy, factors},
                            type == TESSERA_FP16 ? ElementType::kFp16 : ElementType::kBf16, s,
                            result);
    if (type == TESSERA_FP32)
      return Sampled<float, float>{
          matrix, k, static_cast<const float*>(x), ldx, static_cast<const float*>(y), ldy, factors}
          .run(static_cast<float*>(s));
    const auto run = [&](const auto* of_a) {
      Sampled<double, std::remove_cvref_t<decltype(*of_a)>>{
          matrix, k, static_cast<const double*>(x), ldx, static_cast<const double*>(y), ldy, of_a}
          .run(static_cast<double*>(s));
    };
    scales_by_a != 0 && values != nullptr ? run(values) : run(factors);
  });
}
