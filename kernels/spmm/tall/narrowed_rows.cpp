// The precision fp16_scaled of tall_spmm: kernels/spmm/narrowed of its own kernels.

#include "kernels/spmm/narrowed/row_factors.hpp"
#include "kernels/spmm/tall/tall_spmm.hpp"

namespace tessera::tall_spmm {
namespace {

/// Calls visit(row, index of the value) for every nonzero.
template <class Visit>
void for_each_value(const TallTiles& a, Visit visit) {
  for (std::int64_t window = 0; window < a.num_windows(); ++window) {
    const std::int64_t first = a.tile_offset[a.window_offset[window]],
                       last = a.tile_offset[a.window_offset[window + 1]];
    for (std::int64_t value = first; value < last; ++value)
      visit(window * kWindowRows + a.places[value] / kTileCols, value);
  }
}

narrowed::ScaledRows scale_rows(const PackedMatrix& packed) {
  const auto& a = packed_as<TallTiles>(packed);
  narrowed::RowFactors factors(a.rows());
  for_each_value(a,
                 [&](std::int64_t row, std::int64_t value) { factors.see(row, a.values[value]); });
  factors.close();
  auto scaled = std::make_unique<TallTiles>(a.rows(), a.cols(), a.nnz());
  scaled->window_offset = a.window_offset;
  scaled->tile_offset = a.tile_offset;
  scaled->tile_cols = a.tile_cols;
  scaled->places = a.places;
  scaled->values = a.values;
  for_each_value(
      a, [&](std::int64_t row, std::int64_t value) { scaled->values[value] *= factors.of(row); });
  return {std::move(scaled), factors.inverses()};
}

}  // namespace

bool is_narrowed(const Params& params) {
  return params.text("precision") == "fp16_scaled" && params.text("storage") == "fp32";
}

narrowed::Recipe narrowed_recipe(const Params& params) {
  return {.kernel = "tall_spmm",
          .params = params,
          .changes = {{"precision", std::string("fp32")}},
          .scale_rows = scale_rows};
}

}  // namespace tessera::tall_spmm
