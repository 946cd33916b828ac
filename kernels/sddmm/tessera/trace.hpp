// The work of tessera_sddmm: what its thread blocks do, and its warp trace.
#pragma once

#include "kernels/sddmm/tessera/tessera_sddmm.hpp"
#include "kernels/work.hpp"

namespace tessera::tessera_sddmm {

/// The work of a product with an X and a Y of k columns. It refers to `a`.
WorkDescription describe_work(const Mosaic& a, const TesseraSddmmOptions& options, std::int64_t k);

}  // namespace tessera::tessera_sddmm
