// Our own SpMM on wgmma: row windows of 64 rows, so that a row of B is fetched once for 64 rows of
// A, and tiles of 64 condensed columns that are expanded in shared memory.
//
// tessera_spmm has its elements of A in registers, which a lane finds by bitmaps, anew for every
// 16 rows. Here a thread writes each nonzero of a tile to its place in shared memory, where wgmma
// reads it: a nonzero costs an instruction for a lane, not a tile of 16 x 8 cells some forty for a
// warp. What remains is to fetch the rows of B, by cp.async, two tiles ahead. In FP16 the rows of
// 128 columns are 256 bytes; the right operand of wgmma may lie as they do, row by row, where its
// elements have 16 bits. TF32 has no such operand: B in FP32 is narrowed first
// (kernels/spmm/narrowed), or multiplied on CUDA cores where FP16 would harm it.
//
// A zero of a tile meets B, whose infinities and NaNs make NaNs of it for all 64 rows.

#include "kernels/spmm/tall/tall_spmm.hpp"

#include <algorithm>

#include "formats/base/check.hpp"
#include "formats/base/parallel.hpp"
#include "formats/base/registry.hpp"
#include "kernels/spmm/row_windows/window_tiles.hpp"
#include "kernels/spmm/scaled_row.hpp"
#include "kernels/spmm/tall/tall_work.hpp"
#include "kernels/spmm_kernel.hpp"
#include "kernels/storage_params.hpp"

namespace tessera {

namespace tall_spmm {

TallSpmmOptions::TallSpmmOptions(const Params& params)
    : storage_(storage_of(params)),
      precision_(find_precision(is_wide() ? "fp16" : std::string(name_of(storage_.b)))),
      max_tiles_(params.integer("max_tiles")) {}

std::vector<ParamSpec> params() {
  std::vector<ParamSpec> params = storage_params(
      "the type of B in memory; with 16 bits, A is rounded to it and multiplied in it");
  params.insert(
      params.begin(),
      {"precision",
       std::string("fp16_scaled"),
       "how a B in FP32 is multiplied: rounded to FP16 under a power of two for every column, in a "
       "launch of its own, and rows of A likewise when packed (fp16_scaled), or as it is, on CUDA "
       "cores (fp32)",
       {"fp16_scaled", "fp32"}});
  params.push_back({"max_tiles",
                    std::int64_t{0},
                    "tiles of a task, of which longer windows are several; 0: by the matrix and "
                    "the width of C",
                    {},
                    0,
                    1 << 20});
  return params;
}

}  // namespace tall_spmm

namespace {

using namespace tall_spmm;

/// The nonzeros of a row in a tile, by ascending columns: indices into values.
struct RowNonzeros {
  std::int64_t first, last;
};

RowNonzeros nonzeros_of(const TallTiles& a, std::int64_t tile, int row) {
  const auto begin = a.places.begin() + a.tile_offset[tile];
  const auto end = a.places.begin() + a.tile_offset[tile + 1];
  const auto first = std::lower_bound(begin, end, TallTiles::place_of(row, 0));
  const auto last = std::lower_bound(first, end, TallTiles::place_of(row + 1, 0));
  return {first - a.places.begin(), last - a.places.begin()};
}

/// A row of C by tiles one after another.
class RowEmulation {
 public:
  RowEmulation(const TallTiles& a, const Precision& precision, const FusedStep& step,
               const PreparedB& b)
      : a_(a), precision_(precision), step_(step), b_(b) {}

  /// Adds tiles [first, last) to row `row` of their window; `c` [n] holds zeros on entry.
  void run_row(int row, std::int64_t first, std::int64_t last, std::span<float> c) {
    RowChain chain(precision_, step_, b_, c);
    for (std::int64_t tile = first; tile < last; ++tile) {
      const RowNonzeros nonzeros = nonzeros_of(a_, tile, row);
      if (nonzeros.first == nonzeros.last && b_.part(0).all_finite()) continue;
      std::int64_t next = nonzeros.first;
      for (int begin = 0; begin < kTileCols; begin += kStepDepth) {
        take_terms(tile, nonzeros, begin, next);
        if (!terms_.empty()) chain.add(terms_);
      }
    }
    chain.finish();
  }

 private:
  /// Reads the terms of a step, from nonzero `next` on. Columns in which the row has no nonzero
  /// reach it where B is not finite, padding does not.
  void take_terms(std::int64_t tile, const RowNonzeros& nonzeros, int begin, std::int64_t& next) {
    terms_.clear();
    for (int k = 0; k < kStepDepth; ++k) {
      const std::int32_t col = a_.tile_cols[tile * kTileCols + begin + k];
      if (col == kNoColumn) continue;
      if (next < nonzeros.last && TallTiles::col_of(a_.places[next]) == begin + k)
        terms_.push_back({split(a_.values[next++], precision_), col, k});
      else if (!b_.part(0).row_is_finite(col))
        terms_.push_back({{}, col, k});
    }
  }

