// SpGEMM by bitmap tiles, ours. tile_spgemm finds the tiles of C as row_spgemm finds columns
// (kernels/spgemm/row/row_spgemm.hpp), one level up: it marks tile columns in a bitmap, and the
// rank of a mark is the index of its tile. A thread block processes a tile row of C, or a slice of
// a long one. Pairs of tiles, one of A and one of B, whose Boolean product is not empty mark tiles
// of C and their cells. Once the rows of C are known, the thread block repeats this, lists the
// pairs of each tile in the order of A's tile columns, all in shared memory, and a warp adds up a
// tile of C and writes the sums to CSR. kernels/spgemm/tile/schedule.hpp assigns the work.
// tSparse (kernels/spgemm/tsparse/tsparse.cpp), by contrast, sorts one list of all pairs, reads
// tiles and writes tiles.
//
// MMAs are m16n8: a tile fills half of the sixteen rows. For tf32x3 the other half holds the small
// parts of A's values; the MMA multiplies them by B's small parts, then by B's large parts. A pair
// thus takes two MMAs without zeros instead of three with a half of zeros, and no product is
// dropped; the sums of both halves are added at the end. fp16 places two pairs of the same tile of
// C and of the same batch of A's tiles along its depth of sixteen; tf32 places one.
//
// An element of C is a chain of MMAs in the order of A's tile columns, two chains for tf32x3.

#include "kernels/spgemm/tile/tile_spgemm.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <climits>
#include <cmath>
#include <span>

#include "formats/base/check.hpp"
#include "formats/base/parallel.hpp"
#include "formats/base/registry.hpp"
#include "formats/bitmap_tile.hpp"
#include "kernels/spgemm/tile/counts.hpp"
#include "kernels/spgemm/tile/trace.hpp"
#include "kernels/spgemm_kernel.hpp"
#include "kernels/tensor_core/fused_rows.hpp"
#include "kernels/tensor_core/precision.hpp"

namespace tessera {

using namespace tile_spgemm;
using spgemm::TilesOfC;
using spgemm::to_csr;

TileArithmetic tile_spgemm::read_arithmetic(const Params& params) {
  const std::string name = params.text("precision");
  return name == "fp16"   ? TileArithmetic::kFp16
         : name == "tf32" ? TileArithmetic::kTf32
                          : TileArithmetic::kTf32x3;
}

namespace {

constexpr std::size_t kCells = kSide * kSide;

const Precision& precision_of(TileArithmetic arithmetic) {
  return find_precision(arithmetic == TileArithmetic::kFp16   ? "fp16"
                        : arithmetic == TileArithmetic::kTf32 ? "tf32"
                                                              : "tf32x3");
}

float largest_magnitude(const CsrMatrix& matrix) {
  float largest = 0;
  for (const float value : matrix.values) largest = std::max(largest, std::abs(value));
  return largest;
}

/// A matrix as tiles by row. Its values are scaled for FP16, but not converted.
struct Operand {
  Operand(const CsrMatrix& matrix, TileArithmetic arithmetic) {
    const auto format = Registry<Format>::instance().make(BitmapTile::kFormat);
    const auto packed = format->pack(matrix);
    const auto& tiles = packed_as<BitmapTile>(*packed);
    bitmaps.assign(tiles.bitmap.begin(), tiles.bitmap.end());
    first_values.assign(tiles.value_offset.begin(), tiles.value_offset.end());
    cols.assign(tiles.tile_col.begin(), tiles.tile_col.end());
    if (arithmetic == TileArithmetic::kFp16) exponent = scaling_exponent(largest_magnitude(matrix));
    for (const float value : tiles.values) values.push_back(std::ldexp(value, exponent));
    row_begin.assign(static_cast<std::size_t>(tiles_across(matrix.rows)) + 1, 0);
    for (const std::int32_t row : tiles.tile_row) ++row_begin[row + 1];
    for (std::size_t row = 1; row < row_begin.size(); ++row) row_begin[row] += row_begin[row - 1];
  }

