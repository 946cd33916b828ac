// What hp_spmm's host and device half have to agree on.
#pragma once

#include "kernels/spmm/row_pieces/row_pieces.hpp"

namespace tessera::hp_spmm {

row_pieces::Method method(const Params& params);

}  // namespace tessera::hp_spmm
