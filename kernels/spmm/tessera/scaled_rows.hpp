// The precision fp16_scaled of tessera_spmm: B narrowed on the device, rows of A scaled at packing.
#pragma once

#include "kernels/spmm/narrowed/narrowed_spmm.hpp"

namespace tessera::tessera_spmm {

/// Whether the precision is fp16_scaled. Throws an Error where B and C are not in FP32.
bool is_narrowed(const Params& params);

/// tessera_spmm with B in FP16, and in TF32 for what cannot be narrowed.
narrowed::Recipe narrowed_recipe(const Params& params);

}  // namespace tessera::tessera_spmm