  std::vector<std::uint64_t> bitmaps;      // [tiles]
  std::vector<std::int64_t> first_values;  // [tiles]
  std::vector<std::int32_t> cols;          // [tiles]
  std::vector<std::int64_t> row_begin;     // [tile rows + 1]
  std::vector<float> values;               // [nnz]
  int exponent = 0;
};

/// Returns one part of B's values, with tiles as rows of eight.
MmaOperand rows_of_tiles(const Operand& b, const Precision& precision, std::size_t part) {
  DenseMatrix rows(std::ssize(b.bitmaps) * kSide, kSide);
  for (std::int64_t t = 0; t < std::ssize(b.bitmaps); ++t) {
    std::int64_t k = b.first_values[t];
    for (std::uint64_t rest = b.bitmaps[t]; rest != 0; rest &= rest - 1, ++k) {
      const int bit = std::countr_zero(rest);
      rows.at(t * kSide + bit / kSide, bit % kSide) = split(b.values[k], precision)[part];
    }
  }
  return {rows, precision.conversion};
}

/// The indices of a tile of A and a tile of B that are multiplied.
struct Pair {
  std::int64_t a, b;
};

class Emulation {
 public:
  Emulation(const Operand& a, const Operand& b, TileArithmetic arithmetic, const FusedStep& step)
      : a_(&a),
        b_(&b),
        arithmetic_(arithmetic),
        precision_(&precision_of(arithmetic)),
        step_(step),
        factor_(std::ldexp(1.0, -a.exponent - b.exponent)) {
    for (std::size_t part = 0; part < static_cast<std::size_t>(precision_->parts); ++part)
      parts_of_b_.push_back(rows_of_tiles(b, *precision_, part));
    for (const float value : a.values) values_of_a_.push_back(split(value, *precision_));
  }

  /// Appends a tile row of C.
  void add_row(std::int32_t row, TilesOfC& c) const {
    const std::vector<Pair> pairs = sorted_pairs(row);
    for (auto begin = pairs.begin(); begin != pairs.end();) {
      const std::int32_t col = b_->cols[begin->b];
      const auto end = std::find_if(begin, pairs.end(),
                                    [&](const Pair& pair) { return b_->cols[pair.b] != col; });
      add_tile(row, col, {begin, end}, c);
      begin = end;
    }
  }

 private:
  using Sums = std::array<float, kCells>;

  /// One product of a row of C, and its depth index in the MMA.
  struct Term {
    Parts a;
    std::int64_t b_row;
    int place;
  };

  /// Returns the pairs of one tile row of C by tile column, those of a tile in A's order.
  std::vector<Pair> sorted_pairs(std::int32_t row) const {
    std::vector<Pair> pairs;
    for (std::int64_t t = a_->row_begin[row]; t < a_->row_begin[row + 1]; ++t) {
      const std::int32_t of_b = a_->cols[t];
      for (std::int64_t u = b_->row_begin[of_b]; u < b_->row_begin[of_b + 1]; ++u)
        if ((inner_indices(a_->bitmaps[t]) & inner_indices(transposed(b_->bitmaps[u]))) != 0)
          pairs.push_back({t, u});
    }
    std::ranges::stable_sort(pairs, {}, [&](const Pair& pair) { return b_->cols[pair.b]; });
    return pairs;
  }

  std::uint64_t pattern_of(std::span<const Pair> pairs) const {
    std::uint64_t pattern = 0;
    for (int row = 0; row < kSide; ++row) {
      std::uint64_t bytes = 0;
      for (const Pair& pair : pairs)
        bytes |= products_of_row(a_->bitmaps[pair.a], transposed(b_->bitmaps[pair.b]), row);
      pattern |= std::uint64_t{nonzero_bytes(bytes)} << kSide * row;
    }
    return pattern;
  }

