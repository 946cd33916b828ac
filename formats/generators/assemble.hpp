// CsrMatrix from a generator's rows or entries.
//
// A generator gives the nonzeros of a row as a pure function of the row (counter-based random
// draws, see formats/base/random.hpp), so rows are built in parallel and the result has the same
// bits at any number of threads. Only + - * / of IEEE doubles and integers decide a pattern; the
// last bit of a libm function differs between machines.
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

/// The largest value that a size parameter accepts; the generator itself may refuse less.
constexpr double kMaxSizeParameter = 0x1p52;

/// The product of the factors, none of them negative, as a number of rows or columns. Throws
/// Unsupported beyond 2^31 - 1.
std::int32_t matrix_extent(std::initializer_list<std::int64_t> factors);

/// The matrix [rows x cols] whose rows nonzeros_of gives: nonzeros_of(row, out), called in
/// parallel, appends the row's nonzeros to the empty `out` in any order. Entries of one column are
/// summed in double, in that order.
CsrMatrix assemble_rows(
    std::int32_t rows, std::int32_t cols,
    const std::function<void(std::int64_t row, std::vector<Nonzero>& out)>& nonzeros_of);

/// The matrix [rows x cols] of these entries. Entries of one cell are summed in double, in the
/// given order.
CsrMatrix assemble_entries(std::int32_t rows, std::int32_t cols,
                           const std::vector<Triplet>& entries);

/// The seed of an independent stream. A generator draws its pattern from stream 0 and its values
/// from stream 1; further streams are free.
constexpr std::uint64_t stream_seed(std::int64_t seed, std::uint64_t stream) {
  return random_bits(static_cast<std::uint64_t>(seed), stream);
}

/// The value of cell (row, col) in a stream of values: in (-1, 1), never zero.
constexpr float cell_value(std::uint64_t stream, std::int64_t row, std::int64_t col) {
  return random_signed(stream,
                       (static_cast<std::uint64_t>(row) << 32) | static_cast<std::uint64_t>(col));
}

/// `count` distinct columns out of [0, cols), ascending, each such set equally likely.
std::vector<std::int32_t> distinct_cols(RandomSequence& random, std::int64_t count,
                                        std::int64_t cols);

/// A generator that calls `generate`, which has captured the parameters.
std::unique_ptr<Generator> make_generator(std::function<CsrMatrix()> generate);

}  // namespace tessera
