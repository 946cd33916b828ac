// What smat's launch does, for every rung.
#pragma once

#include <memory>

#include "kernels/spmm/smat/smat.hpp"
#include "kernels/work.hpp"

namespace tessera::smat {

/// For a B of n columns. The trace keeps the pieces, and refers to the matrix.
WorkDescription describe_work(const Bcsr& a, std::shared_ptr<const Pieces> pieces,
                              const SmatOptions& choices, std::int64_t n);

}  // namespace tessera::smat