  void add_tile(std::int32_t row, std::int32_t col, std::span<const Pair> pairs,
                TilesOfC& c) const {
    std::array<Sums, 2> sums{};  // of A's large parts and of its small parts
    const auto batch_of = [&](const Pair& pair) {
      return (pair.a - a_->row_begin[row]) / kTilesOfBatch;
    };
    for (std::size_t i = 0; i < pairs.size();) {
      std::size_t end = i + 1;
      while (end < pairs.size() && end - i < static_cast<std::size_t>(pairs_of_mma(arithmetic_)) &&
             batch_of(pairs[end]) == batch_of(pairs[i]))
        ++end;
      add_mmas(pairs.subspan(i, end - i), sums);
      i = end;
    }
    const std::uint64_t pattern = pattern_of(pairs);
    for (std::uint64_t rest = pattern; rest != 0; rest &= rest - 1) {
      const auto cell = static_cast<std::size_t>(std::countr_zero(rest));
      const float sum =
          precision_->parts == 2 ? add_on_gpu(sums[0][cell], sums[1][cell]) : sums[0][cell];
      c.values.push_back(unscaled(sum, factor_));
    }
    c.tile_row.push_back(row);
    c.tile_col.push_back(col);
    c.bitmap.push_back(pattern);
    c.first_value.push_back(std::ssize(c.values));
  }

  /// Adds the MMAs of the pairs of one group; B's small parts come first.
  void add_mmas(std::span<const Pair> pairs, std::array<Sums, 2>& sums) const {
    for (int row = 0; row < kSide; ++row) {
      const std::vector<Term> terms = terms_of(pairs, row);
      if (terms.empty()) continue;
      for (auto part_of_b = parts_of_b_.rbegin(); part_of_b != parts_of_b_.rend(); ++part_of_b)
        for (std::size_t part = 0; part < parts_of_b_.size(); ++part)
          add_steps(terms, part, *part_of_b, std::span(sums[part]).subspan(kSide * row, kSide));
    }
  }

  std::vector<Term> terms_of(std::span<const Pair> pairs, int row) const {
    std::vector<Term> terms;
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      const auto [a, b] = pairs[i];
      const std::uint64_t above = a_->bitmaps[a] & ((std::uint64_t{1} << kSide * row) - 1);
      std::int64_t k = a_->first_values[a] + std::popcount(above);
      for (int inner = 0; inner < kSide; ++inner)
        if ((a_->bitmaps[a] >> (kSide * row + inner) & 1) != 0)
          terms.push_back({values_of_a_[k++], b * kSide + inner,
                           place_in_depth(arithmetic_, static_cast<int>(i), inner)});
    }
    return terms;
  }

  void add_steps(const std::vector<Term>& terms, std::size_t part, const MmaOperand& b,
                 std::span<float> sums) const {
    const int depth = kSide * pairs_of_mma(arithmetic_), products = std::min(step_.products, depth);
    std::vector<StepTerm> of_step;
    for (int begin = 0; begin < depth; begin += products) {
      of_step.clear();
      for (const Term& term : terms)
        if (term.place >= begin && term.place < begin + products)
          of_step.push_back({term.a[part], term.b_row});
      if (!of_step.empty()) fused_step(step_, of_step, b, sums);
    }
  }

  const Operand* a_;
  const Operand* b_;
  TileArithmetic arithmetic_;
  const Precision* precision_;
  FusedStep step_;
  std::vector<Parts> values_of_a_;  // [nonzeros]
  std::vector<MmaOperand> parts_of_b_;
  double factor_;
};

class TileSpgemm final : public SpgemmKernel {
 public:
  explicit TileSpgemm(TileArithmetic arithmetic) : arithmetic_(arithmetic) {}

  int version() const override { return 3; }

