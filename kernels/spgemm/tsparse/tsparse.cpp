// tSparse (Zachariadis, Satpute, Gomez-Luna, Olivares: "Accelerating sparse matrix-matrix
// multiplication with GPU Tensor Cores", 2020, sections 3 and 4, algorithm 1): expand, sort,
// compress on 8 x 8 bitmap tiles. It lists the products of tiles, except those whose Boolean
// product is empty, and sorts them by the tile of C. A Boolean product gives each tile of C its
// cells. A warp makes two tiles of C with their operands on the diagonals of one MMA and pads the
// shorter list with zeros. It drops cells that become zero, and tiles of C that have no other
// cells. cores = scalar is its twin without tensor cores, FP32 throughout.
//
// counting = product and multiplication = pairs are those of the paper: a thread block for a pair
// of tiles of C, 16 x 16 x 16 products of FP16 tiles in registers, the cells of C counted by
// products of zeros and ones; cores = scalar then multiplies all eight steps of a pair of tiles
// (algorithm 2), zeros included. The public code has two pairs of tiles to a thread block; the
// paper is followed.
//
// Departures. Ours, counting = logic and multiplication = batches, finds the cells of C by 64-bit
// operations and loads tasks in batches; both operands of an m16n8k16 MMA are full (A0 and A1 on
// the diagonal, B0 above B1), so that half of the work of 16 x 16 x 16 is saved; the twin
// multiplies nonzeros only. In all variants slices of tile rows of A are listed and multiplied one
// after another, so that the list takes the memory of one slice, and C stays in bitmap tiles by
// slice; one stable radix sort of the bits that differ replaces the segmented sort; the counting
// also stores rows, columns and bitmaps of C's tiles, which the paper's multiplication finds. Each
// operand is scaled by a power of two into FP16's range unless range = refuse.
//
// An element of C is a chain, in the order of A's columns, of MMAs (tensor) or of fused
// multiply-adds (scalar).

#include "kernels/spgemm/tsparse/tsparse.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <utility>

#include "formats/base/check.hpp"
#include "formats/base/parallel.hpp"
#include "formats/base/registry.hpp"
#include "kernels/spgemm/tsparse/trace.hpp"
#include "kernels/spgemm_kernel.hpp"
#include "kernels/tensor_core/fused_rows.hpp"

namespace tessera {

using namespace tsparse;

tsparse::TsparseOptions::TsparseOptions(const Params& params)
    : on_tensor_cores(params.text("cores") == "tensor"),
      counts_by_products(params.text("counting") == "product"),
      multiplies_in_pairs(params.text("multiplication") == "pairs"),
      drops_zeros(params.text("zeros") == "drop"),
      scales(params.text("range") == "scale"),
      tasks_of_slice(params.integer("slice")) {}

namespace {

constexpr int kCells = kSide * kSide;

/// Returns B's tiles as rows of eight.
MmaOperand rows_of_tiles(const TileOperand& b) {
  DenseMatrix rows(std::ssize(b.tiles) * kSide, kSide);
  for (std::int64_t t = 0; t < std::ssize(b.tiles); ++t) {
    std::int64_t k = b.tiles[t].first_value;
    for (std::uint64_t rest = b.tiles[t].bitmap; rest != 0; rest &= rest - 1, ++k) {
      const int bit = std::countr_zero(rest);
      rows.at(t * kSide + bit % kSide, bit / kSide) = b.values[k];
    }
  }
  return {rows, Conversion::kFp16};
}

/// Adds products of tiles by MMAs to the cells of a tile of C.
class Mmas {
 public:
  Mmas(const TileOperand& a, const TileOperand& b, const FusedStep& step)
      : a_(&a), step_(step), rows_of_b_(rows_of_tiles(b)) {}

  /// Adds one half of an MMA of depth 16. The products of the other half are zeros here, before or
  /// after its own; neither they nor steps of only zeros change a sum.
  void add_product(const TileTask& task, std::span<float> sums) const {
    const Tile& a = a_->tiles[task.a];
    const int depth = std::min(step_.products, kSide);
    std::int64_t k = a.first_value;
    std::vector<StepTerm> terms;
    for (int row = 0; row < kSide; ++row)
      for (int begin = 0; begin < kSide; begin += depth) {
        terms.clear();
        for (int i = begin; i < begin + depth; ++i)
          if ((a.bitmap >> (kSide * row + i) & 1) != 0)
            terms.push_back({a_->values[k++], std::int64_t{task.b} * kSide + i});
        if (!terms.empty()) fused_step(step_, terms, rows_of_b_, sums.subspan(kSide * row, kSide));
      }
  }

