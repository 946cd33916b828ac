// Trefethen_<n>: L. N. Trefethen's prime-number matrix (problem 7 of the SIAM 100-Digit Challenge,
// 2002), as published in the SuiteSparse collection (group JGD_Trefethen).
//
// The first n primes on the diagonal, ones where |i - j| is a power of two (1, 2, 4, ...). The
// published variants with a trailing b leave out the first row and column:
// Trefethen_20000b = Trefethen(n=19999, first=2).

#include <cmath>

#include "formats/base/registry.hpp"
#include "formats/generators/assemble.hpp"

namespace tessera {
namespace {

/// The first `count` primes, by sieve.
std::vector<std::int32_t> primes(std::int64_t count) {
  // The n-th prime is below n (ln n + ln ln n) for n >= 6 (Rosser 1941).
  const double n = static_cast<double>(count) + 6;
  const auto limit = static_cast<std::int64_t>(n * (std::log(n) + std::log(std::log(n)))) + 1;
  std::vector<bool> composite(limit + 1, false);
  std::vector<std::int32_t> found;
  for (std::int64_t p = 2; static_cast<std::int64_t>(found.size()) < count; ++p) {
    if (composite[p]) continue;
    found.push_back(static_cast<std::int32_t>(p));
    for (std::int64_t multiple = p * p; multiple <= limit; multiple += p)
      composite[multiple] = true;
  }
  return found;
}

CsrMatrix trefethen(std::int64_t size, std::int64_t first) {
  const std::int32_t n = matrix_extent({size});
  const std::vector<std::int32_t> diagonal = primes(n + first - 1);
  return assemble_rows(n, n, [&, n](std::int64_t row, std::vector<Nonzero>& out) {
    out.push_back({static_cast<std::int32_t>(row), static_cast<float>(diagonal[row + first - 1])});
    for (std::int64_t distance = 1; distance < n; distance *= 2) {
      if (row >= distance) out.push_back({static_cast<std::int32_t>(row - distance), 1.0f});
      if (row + distance < n) out.push_back({static_cast<std::int32_t>(row + distance), 1.0f});
    }
  });
}

const Register<Generator> entry{{
    .name = "Trefethen",
    .summary = "SuiteSparse Trefethen_<n>: primes on the diagonal, ones at distances 2^i (exact)",
    .params =
        {{"n", std::int64_t{2000}, "rows and columns", {}, 1, kMaxSizeParameter},
         {"first", std::int64_t{1}, "number of the first prime: 1 for 2, 2 for 3", {}, 1, 1000000}},
    .make =
        [](const Params& p) {
          return make_generator(
              [n = p.integer("n"), first = p.integer("first")] { return trefethen(n, first); });
        },
}};

}  // namespace
}  // namespace tessera