  /// A pair in two parts takes two MMAs. The chain of small parts and the final addition together
  /// lose less than a third MMA in the same chain would.
  Arithmetic arithmetic() const override {
    const Precision& precision = precision_of(arithmetic_);
    return {.sum = Arithmetic::Sum::kTensorCore,
            .type = type_of(precision.conversion),
            .mma_depth = kSide * pairs_of_mma(arithmetic_),
            .input_error = precision.input_error,
            .mmas_per_chunk = arithmetic_ == TileArithmetic::kTf32x3 ? 3 : 1,
            .equilibrated = arithmetic_ == TileArithmetic::kFp16};
  }

  std::vector<std::int64_t> terms_per_row(const CsrMatrix& a, const CsrMatrix&) const override {
    return spgemm::tiles_per_row(a);
  }

  WorkDescription work(const CsrMatrix& a, const CsrMatrix& b) const override {
    return describe_work(a, b, arithmetic_);
  }
  WorkCounts count_work(const spgemm::ProductSketch& product) const override {
    check_operands(product.a(), product.b(), arithmetic_);
    return tile_spgemm::count_work(product);
  }

  CsrMatrix emulate(const CsrMatrix& a, const CsrMatrix& b,
                    const Generation& generation) const override {
    check_operands(a, b, arithmetic_);
    const Operand tiles_a(a, arithmetic_), tiles_b(b, arithmetic_);
    const Emulation emulation(tiles_a, tiles_b, arithmetic_,
                              generation.step(type_of(precision_of(arithmetic_).conversion)));
    constexpr std::int64_t kRowsOfSlice = 16;
    const std::int64_t rows = tiles_across(a.rows);
    std::vector<TilesOfC> slices((rows + kRowsOfSlice - 1) / kRowsOfSlice);
    parallel_for(rows, kRowsOfSlice, [&](std::int64_t begin, std::int64_t end) {
      TilesOfC& slice = slices[begin / kRowsOfSlice];
      slice.first_value.push_back(0);
      for (std::int64_t row = begin; row < end; ++row)
        emulation.add_row(static_cast<std::int32_t>(row), slice);
    });
    return to_csr(a.rows, b.cols, slices);
  }

 private:
  TileArithmetic arithmetic_;
};

const Register<SpgemmKernel> entry{{
    .name = "tile_spgemm",
    .summary = "ours for dense tiles: CSR to 8 x 8 bitmap tiles and back, tiles of C by their rank",
    .params = {{"precision",
                std::string("tf32x3"),
                "operands of the MMAs: tf32x3, two TF32 parts each, about as accurate as FP32; "
                "tf32, one part; fp16, scaled by a power of two for each matrix",
                {"fp16", "tf32", "tf32x3"}},
               {"reuse", false, "keep the structure of a product, to repeat it with other values"}},
    .make =
        [](const Params& params) { return std::make_unique<TileSpgemm>(read_arithmetic(params)); },
}};

}  // namespace

void tile_spgemm::check_operands(const CsrMatrix& a, const CsrMatrix& b,
                                 TileArithmetic arithmetic) {
  require(a.cols == b.rows, "A has {} columns and B {} rows", a.cols, b.rows);
  for (const CsrMatrix* matrix : {&a, &b}) {
    const char name = matrix == &a ? 'A' : 'B';
    require<Unsupported>(matrix->nnz() <= INT_MAX,
                         "tile_spgemm counts nonzeros in 32 bits, and {} has {}", name,
                         matrix->nnz());
    check_values(matrix->values, name, arithmetic);
  }
}

void tile_spgemm::check_values(std::span<const float> values, char name,
                               TileArithmetic arithmetic) {
  for (const float value : values) {
    const bool fits = arithmetic == TileArithmetic::kFp16
                          ? std::isfinite(value)
                          : std::isfinite(convert(value, Conversion::kTf32));
    require<Unsupported>(fits, "{} holds the value {}, which the zeros of a tile would spread",
                         name, value);
  }
}

}  // namespace tessera
