// The precision fp16_scaled of tessera_spmm: kernels/spmm/narrowed of its own kernels.

#include "kernels/spmm/tessera/scaled_rows.hpp"

#include "formats/base/check.hpp"
#include "formats/mosaic.hpp"
#include "kernels/spmm/narrowed/row_factors.hpp"
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

narrowed::ScaledRows scale_rows(const PackedMatrix& packed) {
  return narrowed::scale_rows<Mosaic>(
      packed, [](const Mosaic& a, auto visit) { for_each_value(a, visit); });
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
