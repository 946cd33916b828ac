#include "python/torch_operators/cpu_product.hpp"

#include <algorithm>
#include <bit>
#include <type_traits>

#include "python/torch_operators/torch_abi.hpp"

namespace tessera::torch_cpu {
namespace {

using torch_abi::parallel_for;

/// The loops for this processor.
const Loops& loops() {
  static const Loops& chosen = []() -> const Loops& {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq"))
      return avx512_loops;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return avx2_loops;
#endif
    return baseline_loops;
  }();
  return chosen;
}

/// The first row that begins at or after a share of the work, which is nonzeros and rows.
std::int64_t first_row_of(const Pattern& a, std::int64_t share, std::int64_t shares) {
  const auto target =
      static_cast<std::int64_t>(static_cast<double>(a.nnz + a.rows) * static_cast<double>(share) /
                                static_cast<double>(shares));
  std::int64_t low = 0, high = a.rows;
  while (low < high) {
    const std::int64_t middle = (low + high) / 2;
    if (a.row_offsets[middle] + middle < target)
      low = middle + 1;
    else
      high = middle;
  }
  return share == shares ? a.rows : low;
}

/// Calls body(first row, last row) on parts of equal work. `width` multiply-adds per nonzero.
template <class Body>
void for_rows(const Pattern& a, std::int64_t width, const Body& body) {
  constexpr std::int64_t kLeastWork = 32768, kSharesPerThread = 4;
  std::uint32_t threads = 1;
  torch_abi::check(torch_get_num_threads(&threads), "counting threads");
  const std::int64_t work = (a.nnz + a.rows) * std::max<std::int64_t>(width, 1);
  const std::int64_t shares =
      threads == 1 ? 1 : std::clamp<std::int64_t>(work / kLeastWork, 1, kSharesPerThread * threads);
  if (shares == 1) return body(0, a.rows);
  parallel_for(shares, 1, [&](std::int64_t begin, std::int64_t end) {
    body(first_row_of(a, begin, shares), first_row_of(a, end, shares));
  });
}

float half_to_float(std::uint16_t bits) {
  constexpr int kShift = 13;                  // FP32 has 23 bits of fraction, FP16 has 10
  constexpr std::uint32_t kBias = 112 << 23;  // 127 - 15 in FP32's exponent
  const std::uint32_t sign = std::uint32_t{bits & 0x8000u} << 16;
  const std::uint32_t magnitude = std::uint32_t{bits & 0x7fffu} << kShift;
  if (magnitude >= 0x7c00u << kShift)  // infinite, or not a number
    return std::bit_cast<float>(sign | 0x7f800000u | magnitude);
  if (magnitude >= 0x0400u << kShift) return std::bit_cast<float>(sign | (magnitude + kBias));
  const float subnormal = static_cast<float>(bits & 0x3ffu) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(subnormal));
}

std::uint16_t float_to_half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  const auto with_sign = [&](std::uint32_t half) {
    return static_cast<std::uint16_t>(sign | half);
  };
  if (magnitude > 0x7f800000u) return with_sign(0x7e00u);
  if (magnitude >= 0x477ff000u) return with_sign(0x7c00u);  // 65520 and more round to infinity
  if (magnitude < 0x38800000u) {                            // below 2^-14, FP16's least normal
    // Adding 0.5 leaves the fraction, rounded, in the lowest bits.
    const float moved = std::bit_cast<float>(magnitude) + 0.5f;
    return with_sign(std::bit_cast<std::uint32_t>(moved) - std::bit_cast<std::uint32_t>(0.5f));
  }
  const std::uint32_t odd = magnitude >> 13 & 1;
  return with_sign((magnitude + 0xfffu + odd - (112u << 23)) >> 13);
}

float bfloat_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

std::uint16_t float_to_bfloat(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>(bits >> 16 | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

constexpr std::int64_t kConversions = 16384;  // of one thread at least

}  // namespace

template <class Real>
void spmm(const Pattern& a, const Real* values, const Real* b, std::int64_t n, Real* c,
          double alpha, double beta) {
  const Rows<Real> rows{a, values, b, n, c, alpha, beta};
  for_rows(a, n, [&](std::int64_t begin, std::int64_t end) {
    if constexpr (std::is_same_v<Real, float>)
      loops().rows_of_float(rows, begin, end);
    else
      loops().rows_of_double(rows, begin, end);
  });
}

template <class Real>
void sddmm(const Pattern& a, const Real* x, const Real* y, std::int64_t depth, Real* out) {
  const Dots<Real> dots{a, x, y, depth, out};
  for_rows(a, depth, [&](std::int64_t begin, std::int64_t end) {
    if constexpr (std::is_same_v<Real, float>)
      loops().dots_of_float(dots, begin, end);
    else
      loops().dots_of_double(dots, begin, end);
  });
}

template void spmm(const Pattern&, const float*, const float*, std::int64_t, float*, double,
                   double);
template void spmm(const Pattern&, const double*, const double*, std::int64_t, double*, double,
                   double);
template void sddmm(const Pattern&, const float*, const float*, std::int64_t, float*);
template void sddmm(const Pattern&, const double*, const double*, std::int64_t, double*);

void to_float(const std::uint16_t* from, bool bfloat16, std::int64_t count, float* to) {
  const auto convert = [&](auto one) {
    parallel_for(count, kConversions, [&](std::int64_t begin, std::int64_t end) {
      std::transform(from + begin, from + end, to + begin, one);
    });
  };
  bfloat16 ? convert([](std::uint16_t x) { return bfloat_to_float(x); })
           : convert([](std::uint16_t x) { return half_to_float(x); });
}

void from_float(const float* from, bool bfloat16, std::int64_t count, std::uint16_t* to) {
  const auto convert = [&](auto one) {
    parallel_for(count, kConversions, [&](std::int64_t begin, std::int64_t end) {
      std::transform(from + begin, from + end, to + begin, one);
    });
  };
  bfloat16 ? convert([](float x) { return float_to_bfloat(x); })
           : convert([](float x) { return float_to_half(x); });
}

}  // namespace tessera::torch_cpu
