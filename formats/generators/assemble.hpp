// How generators turn "what is in this row" or "these entries" into a CsrMatrix.
//
// A generator says what a row holds as a pure function of the row (counter-based random draws, see
// formats/base/random.hpp), so rows are built in parallel and the result has the same bits at any
// number of threads. Only + - * / of IEEE doubles and integers decide a pattern: no libm function,
// whose last bit differs between machines.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <vector>

#include "formats/base/matrix.hpp"
#include "formats/base/random.hpp"
#include "formats/generators/generator.hpp"

namespace tessera {

struct Nonzero {
  std::int32_t col;
  float value;
};

struct Triplet {
  std::int32_t row;
  std::int32_t col;
  float value;
};

/// Largest value a size parameter accepts before the generator itself judges it.
constexpr double kMaxSizeParameter = 0x1p52;

/// The product of the factors (none negative), as a number of rows or columns. Throws Unsupported
/// beyond 2^31 - 1.
std::int32_t matrix_extent(std::initializer_list<std::int64_t> factors);

/// Calls nonzeros_of(row, out) for every row, in parallel; it appends the row's nonzeros to the
/// empty `out` in any order. Entries of the same column are summed, in double, in that order.
CsrMatrix assemble_rows(
    std::int32_t rows, std::int32_t cols,
    const std::function<void(std::int64_t row, std::vector<Nonzero>& out)>& nonzeros_of);

/// The matrix that holds these entries; those of the same cell are summed, in double, in the order
/// given.
CsrMatrix assemble_entries(std::int32_t rows, std::int32_t cols,
                           const std::vector<Triplet>& entries);

/// Seed of an independent stream: one generator draws its pattern from stream 0, its values from
/// stream 1, and further streams as it needs them.
constexpr std::uint64_t stream_seed(std::int64_t seed, std::uint64_t stream) {
  return random_bits(static_cast<std::uint64_t>(seed), stream);
}

/// The value of cell (row, col) under a stream of values: in (-1, 1), never zero.
constexpr float cell_value(std::uint64_t stream, std::int64_t row, std::int64_t col) {
  return random_signed(stream,
                       (static_cast<std::uint64_t>(row) << 32) | static_cast<std::uint64_t>(col));
}

/// `count` distinct columns out of [0, cols), ascending, each such set equally likely.
std::vector<std::int32_t> distinct_cols(RandomSequence& random, std::int64_t count,
                                        std::int64_t cols);

/// A generator that is one function of the parameters it has captured.
std::unique_ptr<Generator> make_generator(std::function<CsrMatrix()> generate);

}  // namespace tessera
