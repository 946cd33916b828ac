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
      visit(window * kWindowRows + TallTiles::row_of(a.places[value]), value);
  }
}

narrowed::ScaledRows scale_rows(const PackedMatrix& packed) {
  return narrowed::scale_rows<TallTiles>(
      packed, [](const TallTiles& a, auto visit) { for_each_value(a, visit); });
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
