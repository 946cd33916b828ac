// The method of dgsparse, which its host half and its device half share.
#pragma once

#include "kernels/spmm/row_pieces/row_pieces.hpp"

namespace tessera::dgsparse {

row_pieces::Method method(const Params& params);

}  // namespace tessera::dgsparse