 private:
  const TileOperand* a_;
  FusedStep step_;
  MmaOperand rows_of_b_;
};

/// The same by algorithm 2: all eight steps of each cell, zeros included.
class DenseSteps {
 public:
  DenseSteps(const TileOperand& a, const TileOperand& b) : a_(&a), b_(&b) {}

  void add_product(const TileTask& task, std::span<float> sums) const {
    const std::array<float, kCells> rows = cells_of(*a_, task.a), cols = cells_of(*b_, task.b);
    for (int cell = 0; cell < kCells; ++cell)
      for (int i = 0; i < kSide; ++i)
        sums[cell] =
            std::fma(rows[cell / kSide * kSide + i], cols[cell % kSide * kSide + i], sums[cell]);
  }

 private:
  /// The cells of a tile in the order of its bits.
  static std::array<float, kCells> cells_of(const TileOperand& operand, std::uint32_t tile) {
    std::array<float, kCells> cells{};
    std::int64_t k = operand.tiles[tile].first_value;
    for (std::uint64_t rest = operand.tiles[tile].bitmap; rest != 0; rest &= rest - 1)
      cells[std::countr_zero(rest)] = operand.values[k++];
    return cells;
  }

  const TileOperand* a_;
  const TileOperand* b_;
};

template <class Products>
class Emulation {
 public:
  Emulation(const TileOperand& a, const TileOperand& b, Products products)
      : a_(&a),
        b_(&b),
        products_(std::move(products)),
        factor_(std::ldexp(1.0, -a.exponent - b.exponent)) {}

  /// Appends a tile row of C.
  void add_row(std::int32_t row, bool drops_zeros, TilesOfC& c) const {
    const std::vector<TileTask> tasks = sorted_tasks(*a_, *b_, row);
    for (auto begin = tasks.begin(); begin != tasks.end();) {
      const std::int32_t col = b_->tiles[begin->b].col;
      const auto end = std::find_if(
          begin, tasks.end(), [&](const TileTask& task) { return b_->tiles[task.b].col != col; });
      add_tile(row, col, {begin, end}, drops_zeros, c);
      begin = end;
    }
  }

 private:
  void add_tile(std::int32_t row, std::int32_t col, std::span<const TileTask> tasks,
                bool drops_zeros, TilesOfC& c) const {
    std::array<float, kCells> sums{};
    for (const TileTask& task : tasks) products_.add_product(task, sums);
    std::uint64_t bitmap = 0;
    for (std::uint64_t rest = pattern_of(*a_, *b_, tasks); rest != 0; rest &= rest - 1) {
      const int cell = std::countr_zero(rest);
      const float value = unscaled(sums[static_cast<std::size_t>(cell)], factor_);
      if (drops_zeros && value == 0) continue;
      bitmap |= std::uint64_t{1} << cell;
      c.values.push_back(value);
    }
    if (bitmap == 0) return;
    c.tile_row.push_back(row);
    c.tile_col.push_back(col);
    c.bitmap.push_back(bitmap);
    c.first_value.push_back(std::ssize(c.values));
  }

  const TileOperand* a_;
  const TileOperand* b_;
  Products products_;
  double factor_;
};

CsrMatrix without_zeros(const CsrMatrix& c) {
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> cols;
  std::vector<float> values;
  for (std::int32_t row = 0; row < c.rows; ++row) {
    for (std::int64_t k = c.row_offsets[row]; k < c.row_offsets[row + 1]; ++k) {
      if (c.values[k] == 0) continue;
      cols.push_back(c.col_indices[k]);
      values.push_back(c.values[k]);
    }
    offsets.push_back(std::ssize(cols));
  }
  return {c.rows, c.cols, std::move(offsets), std::move(cols), std::move(values)};
}

class Tsparse final : public SpgemmKernel {
 public:
  explicit Tsparse(TsparseOptions options) : options_(options) {}

  int version() const override { return 1; }

