// The precision fp16_scaled of tessera_spmm: kernels/spmm/narrowed of its own kernels.

#include "kernels/spmm/tessera/scaled_rows.hpp"

#include <algorithm>
#include <cmath>

#include "formats/base/check.hpp"
#include "formats/mosaic.hpp"
#include "kernels/spmm/narrowed/narrowed_b.hpp"
#include "kernels/storage_params.hpp"

namespace tessera::tessera_spmm {
namespace {

/// Calls visit(row, index of the value) for every nonzero.
template <class Visit>
void for_each_value(const Mosaic& a, Visit visit) {
  for (std::int64_t window = 0; window < a.num_windows(); ++window) {
    for (std::int64_t tile = a.window_offset[window]; tile < a.window_offset[window + 1]; ++tile) {
      std::int64_t value = a.tile_offset[tile];
      for (int bit = 0; bit < Mosaic::kWindowRows * Mosaic::kTileCols; ++bit)
        if (a.bitmaps[tile].has(bit))
          visit(window * Mosaic::kWindowRows + Mosaic::row_of(bit), value++);
    }
  }
}

/// Throws Unsupported for a row whose largest magnitude cannot be scaled.
narrowed::ScaledRows scale_rows(const PackedMatrix& packed) {
  const auto& a = packed_as<Mosaic>(packed);
  std::vector<float> factors(static_cast<std::size_t>(a.rows()), 0.0f);
  for_each_value(a, [&](std::int64_t row, std::int64_t value) {
    const float magnitude = std::abs(a.values[value]);
    if (magnitude > factors[row] || std::isnan(magnitude)) factors[row] = magnitude;
  });
  for (std::size_t row = 0; row < factors.size(); ++row) {
    const float factor = narrowed::factor_of(factors[row], narrowed::kRowExponent);
    require<Unsupported>(factor != 0,
                         "fp16_scaled takes rows of A whose largest magnitude is between 2^-{} and "
                         "2^{}; that of row {} is {}",
                         narrowed::kMostExponent, narrowed::kMostExponent + 1, row, factors[row]);
    factors[row] = factor;
  }
  auto scaled = std::make_unique<Mosaic>(a.rows(), a.cols(), a.nnz());
  scaled->window_offset = a.window_offset;
  scaled->tile_offset = a.tile_offset;
  scaled->tile_cols = a.tile_cols;
  scaled->bitmaps = a.bitmaps;
  scaled->values = a.values;
  for_each_value(
      a, [&](std::int64_t row, std::int64_t value) { scaled->values[value] *= factors[row]; });
  for (float& factor : factors) factor = 1 / factor;
  return {std::move(scaled), std::move(factors)};
}

}  // namespace

bool is_narrowed(const Params& params) {
  if (params.text("precision") != "fp16_scaled") return false;
  require(storage_of(params) == Storage{}, "precision = fp16_scaled is of B and C in FP32");
  require(params.text("combine") == "ordered", "precision = fp16_scaled needs combine = ordered");
  require(params.integer("columns") != 32,
          "a warp with precision = fp16_scaled has 64 or 128 columns");
  return true;
}

narrowed::Recipe narrowed_recipe(const Params& params) {
  return {.kernel = "tessera_spmm",
          .params = params,
          .changes = {{"precision", std::string("tf32_even")}},
          .scale_rows = scale_rows};
}

}  // namespace tessera::tessera_spmm
