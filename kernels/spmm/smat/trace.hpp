// The work description and the warp trace of smat, for every rung.
#pragma once

#include <memory>

#include "kernels/spmm/smat/smat.hpp"
#include "kernels/work.hpp"

namespace tessera::smat {

/// For a B of n columns. The trace keeps `tiles`, which refer to the matrix.
WorkDescription describe_work(const Bcsr& a, std::shared_ptr<const Tiles> tiles,
                              const SmatOptions& options, std::int64_t n);

}  // namespace tessera::smat