  Arithmetic arithmetic() const override {
    if (!options_.on_tensor_cores) return {};
    return {.sum = Arithmetic::Sum::kTensorCore,
            .type = MmaType::kFp16,
            .mma_depth = 2 * kSide,
            .input_error = relative_error(Conversion::kFp16),
            .equilibrated = options_.scales};
  }

  bool keeps_zeros() const override { return !options_.drops_zeros; }

  std::vector<std::int64_t> terms_per_row(const CsrMatrix& a, const CsrMatrix& b) const override {
    return options_.on_tensor_cores ? tiles_per_row(a) : SpgemmKernel::terms_per_row(a, b);
  }

  WorkDescription work(const CsrMatrix& a, const CsrMatrix& b) const override {
    return describe_work(a, b, options_);
  }

  CsrMatrix emulate(const CsrMatrix& a, const CsrMatrix& b,
                    const Generation& generation) const override {
    require(a.cols == b.rows, "A has {} columns and B {} rows", a.cols, b.rows);
    if (options_.multiplies_zeros()) return emulate_tiles(a, b, generation);
    CsrMatrix c = multiply_rows(a, b);
    return options_.drops_zeros ? without_zeros(c) : c;
  }

 private:
  CsrMatrix emulate_tiles(const CsrMatrix& a, const CsrMatrix& b,
                          const Generation& generation) const {
    TileOperand tiles_a = make_operand(a, Side::kA, options_);
    TileOperand tiles_b = make_operand(b, Side::kB, options_);
    if (!options_.on_tensor_cores)
      return add_tiles(a.rows, b.cols, tiles_a, tiles_b, DenseSteps(tiles_a, tiles_b));
    round_to_fp16(tiles_a);
    round_to_fp16(tiles_b);
    return add_tiles(a.rows, b.cols, tiles_a, tiles_b,
                     Mmas(tiles_a, tiles_b, generation.step(MmaType::kFp16)));
  }

  template <class Products>
  CsrMatrix add_tiles(std::int32_t rows, std::int32_t cols, const TileOperand& tiles_a,
                      const TileOperand& tiles_b, Products products) const {
    const Emulation emulation(tiles_a, tiles_b, std::move(products));
    constexpr std::int64_t kRowsOfChunk = 16;
    std::vector<TilesOfC> chunks((tiles_a.tile_rows + kRowsOfChunk - 1) / kRowsOfChunk);
    parallel_for(tiles_a.tile_rows, kRowsOfChunk, [&](std::int64_t begin, std::int64_t end) {
      TilesOfC& chunk = chunks[begin / kRowsOfChunk];
      chunk.first_value.push_back(0);
      for (std::int64_t row = begin; row < end; ++row)
        emulation.add_row(static_cast<std::int32_t>(row), options_.drops_zeros, chunk);
    });
    return to_csr(rows, cols, chunks);
  }

  TsparseOptions options_;
};

const Register<SpgemmKernel> entry{{
    .name = "tsparse",
    .summary = "sorted products of 8 x 8 bitmap tiles, two tiles of C to a warp (tSparse)",
    .params =
        {{"cores",
          std::string("tensor"),
          "tensor: FP16 operands, FP32 sums; scalar: the twin without tensor cores, FP32",
          {"tensor", "scalar"}},
         {"counting",
          std::string("logic"),
          "cells of C: logic finds them by 64-bit operations; product multiplies tiles of zeros "
          "and "
          "ones (FP16 on tensor cores), a thread block for two tiles of C",
          {"logic", "product"}},
         {"multiplication",
          std::string("batches"),
          "batches: warps load 16 tasks at a time, scalar cores multiply nonzeros only; pairs: a "
          "thread block for two tiles of C, 16 x 16 x 16 products, scalar cores multiply zeros too",
          {"batches", "pairs"}},
         {"zeros",
          std::string("drop"),
          "drop removes cells of C that become zero; keep stores them",
          {"drop", "keep"}},
         {"range",
          std::string("scale"),
          "FP16 operands: scale multiplies A and B by a power of two each; refuse rejects values "
          "beyond FP16",
          {"scale", "refuse"}},
         {"slice",
          std::int64_t{1} << 26,
          "most products of tiles listed at a time, unless a single tile row of A has more",
          {},
          1,
          2147483647}},
    .make = [](const Params& params) { return std::make_unique<Tsparse>(TsparseOptions(params)); },
}};

}  // namespace
}  // namespace tessera