  const TallTiles& a_;
  const Precision& precision_;
  const FusedStep& step_;
  const PreparedB& b_;
  std::vector<ChunkTerm> terms_;
};

class TallSpmm final : public SpmmKernel {
 public:
  explicit TallSpmm(const TallSpmmOptions& options) : options_(options) {}

  std::string format() const override { return TallTiles::kFormat; }
  int version() const override { return 2; }

  Arithmetic arithmetic() const override {
    if (options_.is_wide()) return {.storage = options_.storage()};
    return {.sum = Arithmetic::Sum::kTensorCore,
            .type = type_of(options_.precision().conversion),
            .mma_depth = kStepDepth,
            .input_error = options_.precision().input_error,
            .storage = options_.storage()};
  }

  /// Of wide products the nonzeros; else the steps that hold one, and the parts of a split window
  /// at the width of C that has the most.
  std::vector<std::int64_t> terms_per_row(const PackedMatrix& packed) const override {
    const auto& a = packed_as<TallTiles>(packed);
    std::vector<std::int64_t> terms(static_cast<std::size_t>(a.rows()), 0);
    for_each_row(a, [&](std::int64_t window, int in_window, std::int64_t row) {
      for (std::int64_t tile = a.window_offset[window]; tile < a.window_offset[window + 1];
           ++tile) {
        const RowNonzeros nonzeros = nonzeros_of(a, tile, in_window);
        int last = -1;  // step with a nonzero
        for (std::int64_t k = nonzeros.first; k < nonzeros.last; ++k) {
          const int step = TallTiles::col_of(a.places[k]) / kStepDepth;
          if (options_.is_wide() || step != last) ++terms[row];
          last = step;
        }
      }
    });
    if (options_.is_wide()) return terms;
    row_windows::add_split_terms(a, options_.plan(a.window_offset, 1).tasks, terms);
    return terms;
  }

  DenseMatrix emulate(const PackedMatrix& packed, const DenseMatrix& b,
                      const Generation& generation) const override {
    const auto& a = packed_as<TallTiles>(packed);
    return options_.is_wide() ? emulate_wide(a, b) : emulate_mmas(a, b, generation);
  }

  WorkDescription work(const PackedMatrix& packed, std::int64_t n) const override {
    const auto& a = packed_as<TallTiles>(packed);
    return options_.is_wide() ? describe_wide(a, n) : describe(a, n, options_);
  }

 private:
  /// Calls visit(window, row of the window, row) for every row, in parallel.
  template <class Visit>
  static void for_each_row(const TallTiles& a, Visit visit) {
    parallel_for(a.rows(), kWindowRows, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row)
        visit(row / kWindowRows, static_cast<int>(row % kWindowRows), row);
    });
  }

  /// A row's nonzeros by ascending columns, each a fused multiply-add.
  static DenseMatrix emulate_wide(const TallTiles& a, const DenseMatrix& b) {
    DenseMatrix c(a.rows(), b.cols);
    for_each_row(a, [&](std::int64_t window, int in_window, std::int64_t row) {
      const std::span<float> sums = c.row(row);
      for (std::int64_t tile = a.window_offset[window]; tile < a.window_offset[window + 1];
           ++tile) {
        const RowNonzeros nonzeros = nonzeros_of(a, tile, in_window);
        for (std::int64_t k = nonzeros.first; k < nonzeros.last; ++k)
          add_scaled_row(
              a.values[k],
              b.row(a.tile_cols[tile * kTileCols + TallTiles::col_of(a.places[k])]).data(),
              sums.data(), b.cols);
      }
      // The GPU has one NaN.
      for (float& sum : sums)
        if (std::isnan(sum)) sum = std::bit_cast<float>(0x7fffffffu);
    });
    return c;
  }

  DenseMatrix emulate_mmas(const TallTiles& a, const DenseMatrix& b,
                           const Generation& generation) const {
    const Plan plan = options_.plan(a.window_offset, b.cols);
    const FusedStep& step = generation.step(type_of(options_.precision().conversion));
    const PreparedB prepared(b, options_.precision());
    return row_windows::emulate_tasks(a, plan.tasks, b.cols, [&] {
      return RowEmulation(a, options_.precision(), step, prepared);
    });
  }

  TallSpmmOptions options_;
};

const Register<SpmmKernel> entry{{
    .name = "tall_spmm",
    .summary = "tiles of 64 x 64 condensed columns by wgmma in 16 bits, rows of B fetched once for "
               "64 rows (ours)",
    .params = tall_spmm::params(),
    .make = [](const Params& params) -> std::unique_ptr<SpmmKernel> {
      if (tall_spmm::is_narrowed(params))
        return narrowed::make_kernel(tall_spmm::narrowed_recipe(params));
      return std::make_unique<TallSpmm>(TallSpmmOptions(params));
    },
}};

}  // namespace
}  // namespace tessera
